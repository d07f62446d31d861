"""A checkpoint as a set of named byte ranges, before a single weight is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from mindport.checkpoint.dtypes import ITEM_SIZE, numpy_dtype
from mindport.errors import MindportError
from mindport.i18n import tr

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class TensorEntry:
    """Where one tensor lies.

    Args:
        name: as the file spells it.
        dtype: safetensors code, such as BF16.
        shape: in elements.
        path: the file.
        offset: first byte, from the start of the file.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    path: Path
    offset: int

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * ITEM_SIZE[self.dtype]

    def read(self) -> np.ndarray:
        """The whole tensor in memory.

        Raises:
            MindportError: the file is gone, or has become shorter, since its header was read.
        """
        import numpy as np

        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                content = file.read(self.nbytes)
        except OSError:
            raise changed_while_reading(self.path) from None
        if len(content) != self.nbytes:
            raise changed_while_reading(self.path)
        return np.frombuffer(content, numpy_dtype(self.dtype)).reshape(self.shape)


Checkpoint = Mapping[str, TensorEntry]
"""Tensor name -> where it lies, over all files of a checkpoint."""


def changed_while_reading(path: Path) -> MindportError:
    """The error for a source that is not what its header said a moment ago."""
    return MindportError(
        tr("{path} changed while it was being read.", path=path),
        tr("Make sure nothing writes to it and try again."),
    )
