"""Dtype names of the configuration -> MindSpore dtypes."""

from __future__ import annotations

from typing import Any

import mindspore as ms
from mindspore import ops

from mindport.errors import MindportError
from mindport.i18n import tr

DTYPES: dict[str, Any] = {
    "float32": ms.float32,
    "float16": ms.float16,
    "bfloat16": ms.bfloat16,
    # A referee in parity questions: both frameworks compute it on a CPU.
    "float64": ms.float64,
}


def to_mindspore(name: str) -> Any:
    """The MindSpore dtype of a configuration's dtype name.

    Raises:
        MindportError: a name outside `DTYPES`.
    """
    if name not in DTYPES:
        raise MindportError(
            tr("Unknown dtype '{name}'.", name=name), tr("Use one of {known}.", known=", ".join(DTYPES))
        )
    return DTYPES[name]


def cast(x: Any, dtype: Any) -> Any:
    """`x` in `dtype`; nothing is recorded where it already is."""
    return x if x.dtype == dtype else ops.cast(x, dtype)
