"""Multi-head latent attention (MLA): keys and values of all heads come from one narrow latent."""

from __future__ import annotations

from typing import Any

from mindspore import Tensor, nn, ops

from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.models.dot_product import DotProductAttention, sinks
from mindport.models.dtypes import to_mindspore
from mindport.models.linear import Linear
from mindport.models.norms import norm
from mindport.models.rope import rotate
from mindport.schema import TransformerConfig


class LatentAttention(nn.Cell):
    """Self-attention (DeepSeek-V2, section 2.1): (B, T, H) -> (B, T, H).

    The latent c = norm(kv_down(x)) gives each head its key without position and its value, k_up(c) and v_up(c); the
    part of the key with RoPE, k_rope(x), is one for all heads. Queries are q(x), or q_up(norm(q_down(x))).

    Shapes: N heads; a query or key is P wide without position and R wide with it, a value E.
    """

    def __init__(self, config: TransformerConfig, layer: int) -> None:
        super().__init__()
        _check_parts(config)
        dtypes = {
            "params_dtype": to_mindspore(config.params_dtype),
            "compute_dtype": to_mindspore(config.compute_dtype),
        }
        self.heads = config.num_attention_heads
        self.plain, self.turned = config.qk_head_dim, config.qk_pos_emb_head_dim
        hidden, q_rank, kv_rank = config.hidden_size, config.q_lora_rank, config.kv_lora_rank
        q_width, bias = self.heads * config.kv_channels, config.add_qkv_bias
        small = config.latent_layernorm_epsilon
        self.q: Any = Linear(hidden, q_width, bias=False, **dtypes) if q_rank is None else None
        if q_rank is not None:
            self.q_down = Linear(hidden, q_rank, bias=bias, **dtypes)
            self.q_latent_norm = norm(config, q_rank, small)
            self.q_up = Linear(q_rank, q_width, bias=False, **dtypes)
        self.kv_down = Linear(hidden, kv_rank, bias=bias, **dtypes)
        self.k_rope = Linear(hidden, self.turned, bias=bias, **dtypes)
        self.kv_latent_norm = norm(config, kv_rank, small)
        self.k_up = Linear(kv_rank, self.heads * self.plain, bias=False, **dtypes)
        self.v_up = Linear(kv_rank, config.attention_width, bias=False, **dtypes)
        self.o = Linear(config.attention_width, hidden, bias=config.add_attention_output_bias, **dtypes)
        self.interleaved = config.rotary_interleaved
        self.sinks = sinks(config)
        self.attend = DotProductAttention(config, layer)

    def construct(self, x_BTH: Tensor, mask: Any, positions: Any) -> Tensor:
        B, T, _ = x_BTH.shape
        N, P, R = self.heads, self.plain, self.turned
        q_BTND = self.queries(x_BTH).reshape(B, T, N, P + R)
        q_BTNP, q_BTNR = q_BTND[..., :P], q_BTND[..., P:]
        k_BT1R = self.k_rope(x_BTH).reshape(B, T, 1, R)
        if positions is not None:
            cos, sin = positions
            q_BTNR = rotate(q_BTNR, cos, sin, self.interleaved)
            k_BT1R = rotate(k_BT1R, cos, sin, self.interleaved)
        latent = self.kv_latent_norm(self.kv_down(x_BTH))
        k_BTNP = self.k_up(latent).reshape(B, T, N, P)
        v_BTNE = self.v_up(latent).reshape(B, T, N, -1)
        q_BTND = ops.concat([q_BTNP, q_BTNR], -1)
        k_BTND = ops.concat([k_BTNP, ops.broadcast_to(k_BT1R, (B, T, N, R))], -1)
        return self.o(self.attend(q_BTND, k_BTND, v_BTNE, mask, self.sinks))

    def queries(self, x_BTH: Tensor) -> Tensor:
        """(B, T, H) -> (B, T, N * (P + R))."""
        if self.q is None:
            return self.q_up(self.q_latent_norm(self.q_down(x_BTH)))
        return self.q(x_BTH)


def _check_parts(config: TransformerConfig) -> None:
    if config.qk_layernorm != "none":
        raise MindportError(
            tr("Latent attention has norms of its latents, and no others of queries and keys."),
            tr("Set qk_layernorm to 'none'."),
        )
    if config.kv_channels != config.qk_head_dim + config.qk_pos_emb_head_dim:
        raise MindportError(
            tr(
                "A latent head is {width} wide, but its parts are {plain} without RoPE and {turned} with it.",
                width=config.kv_channels,
                plain=config.qk_head_dim,
                turned=config.qk_pos_emb_head_dim,
            ),
            tr("kv_channels must be the sum of qk_head_dim and qk_pos_emb_head_dim."),
        )
