"""One Transformer block: attention and MLP, each with its norm and its residual sum."""

from __future__ import annotations

from typing import Any

from mindspore import Tensor, nn

from mindport.models.attention import Attention
from mindport.models.disentangled import DisentangledAttention
from mindport.models.latent_attention import LatentAttention
from mindport.models.mlp import MLP
from mindport.models.moe import MoE
from mindport.models.norms import norm
from mindport.schema import TransformerConfig


class Block(nn.Cell):
    """(B, T, H) -> (B, T, H).

    pre: x + attention(norm(x)), then x + mlp(norm(x)). post: norm(x + attention(x)), then norm(x + mlp(x)).
    parallel: x + attention(norm(x)) + mlp(norm(x)), the two norms the same or each its own. Dropout acts on each of
    the two, or where `attention_output_dropout` is None, in a parallel block, on their sum.
    `positions` is what this kind of attention knows of positions, or None.
    """

    def __init__(self, config: TransformerConfig, layer: int) -> None:
        super().__init__()
        self.attention_norm: Any = norm(config) if layer > 0 or config.first_attention_layernorm else nn.Identity()
        self.attention = _attention(config, layer)
        self.mlp_norm: Any = norm(config) if config.parallel_block != "one_norm" else None
        self.mlp = MoE(config) if config.has_experts(layer) else MLP(config)
        self.dropout = nn.Dropout(p=config.hidden_dropout)
        self.dropout_after_mlp: Any = self.dropout if config.hidden_dropout_after_mlp else nn.Identity()
        apart = config.attention_output_dropout
        self.attention_dropout = nn.Dropout(p=config.hidden_dropout if apart is None else apart)
        self.windowed = config.window_size is not None and (
            config.layer_types is None or config.layer_types[layer] == "sliding_attention"
        )
        self.norm_first = config.norm_placement == "pre"
        self.parallel = config.parallel_block != "none"
        self.drop_sum = apart is None

    def construct(self, x_BTH: Tensor, mask: Any, positions: Any) -> Tensor:
        if self.parallel:
            normed = self.attention_norm(x_BTH)
            attended = self.attention(normed, mask, positions)
            if self.mlp_norm is not None:
                normed = self.mlp_norm(x_BTH)
            if self.drop_sum:
                return x_BTH + self.dropout(attended + self.mlp(normed))
            return x_BTH + self.attention_dropout(attended) + self.dropout_after_mlp(self.mlp(normed))
        if self.norm_first:
            x_BTH = x_BTH + self.attention_dropout(self.attention(self.attention_norm(x_BTH), mask, positions))
            return x_BTH + self.dropout_after_mlp(self.mlp(self.mlp_norm(x_BTH)))
        x_BTH = self.attention_norm(x_BTH + self.attention_dropout(self.attention(x_BTH, mask, positions)))
        return self.mlp_norm(x_BTH + self.dropout_after_mlp(self.mlp(x_BTH)))


def _attention(config: TransformerConfig, layer: int) -> nn.Cell:
    if config.pos_att_type != "none":
        return DisentangledAttention(config)
    return LatentAttention(config, layer) if config.multi_latent_attention else Attention(config, layer)
