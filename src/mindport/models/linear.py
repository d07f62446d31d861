"""Matrix product with optional bias."""

from __future__ import annotations

from typing import Any

from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import initializer

from mindport.models.dtypes import cast

_times_transposed = ops.MatMul(transpose_b=True)


def project(x: Tensor, weight_OI: Tensor, dtype: Any) -> Tensor:
    """x @ weight^T in `dtype`: (..., I) -> (..., O)."""
    out_width, in_width = weight_OI.shape
    # One large product instead of a batched one.
    y = _times_transposed(cast(x, dtype).reshape(-1, in_width), cast(weight_OI, dtype))
    return y.reshape((*x.shape[:-1], out_width))


class Linear(nn.Cell):
    """y = x @ weight^T + bias, computed in `compute_dtype`; (..., in_width) -> (..., out_width).

    `weight` is (out_width, in_width), as torch.nn.Linear stores it. Starts as zeros; see `initialise`.
    """

    def __init__(self, in_width: int, out_width: int, *, bias: bool, params_dtype: Any, compute_dtype: Any) -> None:
        super().__init__()
        self.weight = Parameter(initializer("zeros", (out_width, in_width), params_dtype), name="weight")
        self.bias = Parameter(initializer("zeros", (out_width,), params_dtype), name="bias") if bias else None
        self.compute_dtype = compute_dtype

    def construct(self, x: Tensor) -> Tensor:
        y = project(x, self.weight, self.compute_dtype)
        if self.bias is None:
            return y
        return y + cast(self.bias, self.compute_dtype)
