"""The feed-forward half of a block."""

from __future__ import annotations

from typing import Any

from mindspore import Tensor, nn, ops

from mindport.models.activations import activation
from mindport.models.dtypes import to_mindspore
from mindport.models.linear import Linear
from mindport.schema import TransformerConfig


class Hidden(nn.Cell):
    """What an MLP makes of its inner projections: act(up), or act(gate) * up where it is gated; any shape.

    Where the configuration says so gate and up are cut off first, and an offset is added to up (GPT-OSS).
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.activation = activation(config.activation_func)
        self.limit = config.activation_func_clamp_value
        self.offset = config.glu_linear_offset

    def construct(self, gate: Any, up: Tensor) -> Tensor:
        if gate is None:
            return self.activation(up)
        if self.limit is not None:
            gate, up = ops.clamp(gate, None, self.limit), ops.clamp(up, -self.limit, self.limit)
        if self.offset != 0.0:
            up = up + self.offset
        return self.activation(gate) * up


class MLP(nn.Cell):
    """down(hidden(gate(x), up(x))); (B, T, H) -> (B, T, H).

    Args:
        width: inside; the configuration's `ffn_hidden_size` where not given.
    """

    def __init__(self, config: TransformerConfig, width: int | None = None) -> None:
        super().__init__()
        settings = {
            "bias": config.add_mlp_bias,
            "params_dtype": to_mindspore(config.params_dtype),
            "compute_dtype": to_mindspore(config.compute_dtype),
        }
        outer, inner = config.hidden_size, width or config.ffn_hidden_size
        self.gate = Linear(outer, inner, **settings) if config.gated_linear_unit else None
        self.up = Linear(outer, inner, **settings)
        self.down = Linear(inner, outer, **settings)
        self.hidden = Hidden(config)
        self.dropout = nn.Dropout(p=config.mlp_dropout)

    def construct(self, x_BTH: Tensor) -> Tensor:
        gate = None if self.gate is None else self.gate(x_BTH)
        return self.down(self.dropout(self.hidden(gate, self.up(x_BTH))))
