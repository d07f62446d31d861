"""The closed set of layout operations. Each owns its inverse.

An operation takes a list of arrays to another list: `join` goes from canonical parts towards the stored tensor,
`split` back. They use only reshape, slicing, axis swaps and concatenation, so the same code runs on the weights
themselves and on arrays of unit numbers (see `trace`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from mindport.layout.shape import dimension

if TYPE_CHECKING:
    import numpy as np

Shape = tuple[int, ...]
_Part = TypeVar("_Part")


class Operation(Protocol):
    """What every layout operation can do."""

    def bind(self, sizes: object) -> Operation:
        """The same operation with symbolic sizes replaced by integers."""

    def shapes(self, shapes: Sequence[Shape]) -> list[Shape]:
        """Shapes after `join`, from the shapes before it.

        Raises:
            ValueError: the operation cannot be applied to these shapes.
        """

    def join(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Towards the stored tensor."""

    def split(self, arrays: Sequence[np.ndarray], shapes: Sequence[Shape]) -> list[np.ndarray]:
        """Back to the parts, whose shapes before `join` were `shapes` (only their first axis is read)."""


@dataclass(frozen=True)
class Transpose:
    """Swap the last two axes of matrices; vectors (biases) have nothing to swap.

    GPT-2's Conv1D stores (in, out) where a linear layer stores (out, in).
    """

    def bind(self, sizes: object) -> Transpose:
        return self

    def shapes(self, shapes: Sequence[Shape]) -> list[Shape]:
        return [(*s[:-2], s[-1], s[-2]) if len(s) > 1 else s for s in shapes]

    def join(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [a.swapaxes(-1, -2) if a.ndim > 1 else a for a in arrays]

    def split(self, arrays: Sequence[np.ndarray], shapes: Sequence[Shape]) -> list[np.ndarray]:
        return self.join(arrays)


@dataclass(frozen=True)
class Fuse:
    """Several tensors as one, along the first axis, group by group.

    With one group the parts follow each other (contiguous). With `groups="num_query_groups"` every key/value
    group holds its query rows, then its key rows, then its value rows (Megatron's fused QKV). With as many groups as
    rows the parts interleave row by row.

    Args:
        groups: how many; a number or a product of field names.
        of: how many tensors make one; None = all. With `of=2` the first two make one, the next two another: gate and
            up of each expert.
    """

    groups: str | int = 1
    of: int | None = None

    def bind(self, sizes: object) -> Fuse:
        return replace(self, groups=dimension(str(self.groups), sizes))

    def shapes(self, shapes: Sequence[Shape]) -> list[Shape]:
        return [self._shape(parts) for parts in self._sets(shapes)]

    def join(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [self._join(parts) for parts in self._sets(arrays)]

    def split(self, arrays: Sequence[np.ndarray], shapes: Sequence[Shape]) -> list[np.ndarray]:
        sets = zip(arrays, self._sets(shapes), strict=True)
        return [part for whole, parts in sets for part in self._split(whole, parts)]

    def _sets(self, parts: Sequence[_Part]) -> list[Sequence[_Part]]:
        of = self.of or len(parts)
        if len(parts) % of:
            raise ValueError(f"{len(parts)} tensors do not divide into sets of {of}")
        return [parts[i : i + of] for i in range(0, len(parts), of)]

    def _shape(self, shapes: Sequence[Shape]) -> Shape:
        if len({s[1:] for s in shapes}) != 1:
            raise ValueError(f"parts of one tensor differ beyond their first axis: {list(shapes)}")
        if any(s[0] % self._groups for s in shapes):
            raise ValueError(f"rows of {list(shapes)} do not divide into {self.groups} groups")
        return (sum(s[0] for s in shapes), *shapes[0][1:])

    def _join(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        import numpy as np

        rows, rest = sum(a.shape[0] for a in arrays), arrays[0].shape[1:]
        grouped = [a.reshape(self._groups, a.shape[0] // self._groups, *rest) for a in arrays]
        return np.concatenate(grouped, axis=1).reshape(rows, *rest)

    def _split(self, whole: np.ndarray, shapes: Sequence[Shape]) -> list[np.ndarray]:
        rest = whole.shape[1:]
        grouped = whole.reshape(self._groups, whole.shape[0] // self._groups, *rest)
        parts, start = [], 0
        for rows, *_ in shapes:
            per_group = rows // self._groups
            parts.append(grouped[:, start : start + per_group].reshape(rows, *rest))
            start += per_group
        return parts

    @property
    def _groups(self) -> int:
        assert isinstance(self.groups, int), "bind() the operation to a config first"
        return self.groups


@dataclass(frozen=True)
class Stack:
    """Several tensors of one shape as one with a new first axis: the experts of a layer, the norms of its heads."""

    def bind(self, sizes: object) -> Stack:
        return self

    def shapes(self, shapes: Sequence[Shape]) -> list[Shape]:
        if len(set(shapes)) != 1:
            raise ValueError(f"tensors of different shapes cannot be stacked: {list(shapes)}")
        return [(len(shapes), *shapes[0])]

    def join(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        import numpy as np

        return [np.stack(arrays)]

    def split(self, arrays: Sequence[np.ndarray], shapes: Sequence[Shape]) -> list[np.ndarray]:
        (whole,) = arrays
        return list(whole)
