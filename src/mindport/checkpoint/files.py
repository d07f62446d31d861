"""Reading values: open source files, byte ranges, and boxes of a tensor whatever its strides."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from mindport.checkpoint.dtypes import numpy_dtype
from mindport.checkpoint.source import TensorEntry, changed_while_reading
from mindport.config.json_file import unreadable

if TYPE_CHECKING:
    import numpy as np

_SMALL = 1 << 16
"""Bytes that are read in one go although not all of them are wanted."""


class Files:
    """Open source files, each opened once; may be used by several threads."""

    def __init__(self) -> None:
        self._descriptors: dict[Path, int] = {}
        self._lock = threading.Lock()
        self._stack = ExitStack()

    def __enter__(self) -> Files:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def fill(self, entry: TensorEntry, start: int, buffer: memoryview) -> None:
        """Fill a buffer with the stored bytes of a tensor from byte `start` on.

        Raises:
            MindportError: the file is gone, or has become shorter, since its header was read; or it cannot be read.
        """
        descriptor = self._descriptor(entry.path)
        for offset, length in _file_ranges(entry, start, len(buffer)):
            part, buffer = buffer[:length], buffer[length:]
            while part:
                try:
                    count = os.preadv(descriptor, [part], offset)
                except OSError as error:  # not to be taken for one of the target
                    raise unreadable(entry.path, error) from None
                if not count:
                    raise changed_while_reading(entry.path)
                part, offset = part[count:], offset + count

    def box(self, entry: TensorEntry, starts: Sequence[int], stops: Sequence[int]) -> np.ndarray:
        """The values [starts, stops) of a tensor, one pair for each axis, in C order. Not for block-scaled tensors.

        Raises:
            MindportError: the file is gone, or has become shorter, since its header was read.
        """
        import numpy as np

        shape = tuple(stop - start for start, stop in zip(starts, stops, strict=True))
        strides = entry.strides if entry.strides is not None else _c_strides(entry.shape)
        out = np.empty(shape, numpy_dtype(entry.dtype))
        first = sum(start * stride for start, stride in zip(starts, strides, strict=True))
        if out.size:
            self._box(entry, first, strides, out)
        return out

    def read(self, entry: TensorEntry) -> np.ndarray:
        """The whole tensor in memory.

        Raises:
            MindportError: the file is gone, or has become shorter, since its header was read.
        """
        return self.box(entry, [0] * len(entry.shape), entry.shape)

    def _box(self, entry: TensorEntry, first: int, strides: tuple[int, ...], out: np.ndarray) -> None:
        import numpy as np

        span = 1 + sum((size - 1) * stride for size, stride in zip(out.shape, strides, strict=True))
        if span * out.itemsize <= _SMALL or span <= 2 * out.size:
            content = np.empty(span, out.dtype)
            self.fill(entry, first * out.itemsize, content.view(np.uint8).data)
            out[...] = np.ndarray(out.shape, out.dtype, content, strides=[s * out.itemsize for s in strides])
            return
        axis = max(range(out.ndim), key=lambda axis: strides[axis] * (out.shape[axis] > 1))
        half = out.shape[axis] // 2
        lower, upper = np.split(out, [half], axis)
        self._box(entry, first, strides, lower)
        self._box(entry, first + half * strides[axis], strides, upper)

    def _descriptor(self, path: Path) -> int:
        with self._lock:
            if path not in self._descriptors:
                try:
                    descriptor = os.open(path, os.O_RDONLY)
                except OSError:
                    raise changed_while_reading(path) from None
                self._stack.callback(os.close, descriptor)
                self._descriptors[path] = descriptor
            return self._descriptors[path]


def read(entry: TensorEntry) -> np.ndarray:
    """The whole tensor in memory. See `Files.read`."""
    with Files() as files:
        return files.read(entry)


def _c_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _file_ranges(entry: TensorEntry, start: int, length: int) -> Iterator[tuple[int, int]]:
    """Where `length` stored bytes of a tensor from byte `start` on lie in its file."""
    if not entry.pieces:
        yield entry.offset + start, length
        return
    for offset, size in entry.pieces:
        taken = min(max(size - start, 0), length)
        if taken:
            yield offset + start, taken
        start, length = max(start - size, 0), length - taken
