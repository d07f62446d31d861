"""Layouts as movements of units: which rows or columns of which source tensors make up a target tensor.

Instead of a second description of every operation, its own code is run on arrays of unit numbers. A unit is a run of
weights that no operation breaks up: in the parts, a row (of a vector, an element). In a stored tensor it is still a
row, or, where matrices are stored transposed, a column of one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from mindport.layout.ops import Shape
from mindport.layout.stored import Stored

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Units:
    """A stored tensor as a number of units.

    Args:
        shape: of the stored tensor, in units; with columns, as if each matrix were an entry of its own of the axes
            before the last two: matrices that lie one below the other in one tensor are counted like a stack of them.
        width: elements of one.
        columns: each is a column of a matrix, so that its elements are a row's length apart.
    """

    shape: Shape
    width: int
    columns: bool

    @property
    def count(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True)
class Movement:
    """Where each unit of a target tensor comes from.

    Args:
        units: of the target.
        tensors: source tensors, with their units.
        owner: target unit -> number of the source tensor; -1 where it has no source.
        unit: target unit -> number of the unit there.
    """

    units: Units
    tensors: tuple[tuple[str, Units], ...]
    owner: np.ndarray
    unit: np.ndarray

    def starts(self) -> np.ndarray:
        """The target unit at which each of the `runs` begins; there is one more than there are breaks."""
        import numpy as np

        breaks = (np.diff(self.unit) != 1) | (np.diff(self.owner) != 0)
        return np.concatenate([[0], np.flatnonzero(breaks) + 1])

    def runs(self) -> list[tuple[int, int, int, int]]:
        """Consecutive units of one source: (first target unit, source tensor, first unit there, how many)."""
        import numpy as np

        if not self.unit.size:
            return []
        starts = self.starts()
        counts = np.diff(np.concatenate([starts, [self.unit.size]]))
        columns = (starts, self.owner[starts], self.unit[starts], counts)
        return list(zip(*(column.tolist() for column in columns), strict=True))


def units_of(stored: Stored, parts: Sequence[Shape]) -> Units | None:
    """The units of a stored tensor whose parts have these shapes; None where an operation breaks rows up."""
    full = stored.shape(parts)
    if all(len(part) < 2 for part in parts):
        return Units(full, 1, False)
    widths = {part[-1] if len(part) > 1 else None for part in parts}
    width = widths.pop()
    if widths or width is None:
        return None
    try:
        thin = stored.shape([_thin(part) for part in parts])
    except ValueError:
        return None
    if thin == (*full[:-1], 1):
        return Units(thin, width, False)
    if thin == (*full[:-2], 1, full[-1]):
        return Units(thin, width, True)
    if width and thin == (*full[:-2], full[-2] // width, full[-1]):
        return Units((*thin[:-1], 1, thin[-1]), width, True)
    return None


def trace(
    target: Stored,
    sources: Mapping[str, tuple[str, int, Stored]],
    slot_shapes: Mapping[str, Shape],
) -> Movement | None:
    """The units that make up `target`, or None where some operation breaks units up.

    Args:
        target: a bound stored tensor of the target side.
        sources: slot -> (source tensor, index of the slot among its parts, bound stored tensor of the source side).
        slot_shapes: slot -> shape in elements.
    """
    import numpy as np

    units = units_of(target, [slot_shapes[slot] for slot in target.parts])
    if units is None:
        return None
    tensors: dict[str, Units] = {}
    bases: list[int] = []
    pieces: dict[str, list[np.ndarray]] = {}
    base = 0
    for slot in target.parts:
        name, _, stored = sources[slot]
        if name in tensors:
            continue
        shapes = [slot_shapes[part] for part in stored.parts]
        found = units_of(stored, shapes)
        if found is None or found.width != units.width:
            return None
        thin = [_thin(shape) for shape in shapes]
        numbers = np.arange(base, base + found.count).reshape(stored.shape(thin))
        pieces[name] = stored.split(numbers, thin)
        tensors[name] = found
        bases.append(base)
        base += found.count
    numbers = target.join([pieces[sources[slot][0]][sources[slot][1]] for slot in target.parts]).reshape(-1)
    starts = np.array(bases)
    owner = np.searchsorted(starts, numbers, side="right") - 1
    return Movement(units, tuple(tensors.items()), owner, numbers - starts[owner])


def _thin(shape: Shape) -> Shape:
    """A part in units: a vector as it is, anything else with rows of one element."""
    return (*shape[:-1], 1) if len(shape) > 1 else shape
