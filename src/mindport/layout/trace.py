"""Layouts as row movements: which source rows, in order, make up a target tensor.

Instead of a second description of every operation, its own code is run on arrays of row numbers. A layout that keeps
rows whole then becomes a list of runs, and the conversion a list of byte ranges to copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mindport.layout.ops import Shape, Stack
from mindport.layout.stored import Stored

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Run:
    """Consecutive rows of one source tensor, in target order."""

    tensor: str
    start: int
    rows: int


def row_count(shape: Shape) -> int:
    """Rows of a tensor: all axes but the last; a vector has one row per element, a scalar one."""
    count = 1
    for size in shape[:-1] if len(shape) > 1 else shape:
        count *= size
    return count


def trace(
    target: Stored,
    sources: Mapping[str, tuple[str, int, Stored]],
    slot_shapes: Mapping[str, Shape],
) -> list[Run] | None:
    """The runs that make up `target`, or None where some operation breaks rows (a transpose).

    Args:
        target: a bound stored tensor of the target side.
        sources: slot -> (source tensor, index of the slot among its parts, bound stored tensor of the source side).
        slot_shapes: slot -> shape in elements.
    """

    part_shapes = [slot_shapes[slot] for slot in target.parts]
    if not target.keeps_rows(part_shapes):
        return None
    if _whole(target, sources):
        tensors = [(sources[slot][0], row_count(slot_shapes[slot])) for slot in target.parts]
        return [Run(tensor, 0, rows) for tensor, rows in tensors if rows]
    bases: dict[str, int] = {}
    pieces: dict[str, list[np.ndarray]] = {}
    next_row = 0
    for slot in target.parts:
        tensor, _, stored = sources[slot]
        if tensor in bases:
            continue
        shapes = [slot_shapes[s] for s in stored.parts]
        if not stored.keeps_rows(shapes):
            return None
        rows = row_count(stored.shape(shapes))
        bases[tensor] = next_row
        pieces[tensor] = stored.split(_row_numbers(stored.shape(shapes), next_row), [_rows_only(s) for s in shapes])
        next_row += rows + 1  # a gap, so that no run can join the end of one tensor to the start of another
    ids = target.join([pieces[sources[slot][0]][sources[slot][1]] for slot in target.parts]).reshape(-1)
    return _runs(ids, bases)


def _whole(target: Stored, sources: Mapping[str, tuple[str, int, Stored]]) -> bool:
    """Whether the target is whole source tensors, one after the other: a model with many experts has thousands."""
    plain = all(sources[slot][2].parts == (slot,) and not sources[slot][2].ops for slot in target.parts)
    return plain and all(isinstance(op, Stack) for op in target.ops)


def _rows_only(shape: Shape) -> Shape:
    return (*shape[:-1], 1) if len(shape) > 1 else shape


def _row_numbers(shape: Shape, base: int) -> np.ndarray:
    import numpy as np

    return np.arange(base, base + row_count(shape), dtype=np.int64).reshape(_rows_only(shape))


def _runs(ids: np.ndarray, bases: Mapping[str, int]) -> list[Run]:
    import numpy as np

    if ids.size == 0:
        return []
    starts = np.concatenate([[0], np.flatnonzero(np.diff(ids) != 1) + 1])
    lengths = np.diff(np.concatenate([starts, [ids.size]]))
    order: Sequence[tuple[str, int]] = sorted(bases.items(), key=lambda item: item[1])
    owner = np.searchsorted([base for _, base in order], ids[starts], side="right") - 1
    return [
        Run(order[o][0], int(first - order[o][1]), int(n))
        for o, first, n in zip(owner, ids[starts], lengths, strict=True)
    ]
