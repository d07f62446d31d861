"""Multi-head attention with shared key/value heads (grouped queries)."""

from __future__ import annotations

from typing import Any

from mindspore import Tensor, nn, ops

from mindport.models.dtypes import cast, to_mindspore
from mindport.models.linear import Linear
from mindport.models.masks import masked
from mindport.models.norms import norm
from mindport.models.rope import rotate
from mindport.schema import TransformerConfig


class Attention(nn.Cell):
    """Self-attention: (B, T, H) -> (B, T, H).

    Shapes: G key/value heads, R query heads for each of them (R = 1 without grouping), N = G * R, D the
    width of a head. Query head n uses key/value head n // R.
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
        normed = config.qk_layernorm == "head"
        self.q_norm = norm(config, self.head_width) if normed else None
        self.k_norm = norm(config, self.head_width) if normed else None
        self.interleaved = config.rotary_interleaved
        self.scale = config.softmax_scale
        if config.scale_attention_by_inverse_layer_idx:
            self.scale = self.scale / (layer + 1)
        self.softmax_dtype = to_mindspore(config.softmax_compute_dtype)
        self.mask_padding = config.mask_padding
        self.scores = ops.BatchMatMul(transpose_b=True)
        self.mix = ops.BatchMatMul()
        self.dropout = nn.Dropout(p=config.attention_dropout)

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

        # The R query heads of a group share its keys: they become more rows of one product per group, so that
        # keys and values are never repeated. The scale goes onto q, which is smaller than the scores.
        q_BGQD = (q_BTND * self.scale).transpose(0, 2, 1, 3).reshape(B, G, -1, D)
        k_BGSD, v_BGSD = k_BTGD.transpose(0, 2, 1, 3), v_BTGD.transpose(0, 2, 1, 3)
        scores_BNTS = cast(self.scores(q_BGQD, k_BGSD).reshape(B, N, T, T), self.softmax_dtype)
        scores_BNTS = masked(scores_BNTS, mask, replaced=self.mask_padding)
        weights_BNTS = self.dropout(cast(ops.softmax(scores_BNTS, -1), v_BTGD.dtype))
        mixed_BGQD = self.mix(weights_BNTS.reshape(B, G, -1, T), v_BGSD)
        return self.o(mixed_BGQD.reshape(B, N, T, D).transpose(0, 2, 1, 3).reshape(B, T, N * D))
