"""Carrying out a plan: bytes from the source to one target file, in order, with bounded memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from mindport.checkpoint import ckpt, safetensors
from mindport.checkpoint.plan import Output, Plan
from mindport.checkpoint.source import TensorEntry, changed_while_reading
from mindport.layout.trace import row_count

CHUNK = 1 << 20
"""Bytes copied at a time; larger buffers are not faster."""

Progress = Callable[[int], None]
"""Called with the number of bytes just written."""


Piece = tuple[str, bytes | memoryview]
"""Some bytes of a file, and the tensor whose values they are; "" where they describe instead."""


def write_safetensors(plan: Plan, path: Path, progress: Progress, metadata: dict[str, str]) -> None:
    """Write the plan's outputs as one safetensors file, flushed to disk.

    Raises:
        MindportError: the source changed while it was read.
        OSError: the disk is full, or the target cannot be written.
    """
    with Reader(plan) as reader:
        _write(safetensors_pieces(plan, reader, metadata), path, progress)


def write_ckpt(plan: Plan, path: Path, progress: Progress) -> None:
    """Write the plan's outputs as one MindSpore `.ckpt` file, flushed to disk.

    Raises:
        MindportError: the source changed while it was read.
        OSError: the disk is full, or the target cannot be written.
    """
    with Reader(plan) as reader:
        _write(ckpt_pieces(plan, reader), path, progress)


def safetensors_pieces(plan: Plan, reader: Reader, metadata: dict[str, str]) -> Iterator[Piece]:
    """Every byte of the plan's safetensors file, in order."""
    header, _ = safetensors.make_header([(o.name, o.dtype, o.shape) for o in plan.outputs], metadata)
    yield "", header
    for output in plan.outputs:
        for content in reader.content(output):
            yield output.name, content


def ckpt_pieces(plan: Plan, reader: Reader) -> Iterator[Piece]:
    """Every byte of the plan's `.ckpt` file, in order."""
    for output in plan.outputs:
        content = reader.content(output)
        pending = memoryview(b"")
        for head, _, length in ckpt.slices(output.name, output.dtype, output.shape):
            yield "", head
            while length:
                pending = pending or memoryview(next(content))
                yield output.name, pending[:length]
                length, pending = length - min(length, len(pending)), pending[length:]


def _write(pieces: Iterable[Piece], path: Path, progress: Progress) -> None:
    with path.open("wb") as file:
        for tensor, content in pieces:
            file.write(content)
            if tensor:
                progress(len(content))
        file.flush()
        os.fsync(file.fileno())


class Reader:
    """Open source files, and the content of outputs as a stream of chunks."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._files: dict[Path, BinaryIO] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def content(self, output: Output) -> Iterator[bytes]:
        """The output's bytes in order, at most CHUNK at a time."""
        if output.runs is None:
            yield from self._rearranged(output)
            return
        for run in output.runs:
            entry = self._plan.source[run.tensor]
            row = entry.nbytes // row_count(entry.shape) if entry.nbytes else 0
            yield from self._range(entry, run.start * row, run.rows * row)

    def bytes_of(self, entry: TensorEntry) -> Iterator[bytes]:
        """One source tensor as it lies, at most CHUNK at a time."""
        return self._range(entry, 0, entry.nbytes)

    def _rearranged(self, output: Output) -> Iterator[bytes]:
        plan = self._plan
        wanted = dict.fromkeys(plan.slots[part][0] for part in output.stored.parts)
        pieces = {}
        for tensor in wanted:
            stored = next(plan.slots[part][2] for part in output.stored.parts if plan.slots[part][0] == tensor)
            pieces[tensor] = stored.split(plan.source[tensor].read(), [plan.slot_shapes[p] for p in stored.parts])
        whole = output.stored.join([pieces[plan.slots[p][0]][plan.slots[p][1]] for p in output.stored.parts])
        count = row_count(whole.shape)
        rows = whole.reshape(count, whole.size // max(1, count))
        step = max(1, CHUNK // max(1, rows.shape[1] * rows.itemsize))
        for start in range(0, rows.shape[0], step):
            yield rows[start : start + step].tobytes()

    def _range(self, entry: TensorEntry, start: int, length: int) -> Iterator[bytes]:
        file = self._files.get(entry.path)
        if file is None:
            try:
                file = self._files[entry.path] = self._stack.enter_context(entry.path.open("rb", buffering=0))
            except OSError:
                raise changed_while_reading(entry.path) from None
        position, end = entry.offset + start, entry.offset + start + length
        while position < end:
            content = os.pread(file.fileno(), min(CHUNK, end - position), position)
            if not content:
                raise changed_while_reading(entry.path)
            yield content
            position += len(content)
