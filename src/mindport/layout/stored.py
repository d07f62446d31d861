"""`Stored`: one tensor of a file, said as canonical slots and the operations that join them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mindport.layout.ops import Operation, Shape

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Stored:
    """A stored tensor: its parts in order, and the operations from the parts to it.

    Args:
        parts: slot names (templates in a declaration, filled in after binding).
        ops: applied in order by `join`, undone in reverse by `split`.
    """

    parts: tuple[str, ...]
    ops: tuple[Operation, ...] = ()

    def bind(self, sizes: object) -> Stored:
        """With every symbolic size of the operations replaced by that of `sizes`."""
        return replace(self, ops=tuple(op.bind(sizes) for op in self.ops))

    def shape(self, parts: Sequence[Shape]) -> Shape:
        """Shape of the stored tensor from the shapes of its parts."""
        return self._stages(parts)[-1][0]

    def join(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """The stored tensor from its parts."""
        for op in self.ops:
            arrays = op.join(arrays)
        (whole,) = arrays
        return whole

    def split(self, whole: np.ndarray, parts: Sequence[Shape]) -> list[np.ndarray]:
        """The parts, of the given shapes, from the stored tensor. Views where possible."""
        stages = self._stages(parts)
        arrays: list[np.ndarray] = [whole]
        for op, before in zip(reversed(self.ops), reversed(stages[:-1]), strict=True):
            arrays = op.split(arrays, before)
        return arrays

    def _stages(self, parts: Sequence[Shape]) -> list[list[Shape]]:
        stages: list[list[Shape]] = [list(parts)]
        for op in self.ops:
            stages.append(op.shapes(stages[-1]))
        return stages


TensorMap = dict[str, Stored]
"""Tensor name -> what it is made of, for one side (a file format of an architecture, or a target)."""
