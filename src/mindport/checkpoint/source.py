"""A checkpoint as a set of named byte ranges, before a single weight is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

from mindport.checkpoint.dtypes import ITEM_SIZE
from mindport.errors import MindportError
from mindport.i18n import tr


@dataclass(frozen=True)
class TensorEntry:
    """Where one tensor lies.

    Args:
        name: as the file spells it.
        dtype: safetensors code, such as BF16.
        shape: in elements.
        path: the file.
        offset: first byte of the content, from the start of the file.
        strides: step of each axis in elements, for a view of a larger storage; None: the elements follow each other.
        pieces: (offset, bytes) in order, where the content is not in one piece (a large parameter of a `.ckpt`).
        scales: set where the file holds block-scaled fp8; `dtype` is then that of the values.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    path: Path
    offset: int
    strides: tuple[int, ...] | None = None
    pieces: tuple[tuple[int, int], ...] = ()
    scales: BlockScales | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        return prod(self.shape) * ITEM_SIZE[self.dtype]

    @property
    def stored_nbytes(self) -> int:
        """Bytes of them in the files, those of the scales included."""
        if self.scales is None:
            return self.nbytes
        return prod(self.shape) * ITEM_SIZE[self.scales.stored_dtype] + self.scales.factors.nbytes

    @property
    def plain(self) -> bool:
        """Whether the values lie in the file as they are, in order."""
        return self.strides is None and self.scales is None


@dataclass(frozen=True)
class BlockScales:
    """How stored fp8 elements become values: each block of the matrix is multiplied by its own scale.

    Args:
        stored_dtype: safetensors code of the stored elements, such as F8_E4M3.
        factors: the scales, (ceil(rows / block rows), ceil(columns / block columns)).
        block: rows and columns.
    """

    stored_dtype: str
    factors: TensorEntry
    block: tuple[int, int]


Checkpoint = Mapping[str, TensorEntry]
"""Tensor name -> where it lies, over all files of a checkpoint."""


Stamp = tuple[int, int, int]
"""Size, time of the last change and number of a file: what shows whether it is the same as before."""


def stamp_of(path: Path) -> Stamp:
    """The stamp of a file.

    Raises:
        MindportError: it is gone.
    """
    try:
        info = path.stat()
    except OSError:
        raise changed_while_reading(path) from None
    return info.st_size, info.st_mtime_ns, info.st_ino


def changed_while_reading(path: Path) -> MindportError:
    """The error for a source that is not what its header said a moment ago."""
    return MindportError(
        tr("{path} changed while it was being read.", path=path),
        tr("Make sure nothing writes to it and try again."),
    )
