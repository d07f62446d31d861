"""DeepSeek's latent attention (MLA): config keys and tensors."""

from __future__ import annotations

import math

from mindport.architectures.common import size
from mindport.architectures.rope import Rope
from mindport.architectures.vocabulary import Field, HFConfig, Repeats, Rule
from mindport.layout import Fuse, Stored


def head_width(hf: HFConfig) -> int:
    """Width of a query or key, its parts without and with RoPE together."""
    width: int = hf["qk_nope_head_dim"] + hf["qk_rope_head_dim"]
    return width


def softmax_scale(hf: HFConfig) -> float:
    """head width ** -0.5, times the square of YaRN's 0.1 m ln(factor) + 1 where `mscale_all_dim` gives an m.

    YaRN's own factor, on cos and sin, does not reach the part of a head without RoPE; this one reaches both.
    """
    scaling = Rope().decode(hf)["rope_scaling"] or {}
    scale: float = head_width(hf) ** -0.5
    mscale, factor = scaling.get("mscale_all_dim"), scaling.get("factor", 1.0)
    if mscale and factor > 1:
        magnitude = 0.1 * mscale * math.log(factor) + 1.0
        scale = scale * magnitude * magnitude
    return scale


SAME_HEADS = Repeats(
    "num_key_value_heads",
    "num_attention_heads",
    "latent attention makes a key and a value for every head",
    lambda config: config.num_query_groups,
)
TURNED_WIDTH = Repeats(
    "head_dim",
    "qk_rope_head_dim",
    "the class sets it to qk_rope_head_dim",
    lambda config: config.qk_pos_emb_head_dim,
)

RULES: tuple[Rule, ...] = (
    size("q_lora_rank", "q_lora_rank", nullable=True),
    size("kv_lora_rank", "kv_lora_rank"),
    size("qk_nope_head_dim", "qk_head_dim"),
    size("qk_rope_head_dim", "qk_pos_emb_head_dim"),
    size("v_head_dim", "v_head_dim"),
    Repeats(
        "qk_head_dim",
        head_width,
        "it is the sum of qk_nope_head_dim and qk_rope_head_dim",
        lambda config: config.kv_channels,
    ),
    Field("rope_interleave", "rotary_interleaved", bool),
    Field("attention_bias", ("add_qkv_bias", "add_attention_output_bias"), bool),
)

TENSORS: dict[str, str | Stored] = {
    "{base}layers.{L}.self_attn.q_proj.weight": "layer.{L}.attention.q.weight",
    "{base}layers.{L}.self_attn.q_a_proj.{p}": "layer.{L}.attention.q_down.{p}",
    "{base}layers.{L}.self_attn.q_a_layernorm.{p}": "layer.{L}.attention.q_latent_norm.{p}",
    "{base}layers.{L}.self_attn.q_b_proj.weight": "layer.{L}.attention.q_up.weight",
    "{base}layers.{L}.self_attn.kv_a_proj_with_mqa.{p}": Stored(
        ("layer.{L}.attention.kv_down.{p}", "layer.{L}.attention.k_rope.{p}"), (Fuse(),)
    ),
    "{base}layers.{L}.self_attn.kv_a_layernorm.{p}": "layer.{L}.attention.kv_latent_norm.{p}",
    "{base}layers.{L}.self_attn.kv_b_proj.weight": Stored(
        ("layer.{L}.attention.k_up.weight", "layer.{L}.attention.v_up.weight"), (Fuse("num_attention_heads"),)
    ),
    "{base}layers.{L}.self_attn.o_proj.{p}": "layer.{L}.attention.o.{p}",
}
