"""One Transformer block: attention and MLP, each with its norm and its residual sum."""

from __future__ import annotations

from typing import Any

from mindspore import Tensor, nn

from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.models.attention import Attention
from mindport.models.mlp import MLP
from mindport.models.norms import norm
from mindport.schema import TransformerConfig


class Block(nn.Cell):
    """(B, T, H) -> (B, T, H).

    pre: x + attention(norm(x)), then x + mlp(norm(x)). post: norm(x + attention(x)), then norm(x + mlp(x)).
    """

    def __init__(self, config: TransformerConfig, layer: int) -> None:
        super().__init__()
        if config.norm_placement not in ("pre", "post"):
            raise MindportError(
                tr("The native model does not know the norm placement '{name}'.", name=config.norm_placement),
                tr("Known placements: {known}.", known="pre, post"),
            )
        self.attention_norm = norm(config)
        self.attention = Attention(config, layer)
        self.mlp_norm = norm(config)
        self.mlp = MLP(config)
        self.dropout = nn.Dropout(p=config.hidden_dropout)
        self.windowed = config.window_size is not None and (
            config.layer_types is None or config.layer_types[layer] == "sliding_attention"
        )
        self.norm_first = config.norm_placement == "pre"

    def construct(self, x_BTH: Tensor, mask: Any, cos: Any, sin: Any) -> Tensor:
        if self.norm_first:
            x_BTH = x_BTH + self.dropout(self.attention(self.attention_norm(x_BTH), mask, cos, sin))
            return x_BTH + self.dropout(self.mlp(self.mlp_norm(x_BTH)))
        x_BTH = self.attention_norm(x_BTH + self.dropout(self.attention(x_BTH, mask, cos, sin)))
        return self.mlp_norm(x_BTH + self.dropout(self.mlp(x_BTH)))
