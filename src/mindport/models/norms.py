"""RMSNorm and LayerNorm over the last axis, with the epsilon always given."""

from __future__ import annotations

from typing import Any

from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import initializer

from mindport.errors import MindportError
from mindport.i18n import tr
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
    """(x - mean) / sqrt(variance + epsilon) * weight + bias; any shape (..., width)."""

    def __init__(self, width: int, epsilon: float, *, params_dtype: Any, compute_dtype: Any) -> None:
        super().__init__()
        self.weight = Parameter(initializer("ones", (width,), params_dtype), name="weight")
        self.bias = Parameter(initializer("zeros", (width,), params_dtype), name="bias")
        self.normalise = ops.LayerNorm(begin_norm_axis=-1, begin_params_axis=-1, epsilon=epsilon)
        self.compute_dtype = compute_dtype

    def construct(self, x: Tensor) -> Tensor:
        dtype = self.compute_dtype
        y, _, _ = self.normalise(cast(x, dtype), cast(self.weight, dtype), cast(self.bias, dtype))
        return cast(y, x.dtype)


_KINDS: dict[str, type[nn.Cell]] = {"RMSNorm": RMSNorm, "LayerNorm": LayerNorm}


def norm(config: TransformerConfig, width: int | None = None) -> nn.Cell:
    """A norm of the kind the configuration names, over `width` (the residual stream's where not given).

    Raises:
        MindportError: an unknown `normalization`.
    """
    if config.normalization not in _KINDS:
        raise MindportError(
            tr("The native model does not know the norm '{name}'.", name=config.normalization),
            tr("Known norms: {known}.", known=", ".join(_KINDS)),
        )
    return _KINDS[config.normalization](
        width or config.hidden_size,
        config.layernorm_epsilon,
        params_dtype=to_mindspore(config.params_dtype),
        compute_dtype=to_mindspore(config.layernorm_compute_dtype),
    )
