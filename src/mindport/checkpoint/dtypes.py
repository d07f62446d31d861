"""Element types by their safetensors codes, and what other formats call them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

ITEM_SIZE: dict[str, int] = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2,
    "I64": 8, "I32": 4, "I16": 2, "I8": 1,
    "U64": 8, "U32": 4, "U16": 2, "U8": 1,
    "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1,
}  # fmt: skip
"""Bytes of one element."""

FLOATS = ("F64", "F32", "F16", "BF16")
"""Codes that may be cast into one another."""

NAMES: dict[str, str] = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
    "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8",
    "BOOL": "bool", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
}  # fmt: skip
"""The usual names: those of numpy, torch and MindSpore's Python API."""


def numpy_dtype(code: str) -> np.dtype[Any]:
    """The numpy dtype that holds this code's bits (bfloat16 and fp8 through ml_dtypes)."""
    import numpy as np

    if code == "BF16" or code.startswith("F8"):
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, NAMES[code]))
    return np.dtype(NAMES[code])
