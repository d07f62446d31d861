"""RMSNorm and LayerNorm over the last axis, for one vector or for each head, with the epsilon always given."""

from __future__ import annotations

from typing import Any

import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import initializer

from mindport.models.dtypes import cast, to_mindspore
from mindport.schema import TransformerConfig


class RMSNorm(nn.Cell):
    """x / sqrt(mean(x^2) + epsilon) * weight (Zhang and Sennrich, 2019); any shape (..., width).

    Written from basic operations: the fused kernel does not exist on every device.
    """

    def __init__(self, width: int, epsilon: float, *, params_dtype: Any, compute_dtype: Any) -> None:
        super().__init__()
        self.weight = Parameter(initializer("ones", (width,), params_dtype), name="weight")
        self.epsilon = epsilon
        self.compute_dtype = compute_dtype

    def construct(self, x: Tensor) -> Tensor:
        wide = cast(x, self.compute_dtype)
        scale = ops.rsqrt((wide * wide).mean(-1, True) + self.epsilon)
        return cast(wide * scale * cast(self.weight, self.compute_dtype), x.dtype)


class LayerNorm(nn.Cell):
    """(x - mean) / sqrt(variance + epsilon) * weight + bias, the bias where it has one; any shape (..., width)."""

    def __init__(self, width: int, epsilon: float, *, bias: bool = True, params_dtype: Any, compute_dtype: Any) -> None:
        super().__init__()
        self.weight = Parameter(initializer("ones", (width,), params_dtype), name="weight")
        self.bias = Parameter(initializer("zeros", (width,), params_dtype), name="bias") if bias else None
        self.nothing = Tensor(np.zeros(width, np.float32))
        self.normalise = ops.LayerNorm(begin_norm_axis=-1, begin_params_axis=-1, epsilon=epsilon)
        self.compute_dtype = compute_dtype

    def construct(self, x: Tensor) -> Tensor:
        dtype = self.compute_dtype
        bias = self.nothing if self.bias is None else self.bias
        y, _, _ = self.normalise(cast(x, dtype), cast(self.weight, dtype), cast(bias, dtype))
        return cast(y, x.dtype)


class HeadNorm(nn.Cell):
    """A norm of each head with a weight of its own and no bias: (..., N, D) -> the same; `weight` is (N, D).

    RMSNorm, or LayerNorm, which subtracts the mean of each head first.
    """

    def __init__(self, config: TransformerConfig, heads: int) -> None:
        super().__init__()
        shape = (heads, config.kv_channels)
        self.weight = Parameter(initializer("ones", shape, to_mindspore(config.params_dtype)), name="weight")
        self.centred = config.normalization == "LayerNorm"
        self.epsilon = config.layernorm_epsilon
        self.compute_dtype = to_mindspore(config.layernorm_compute_dtype)

    def construct(self, x_ND: Tensor) -> Tensor:
        wide = cast(x_ND, self.compute_dtype)
        if self.centred:
            wide = wide - wide.mean(-1, True)
        scale = ops.rsqrt((wide * wide).mean(-1, True) + self.epsilon)
        return cast(wide * scale * cast(self.weight, self.compute_dtype), x_ND.dtype)


def norm(config: TransformerConfig, width: int | None = None, epsilon: float | None = None) -> nn.Cell:
    """A norm of the kind the configuration names.

    Args:
        width: what it goes over; the residual stream's where not given.
        epsilon: the configuration's where not given.
    """
    size = width or config.hidden_size
    small = config.layernorm_epsilon if epsilon is None else epsilon
    dtypes = {
        "params_dtype": to_mindspore(config.params_dtype),
        "compute_dtype": to_mindspore(config.layernorm_compute_dtype),
    }
    if config.normalization == "RMSNorm":
        return RMSNorm(size, small, **dtypes)
    return LayerNorm(size, small, bias=config.add_norm_bias, **dtypes)
