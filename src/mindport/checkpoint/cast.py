"""Values from one dtype to another: rounded to the nearest, ties to even, and never to infinity unnoticed."""

from __future__ import annotations

import numpy as np

from mindport.checkpoint.dtypes import NAMES, numpy_dtype
from mindport.errors import MindportError, brief
from mindport.i18n import tr


def cast(values: np.ndarray, dtype: str, tensor: str, out: np.ndarray | None = None) -> np.ndarray:
    """The values in another dtype.

    Args:
        values: floating-point, where their dtype is another than `dtype`.
        dtype: safetensors code.
        tensor: whose values they are, for the message.
        out: where they are to go; a new array, or that of the values, where it is left out.

    Raises:
        MindportError: a finite value becomes infinite.
    """
    wanted = numpy_dtype(dtype)
    if values.dtype == wanted:
        if out is None:
            return values
        out[...] = values
        return out
    result = np.empty(values.shape, wanted) if out is None else out
    if dtype == "F32" and values.dtype == numpy_dtype("BF16"):
        # The upper half of a float32: shifting is several times quicker than a conversion.
        np.left_shift(values.view(np.uint16), 16, out=result.view(np.uint32), dtype=np.uint32)
        return result
    with np.errstate(over="ignore"):
        # By way of float32, a float64 would be rounded twice.
        result[...] = _to_odd(values) if dtype == "BF16" and values.dtype == np.float64 else values
    if np.any(np.isinf(result) & ~np.isinf(values)):
        raise MindportError(
            tr("{tensor} has values too large for {dtype}.", tensor=brief(tensor), dtype=NAMES[dtype]),
            tr("Choose another dtype, bfloat16 for example, or keep that of the source for this tensor."),
        )
    return result


def _to_odd(values: np.ndarray) -> np.ndarray:
    """float64 as float32, with the last bit set where something is lost: rounded once more, it is as if rounded once.

    S. Boldo and G. Melquiond, "When double rounding is odd", 2005.
    """
    nearest = values.astype(np.float32)
    back = nearest.astype(np.float64)
    lost = np.isfinite(values) & (back != values)
    bits = nearest.view(np.uint32) - (lost & (np.abs(back) > np.abs(values))).astype(np.uint32)  # towards zero
    return (bits | lost.astype(np.uint32)).view(np.float32)


def as_bytes(values: np.ndarray) -> memoryview:
    """The values in C order. As bytes, for the buffer protocol does not know bfloat16."""
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
