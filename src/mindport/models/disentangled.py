"""Disentangled attention: contents and relative positions of tokens score each other (DeBERTa, He et al., 2021)."""

from __future__ import annotations

from typing import Any

from mindspore import Tensor, nn, ops

from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.models.dtypes import cast, to_mindspore
from mindport.models.linear import Linear
from mindport.models.masks import masked
from mindport.schema import TransformerConfig


class DisentangledAttention(nn.Cell):
    """Self-attention: (B, T, H) -> (B, T, H). N heads of width D, P rows of relative positions.

    The score of query i and key j is q_i k_j, plus q_i pk_r (content asks position, c2p), plus k_j pq_r (position asks
    content, p2c), all by the same scale. r is the row of the distance i - j, pk and pq are the rows projected to keys
    and queries.

    Raises:
        MindportError: the configuration asks for something that DeBERTa's attention does not have.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        _check(config)
        self.heads, self.head_width = config.num_attention_heads, config.kv_channels
        hidden, width = config.hidden_size, self.heads * self.head_width
        dtypes = {
            "params_dtype": to_mindspore(config.params_dtype),
            "compute_dtype": to_mindspore(config.compute_dtype),
        }
        self.q = Linear(hidden, width, bias=config.add_qkv_bias, **dtypes)
        self.k = Linear(hidden, width, bias=config.add_qkv_bias, **dtypes)
        self.v = Linear(hidden, width, bias=config.add_qkv_bias, **dtypes)
        self.o = Linear(width, hidden, bias=config.add_attention_output_bias, **dtypes)
        self.c2p, self.p2c = "c2p" in config.pos_att_type, "p2c" in config.pos_att_type
        own = not config.share_att_key
        self.pos_key = Linear(hidden, width, bias=config.add_qkv_bias, **dtypes) if own and self.c2p else None
        self.pos_query = Linear(hidden, width, bias=config.add_qkv_bias, **dtypes) if own and self.p2c else None
        self.scale = config.softmax_scale
        self.softmax_dtype = to_mindspore(config.softmax_compute_dtype)
        self.mask_padding = config.mask_padding
        self.scores = ops.BatchMatMul(transpose_b=True)
        self.mix = ops.BatchMatMul()
        self.position_dropout = nn.Dropout(p=config.hidden_dropout)
        self.dropout = nn.Dropout(p=config.attention_dropout)

    def construct(self, x_BTH: Tensor, mask: Any, positions: Any) -> Tensor:
        B, T, _ = x_BTH.shape
        table_PH, rows_2R = positions
        q_BNTD = self.by_head(self.q(x_BTH)) * self.scale
        k_BNSD, v_BNSD = self.by_head(self.k(x_BTH)), self.by_head(self.v(x_BTH))
        scores_BNTS = self.scores(q_BNTD, k_BNSD)
        table_PH = self.position_dropout(table_PH)
        if self.c2p:
            pos_key_PW = self.k(table_PH) if self.pos_key is None else self.pos_key(table_PH)
            scores_BNTS = scores_BNTS + self.with_positions(q_BNTD, pos_key_PW, rows_2R[0])
        if self.p2c:
            pos_query_PW = self.q(table_PH) if self.pos_query is None else self.pos_query(table_PH)
            # Seen from the key: its distances to queries rise, and the scores come out turned.
            scores_BNST = self.with_positions(k_BNSD, pos_query_PW * self.scale, rows_2R[1])
            scores_BNTS = scores_BNTS + scores_BNST.swapaxes(2, 3)
        scores_BNTS = masked(cast(scores_BNTS, self.softmax_dtype), mask, replaced=self.mask_padding)
        weights_BNTS = self.dropout(cast(ops.softmax(scores_BNTS, -1), v_BNSD.dtype))
        return self.o(self.mix(weights_BNTS, v_BNSD).transpose(0, 2, 1, 3).reshape(B, T, -1))

    def by_head(self, x_BTW: Tensor) -> Tensor:
        """(B, T, N * D) -> (B, N, T, D)."""
        B, T, _ = x_BTW.shape
        return x_BTW.reshape(B, T, self.heads, self.head_width).transpose(0, 2, 1, 3)

    def with_positions(self, content_BNTD: Tensor, position_PW: Tensor, rows_R: Tensor) -> Tensor:
        """Products of contents with the positions of their distances: (B, N, T, S)."""
        B, N, T, D = content_BNTD.shape
        # All products of one head are one: positions are the same for every sequence of the batch.
        content_NQD = content_BNTD.transpose(1, 0, 2, 3).reshape(N, B * T, D)
        position_NRD = self.by_head(ops.gather(position_PW, rows_R, 0).expand_dims(0))[0]
        products_NQR = self.scores(content_NQD, position_NRD)
        return shear(products_NQR.reshape(N, B, T, -1)).swapaxes(0, 1)


def shear(x: Tensor) -> Tensor:
    """(N, B, T, 2T - 1) -> (N, B, T, T): row t from column T - 1 - t on, in one slice for all rows.

    In rows of 2T elements, one step to the next row and one back is 2T - 1 elements on: that many make a row of those
    that belong together.
    """
    N, B, T, R = x.shape
    flat = ops.concat((x, ops.zeros((N, B, T, 1), x.dtype)), 3).reshape(N, B, -1)
    return flat[:, :, T - 1 : T - 1 + T * R].reshape(N, B, T, R)[:, :, :, :T]


def _check(config: TransformerConfig) -> None:
    """Nothing is left out in silence."""
    wanted = {
        "position_embedding_type": ("learned_absolute", "none"),
        "num_query_groups": (config.num_attention_heads,),
        "qk_layernorm": ("none",),
        "softmax_type": ("vanilla",),
        "multi_latent_attention": (False,),
        "scale_attention_by_inverse_layer_idx": (False,),
    }
    for field, values in wanted.items():
        if getattr(config, field) not in values:
            raise MindportError(
                tr(
                    "Disentangled attention cannot be combined with {field} = {value!r}.",
                    field=field,
                    value=getattr(config, field),
                ),
                tr("Set pos_att_type to 'none' or {field} to {value!r}.", field=field, value=values[0]),
            )
