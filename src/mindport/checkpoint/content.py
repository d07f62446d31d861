"""The values of one output, chunk by chunk, in the order in which they are written, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from math import prod

import numpy as np

from mindport.checkpoint.cast import as_bytes, cast
from mindport.checkpoint.dtypes import ITEM_SIZE, numpy_dtype
from mindport.checkpoint.files import Files
from mindport.checkpoint.plan import Output, Plan
from mindport.checkpoint.quantised import rows
from mindport.checkpoint.source import TensorEntry
from mindport.layout import Stored
from mindport.layout.trace import Movement, Units, trace, units_of

CHUNK = 1 << 20
"""Bytes copied at a time; larger buffers are not faster."""

BLOCK = 4 << 20
"""Bytes put together at a time where they do not lie in the file as they are wanted."""

STRIP = 4
"""Blocks put together at a time where columns are turned into rows, so that what is read of a row is not too short."""

_LONG_RUN = 64 << 10
"""Bytes; runs of this length are read straight to their place."""

Seen = Callable[[TensorEntry, int, memoryview], None]
"""Told of each range of stored bytes as it is read: tensor, first byte, content."""


def _unseen(entry: TensorEntry, start: int, content: memoryview) -> None:
    pass


class Content:
    """Outputs of a plan as streams of bytes. One per thread, for it has buffers."""

    def __init__(self, plan: Plan, files: Files, seen: Seen = _unseen) -> None:
        self._plan = plan
        self._files = files
        self._seen = seen
        self._read = _Buffer()
        self._made = _Buffer()

    def chunks(self, output: Output) -> Iterator[memoryview]:
        """The output's bytes in order. A chunk is valid until the next is asked for.

        Raises:
            MindportError: a source changed since it was planned, or a value does not fit the output's dtype.
        """
        movement = trace(output.stored, self._plan.slots, self._plan.slot_shapes)
        if movement is None:
            yield from self._rearranged(output)
            return
        if self._plan.resize and self._plan.resize.concerns(output.stored):
            movement = self._plan.resize.moved(movement)
        if movement.units.columns:
            yield from self._by_columns(output, movement)
        elif self._flows(output, movement):
            yield from self._by_runs(output, movement)
        else:
            yield from self._by_rows(output, movement)

    def values(self, entry: TensorEntry) -> Iterator[memoryview]:
        """The values of one source tensor in C order. A chunk is valid until the next is asked for."""
        if entry.plain:
            yield from self._range(entry, 0, entry.nbytes)
            return
        units = units_of(Stored((entry.name,)), [entry.shape])
        assert units is not None
        step = max(1, BLOCK // max(1, units.width * ITEM_SIZE[entry.dtype]))
        for low in range(0, units.count, step):
            yield as_bytes(self._units(entry, units, low, min(low + step, units.count), 0, units.width))

    def _flows(self, output: Output, movement: Movement) -> bool:
        """Whether the output is so few runs of stored bytes that reading one after the other is quickest."""
        entries = [self._plan.source[name] for name, _ in movement.tensors]
        return (
            all(entry.plain for entry in entries)
            and not any(units.columns for _, units in movement.tensors)
            and bool((movement.owner >= 0).all())
            and movement.starts().size * _LONG_RUN <= max(output.nbytes, _LONG_RUN)
        )

    def _by_runs(self, output: Output, movement: Movement) -> Iterator[memoryview]:
        for _, owner, first, count in movement.runs():
            entry = self._plan.source[movement.tensors[owner][0]]
            row = movement.units.width * ITEM_SIZE[entry.dtype]
            for content in self._range(entry, first * row, count * row):
                if entry.dtype == output.dtype:
                    yield content
                else:
                    values = np.frombuffer(content, numpy_dtype(entry.dtype))
                    made = self._made.array(values.shape, output.dtype)
                    yield as_bytes(cast(values, output.dtype, output.name, out=made))

    def _by_rows(self, output: Output, movement: Movement) -> Iterator[memoryview]:
        width = movement.units.width
        quick = all(self._plan.source[name].plain for name, _ in movement.tensors) and (movement.owner >= 0).all()
        step = max(1, (CHUNK if quick else BLOCK) // max(1, width * ITEM_SIZE[output.dtype]))
        for start in range(0, movement.unit.size, step):
            stop = min(start + step, movement.unit.size)
            block = self._made.array((stop - start, width), output.dtype)
            self._place(block, output, movement, start, 0)
            yield as_bytes(block)

    def _by_columns(self, output: Output, movement: Movement) -> Iterator[memoryview]:
        """A unit is a column of a matrix that is written row by row: some rows of all columns at a time."""
        length, columns = movement.units.width, movement.units.shape[-1]
        step = max(1, STRIP * BLOCK // max(1, columns * ITEM_SIZE[output.dtype]))
        for matrix in range(0, movement.unit.size, max(1, columns)):
            for start in range(0, length, step):
                block = self._made.array((min(step, length - start), columns), output.dtype)
                self._place(block.T, output, movement, matrix, start)
                yield as_bytes(block)

    def _place(self, block: np.ndarray, output: Output, movement: Movement, first: int, start: int) -> None:
        """Fill a block (units, elements) from the target's unit `first` and each unit's element `start` on."""
        owners = movement.owner[first : first + len(block)]
        units = movement.unit[first : first + len(block)]
        stop = start + block.shape[1]
        for owner in np.unique(owners):
            places = np.flatnonzero(owners == owner)
            if owner < 0:
                block[places] = cast(self._new_rows(output, movement, places + first), output.dtype, output.name)
                continue
            name, source = movement.tensors[owner]
            entry, numbers = self._plan.source[name], units[places]
            for some in _near(numbers):
                low, high = int(numbers[some].min()), int(numbers[some].max()) + 1
                values = self._units(entry, source, low, high, start, stop)
                values, place = values[_as_slice(numbers[some] - low)], _as_slice(places[some])
                if isinstance(place, slice):
                    cast(values, output.dtype, output.name, out=block[place])
                else:
                    block[place] = cast(values, output.dtype, output.name)

    def _new_rows(self, output: Output, movement: Movement, numbers: np.ndarray) -> np.ndarray:
        """Initial values of rows that the source does not have."""
        assert self._plan.resize is not None
        slot, width = output.stored.parts[0], movement.units.width
        name, units = self._plan.slots[slot][0], movement.units
        entry = self._plan.source[name]
        step = max(1, BLOCK // max(1, 4 * width))
        old = replace(units, shape=(self._plan.resize.change.before, *units.shape[1:]))
        blocks = (
            self._units(entry, old, low, min(low + step, old.count), 0, width) for low in range(0, old.count, step)
        )
        return self._plan.resize.new_rows(slot, numbers, blocks, width)

    def _units(self, entry: TensorEntry, units: Units, low: int, high: int, start: int, stop: int) -> np.ndarray:
        """Elements [start, stop) of the units [low, high) of a source tensor: (units, elements).

        Valid until the next call.
        """
        if entry.scales:
            if units.columns:
                return rows(self._files, entry, start, stop, low, high).T
            return rows(self._files, entry, low, high, start, stop)
        if entry.plain and not units.columns and stop - start == units.width:
            whole = self._read.array((high - low, units.width), entry.dtype)
            self._files.fill(entry, low * units.width * whole.itemsize, as_bytes(whole))
            self._seen(entry, low * units.width * whole.itemsize, as_bytes(whole))
            return whole
        matrices = _matrices(entry, units)
        per_matrix = matrices.shape[-1 if units.columns else -2]
        found = np.empty((high - low, stop - start), numpy_dtype(entry.dtype))
        done = 0
        while done < len(found):
            matrix, first = divmod(low + done, per_matrix)
            last = min(per_matrix, first + len(found) - done)
            index = [int(i) for i in np.unravel_index(matrix, matrices.shape[:-2])] if matrices.shape[:-2] else []
            after = [i + 1 for i in index]
            part = found[done : done + last - first]
            if units.columns:
                part[...] = self._files.box(matrices, [*index, start, first], [*after, stop, last])[(0,) * len(index)].T
            else:
                part[...] = self._files.box(matrices, [*index, first, start], [*after, last, stop])[(0,) * len(index)]
            done += len(part)
        return found

    def _rearranged(self, output: Output) -> Iterator[memoryview]:
        """Where no units survive: the whole tensor in memory."""
        plan = self._plan
        pieces: dict[str, list[np.ndarray]] = {}
        for part in output.stored.parts:
            name, _, stored = plan.slots[part]
            if name not in pieces:
                whole = self._whole(plan.source[name])
                pieces[name] = stored.split(whole, [plan.slot_shapes[slot] for slot in stored.parts])
        found = (pieces[plan.slots[part][0]][plan.slots[part][1]] for part in output.stored.parts)
        parts = [cast(np.ascontiguousarray(part), output.dtype, output.name) for part in found]
        yield as_bytes(output.stored.join(parts))

    def _whole(self, entry: TensorEntry) -> np.ndarray:
        return rows(self._files, entry, 0, entry.shape[0]) if entry.scales else self._files.read(entry)

    def _range(self, entry: TensorEntry, start: int, length: int) -> Iterator[memoryview]:
        end = start + length
        while start < end:
            part = as_bytes(self._read.array((min(CHUNK, end - start),), "U8"))
            self._files.fill(entry, start, part)
            self._seen(entry, start, part)
            yield part
            start += len(part)


class _Buffer:
    """Memory that is used again and again: pages that the system must first find cost more than a copy."""

    def __init__(self) -> None:
        self._memory = np.empty(0, np.uint8)

    def array(self, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        """An array in it, of undefined values; every earlier one is no longer valid."""
        nbytes = prod(shape) * ITEM_SIZE[dtype]
        if nbytes > self._memory.size:
            self._memory = np.empty(nbytes, np.uint8)
        return self._memory[:nbytes].view(numpy_dtype(dtype)).reshape(shape)


def _as_slice(numbers: np.ndarray) -> slice | np.ndarray:
    """Numbers that rise evenly as a slice, with which numpy need not copy."""
    step = int(numbers[1]) - int(numbers[0]) if numbers.size > 1 else 1
    if step > 0 and (np.diff(numbers) == step).all():
        return slice(int(numbers[0]), int(numbers[-1]) + 1, step)
    return numbers


def _near(numbers: np.ndarray) -> Iterator[slice]:
    """Slices of unit numbers that are worth reading in one go: whole, or else run by run."""
    if int(numbers.max()) - int(numbers.min()) < 2 * numbers.size:
        yield slice(None)
        return
    breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
    edges = [0, *breaks.tolist(), numbers.size]
    for start, stop in pairwise(edges):
        yield slice(start, stop)


def _matrices(entry: TensorEntry, units: Units) -> TensorEntry:
    """The tensor with its units along the last axis or the one before: vectors as matrices of one column, and matrices
    that lie one below the other, with columns as units, as a stack."""
    if units.columns and len(units.shape) > len(entry.shape):
        *outer, rows, columns = entry.shape
        strides = entry.strides
        if strides is not None:
            strides = (*strides[:-2], strides[-2] * units.width, *strides[-2:])
        return replace(entry, shape=(*outer, rows // units.width, units.width, columns), strides=strides)
    if units.columns or units.width != 1 or units.shape != entry.shape or (entry.shape[1:] and entry.shape[-1] == 1):
        return entry
    strides = None if entry.strides is None else (0, *entry.strides, 0)
    return replace(entry, shape=(1, *entry.shape, 1), strides=strides)
