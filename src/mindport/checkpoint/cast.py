"""Values from one dtype to another: rounded to the nearest, ties to even, and never to infinity unnoticed."""

from __future__ import annotations

import numpy as np

from mindport.checkpoint.dtypes import NAMES, numpy_dtype
from mindport.errors import MindportError, brief
from mindport.i18n import tr


def cast(values: np.ndarray, dtype: str, tensor: str) -> np.ndarray:
    """The values in another dtype.

    Args:
        values: floating-point, where their dtype is another than `dtype`.
        dtype: safetensors code.
        tensor: whose values they are, for the message.

    Raises:
        MindportError: a finite value becomes infinite.
    """
    wanted = numpy_dtype(dtype)
    if values.dtype == wanted:
        return values
    if dtype == "F32" and values.dtype == numpy_dtype("BF16"):
        # The upper half of a float32: shifting is several times quicker than a conversion.
        return np.left_shift(values.view(np.uint16), 16, dtype=np.uint32).view(np.float32)
    with np.errstate(over="ignore"):
        result = values.astype(wanted)
    if np.any(np.isinf(result) & ~np.isinf(values)):
        raise MindportError(
            tr("{tensor} has values too large for {dtype}.", tensor=brief(tensor), dtype=NAMES[dtype]),
            tr("Choose another dtype, bfloat16 for example, or keep that of the source for this tensor."),
        )
    return result


def as_bytes(values: np.ndarray) -> memoryview:
    """The values in C order. As bytes, for the buffer protocol does not know bfloat16."""
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
