"""Scores, softmax and mixing: what every kind of attention does once it has queries, keys and values."""

from __future__ import annotations

from typing import Any

from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import initializer

from mindport.models.dtypes import cast, to_mindspore
from mindport.models.masks import masked
from mindport.schema import TransformerConfig


class DotProductAttention(nn.Cell):
    """softmax(q @ k^T * scale + mask) @ v.

    Shapes: q (B, T, N, D), k (B, T, G, D), v (B, T, G, E) -> (B, T, N * E). Each of the G key/value heads serves R
    query heads, N = G * R: query head n uses key/value head n // R.
    """

    def __init__(self, config: TransformerConfig, layer: int) -> None:
        super().__init__()
        self.scale = config.softmax_scale
        if config.scale_attention_by_inverse_layer_idx:
            self.scale = self.scale / (layer + 1)
        self.softmax_dtype = to_mindspore(config.softmax_compute_dtype)
        self.mask_padding = config.mask_padding
        self.scores = ops.BatchMatMul(transpose_b=True)
        self.mix = ops.BatchMatMul()
        self.dropout = nn.Dropout(p=config.attention_dropout)

    def construct(self, q_BTND: Tensor, k_BTGD: Tensor, v_BTGE: Tensor, mask: Any, sinks_N: Any) -> Tensor:
        B, T, N, D = q_BTND.shape
        G = k_BTGD.shape[2]
        # The R query heads of a group share its keys: they become more rows of one product per group, so that
        # keys and values are never repeated. The scale goes onto q, which is smaller than the scores.
        q_BGQD = (q_BTND * self.scale).transpose(0, 2, 1, 3).reshape(B, G, -1, D)
        k_BGSD, v_BGSE = k_BTGD.transpose(0, 2, 1, 3), v_BTGE.transpose(0, 2, 1, 3)
        scores_BNTS = cast(self.scores(q_BGQD, k_BGSD).reshape(B, N, T, T), self.softmax_dtype)
        scores_BNTS = masked(scores_BNTS, mask, replaced=self.mask_padding)
        weights_BNTS = self.dropout(cast(self.softmax(scores_BNTS, sinks_N), v_BTGE.dtype))
        mixed_BGQE = self.mix(weights_BNTS.reshape(B, G, -1, T), v_BGSE)
        return mixed_BGQE.reshape(B, N, T, -1).transpose(0, 2, 1, 3).reshape(B, T, -1)

    def softmax(self, scores_BNTS: Tensor, sinks_N: Any) -> Tensor:
        """Over the keys; a head's sink takes part as one more key, and its share goes nowhere."""
        if sinks_N is None:
            return ops.softmax(scores_BNTS, -1)
        B, N, T, S = scores_BNTS.shape
        sinks_BNT1 = ops.broadcast_to(cast(sinks_N, self.softmax_dtype).reshape(1, N, 1, 1), (B, N, T, 1))
        return ops.softmax(ops.concat([scores_BNTS, sinks_BNT1], -1), -1)[..., :S]


def sinks(config: TransformerConfig) -> Parameter | None:
    """A logit for each head, (N,), where the softmax has learned ones."""
    if config.softmax_type != "learnable":
        return None
    return Parameter(
        initializer("zeros", (config.num_attention_heads,), to_mindspore(config.params_dtype)), name="sinks"
    )
