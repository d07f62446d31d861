"""The feed-forward half of a block."""

from __future__ import annotations

from mindspore import Tensor, nn

from mindport.models.activations import activation
from mindport.models.dtypes import to_mindspore
from mindport.models.linear import Linear
from mindport.schema import TransformerConfig


class MLP(nn.Cell):
    """down(act(gate(x)) * up(x)) where gated, else down(act(up(x))); (B, T, H) -> (B, T, H)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        settings = {
            "bias": config.add_mlp_bias,
            "params_dtype": to_mindspore(config.params_dtype),
            "compute_dtype": to_mindspore(config.compute_dtype),
        }
        hidden, ffn = config.hidden_size, config.ffn_hidden_size
        self.gate = Linear(hidden, ffn, **settings) if config.gated_linear_unit else None
        self.up = Linear(hidden, ffn, **settings)
        self.down = Linear(ffn, hidden, **settings)
        self.activation = activation(config.activation_func)

    def construct(self, x_BTH: Tensor) -> Tensor:
        if self.gate is None:
            return self.down(self.activation(self.up(x_BTH)))
        return self.down(self.activation(self.gate(x_BTH)) * self.up(x_BTH))
