"""Multi-head attention with shared key/value heads (grouped queries)."""

from __future__ import annotations

from typing import Any

from mindspore import Tensor, nn

from mindport.models.dot_product import DotProductAttention, sinks
from mindport.models.dtypes import to_mindspore
from mindport.models.linear import Linear
from mindport.models.norms import HeadNorm, norm
from mindport.models.rope import rotate
from mindport.schema import TransformerConfig


class Attention(nn.Cell):
    """Self-attention: (B, T, H) -> (B, T, H).

    Shapes: N query heads, G key/value heads, D the width of a head.
    """

    def __init__(self, config: TransformerConfig, layer: int) -> None:
        super().__init__()
        dtypes = {
            "params_dtype": to_mindspore(config.params_dtype),
            "compute_dtype": to_mindspore(config.compute_dtype),
        }
        self.head_width = config.kv_channels
        self.groups = config.num_query_groups
        self.heads = config.num_attention_heads
        hidden = config.hidden_size
        q_width, kv_width = self.heads * self.head_width, self.groups * self.head_width
        self.q = Linear(hidden, q_width, bias=config.add_qkv_bias, **dtypes)
        self.k = Linear(hidden, kv_width, bias=config.add_qkv_bias, **dtypes)
        self.v = Linear(hidden, kv_width, bias=config.add_qkv_bias, **dtypes)
        self.o = Linear(q_width, hidden, bias=config.add_attention_output_bias, **dtypes)
        self.q_norm = _head_norm(config, self.heads)
        self.k_norm = _head_norm(config, self.groups)
        self.interleaved = config.rotary_interleaved
        self.sinks = sinks(config)
        self.attend = DotProductAttention(config, layer)

    def construct(self, x_BTH: Tensor, mask: Any, positions: Any) -> Tensor:
        B, T, _ = x_BTH.shape
        G, N, D = self.groups, self.heads, self.head_width
        q_BTND = self.q(x_BTH).reshape(B, T, N, D)
        k_BTGD = self.k(x_BTH).reshape(B, T, G, D)
        v_BTGD = self.v(x_BTH).reshape(B, T, G, D)
        if self.q_norm is not None and self.k_norm is not None:
            q_BTND, k_BTGD = self.q_norm(q_BTND), self.k_norm(k_BTGD)
        if positions is not None:
            cos, sin = positions
            q_BTND = rotate(q_BTND, cos, sin, self.interleaved)
            k_BTGD = rotate(k_BTGD, cos, sin, self.interleaved)
        return self.o(self.attend(q_BTND, k_BTGD, v_BTGD, mask, self.sinks))


def _head_norm(config: TransformerConfig, heads: int) -> nn.Cell | None:
    """The norm of queries or of keys, (..., N, D) -> the same; None without one."""
    if config.qk_layernorm == "each_head":
        return HeadNorm(config, heads)
    return norm(config, config.kv_channels) if config.qk_layernorm == "head" else None
