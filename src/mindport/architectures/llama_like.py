"""What the many descendants of Llama share: classes, config keys, tensors."""

from __future__ import annotations

from mindport.architectures.common import ACTIVATION_NAMES, COMMON, DECODER, head_width, padding_row, probability, size
from mindport.architectures.rope import Rope
from mindport.architectures.vocabulary import Field, HFClass, Ignored, Rule

CONSTANTS = {"normalization": "RMSNorm", "gated_linear_unit": True, "position_embedding_type": "rope"}

COMPUTED = {"embedding_padding_idx": padding_row, "softmax_scale": lambda hf: hf["head_dim"] ** -0.5}


def classes(name: str) -> dict[str, HFClass]:
    """The causal language model and the bare model of a family: `classes("Llama")`."""
    return {f"{name}ForCausalLM": HFClass({"head": "causal_lm"}), f"{name}Model": HFClass({"head": "none"})}


RULES: tuple[Rule, ...] = (
    size("vocab_size", "vocab_size"),
    size("hidden_size", "hidden_size"),
    size("intermediate_size", "ffn_hidden_size"),
    size("num_hidden_layers", "num_layers"),
    size("num_attention_heads", "num_attention_heads"),
    size("num_key_value_heads", "num_query_groups", derive=lambda hf: hf["num_attention_heads"]),
    size("head_dim", "kv_channels", derive=head_width),
    size("max_position_embeddings", "max_position_embeddings"),
    Field("hidden_act", "activation_func", ACTIVATION_NAMES),
    Field("rms_norm_eps", "layernorm_epsilon", float, minimum=0),
    Rope(),
    Field("tie_word_embeddings", "tie_word_embeddings", bool),
    probability("attention_dropout", "attention_dropout"),
    Field("initializer_range", "init_method_std", float, minimum=0),
    *DECODER,
    Ignored(("is_decoder",), "the model's class is always a decoder"),
    Ignored(("draft_vocab_size",), "belongs to EAGLE's draft head, which the model's class does not have"),
    *COMMON,
)


def rules(*instead: Rule, without: tuple[str, ...] = ()) -> tuple[Rule, ...]:
    """RULES, with those whose keys the given ones have replaced by them, and without those of some keys."""
    replaced = {key: rule for rule in instead for key in rule.keys}
    found: list[Rule] = []
    for rule in RULES:
        taken = replaced.get(rule.keys[0], rule)
        # A rule with several keys may replace several rules.
        if rule.keys[0] not in without and not any(taken is earlier for earlier in found):
            found.append(taken)
    return tuple(found)


BASES = ("model.", "")

ENDS = {
    "{base}embed_tokens.weight": "embedding.word.weight",
    "{base}norm.{p}": "final_norm.{p}",
    "lm_head.weight": "head.output.weight",
}

NORMS = {
    "{base}layers.{L}.input_layernorm.{p}": "layer.{L}.attention_norm.{p}",
    "{base}layers.{L}.post_attention_layernorm.{p}": "layer.{L}.mlp_norm.{p}",
}

WITHOUT_MLP = {
    **NORMS,
    "{base}layers.{L}.self_attn.q_proj.{p}": "layer.{L}.attention.q.{p}",
    "{base}layers.{L}.self_attn.k_proj.{p}": "layer.{L}.attention.k.{p}",
    "{base}layers.{L}.self_attn.v_proj.{p}": "layer.{L}.attention.v.{p}",
    "{base}layers.{L}.self_attn.o_proj.{p}": "layer.{L}.attention.o.{p}",
    **ENDS,
}

MLP = {
    "{base}layers.{L}.mlp.gate_proj.{p}": "layer.{L}.mlp.gate.{p}",
    "{base}layers.{L}.mlp.up_proj.{p}": "layer.{L}.mlp.up.{p}",
    "{base}layers.{L}.mlp.down_proj.{p}": "layer.{L}.mlp.down.{p}",
}

TENSORS = {**MLP, **WITHOUT_MLP}

QK_NORM = {
    "{base}layers.{L}.self_attn.q_norm.{p}": "layer.{L}.attention.q_norm.{p}",
    "{base}layers.{L}.self_attn.k_norm.{p}": "layer.{L}.attention.k_norm.{p}",
}
"""Norms of queries and keys, as Qwen3 names them."""

UNUSED = {"{base}layers.{L}.self_attn.rotary_emb.inv_freq": "RoPE frequencies, recomputed"}

TIED = {"lm_head.weight": "embedding.word.weight"}
