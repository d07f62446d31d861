"""Silent losses about the layers of a model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from mindport.config.mindformers.case import CONVERTED, INFERRED, LATENT, QWEN, TELECHAT, Case, Check, Hit
from mindport.targets.mindformers.graphs import GRAPHS, HF_KEYS
from mindport.targets.mindformers.versions import LEGACY, MCORE, PYNATIVE, version_named


def _dropout(case: Case) -> Iterator[Hit]:
    value = case.get("hidden_dropout")
    if value is None:
        yield case.place("hidden_dropout"), value


def _window(case: Case) -> Iterator[Hit]:
    types = case.get("layer_types", [])
    if case.get("use_sliding_window") and case.get("sliding_window"):
        yield case.place("sliding_window"), case.whole["sliding_window"]
    elif isinstance(types, list) and "sliding_attention" in types:
        yield case.place("layer_types"), "sliding_attention"
    elif case.generation == LEGACY and case.get("sliding_window"):
        yield case.place("sliding_window"), case.whole["sliding_window"]


def _attention_bias(case: Case) -> Iterator[Hit]:
    # To MindFormers the key is about queries, keys and values alone. Where no config.json gives it another meaning, and
    # the graph stands in for other models, it is meant so: Qwen2 has these biases, and no other.
    meant_so = case.family in TELECHAT and not case.hf and not case.document.get("pretrained_model_dir")
    if case.get("attention_bias") and not meant_so:
        yield case.place("attention_bias"), True


def _implied_bias(case: Case) -> Iterator[Hit]:
    if not case.first("add_qkv_bias", "attention_bias", "qkv_has_bias")[1]:
        yield case.place("add_qkv_bias"), None


def _tied(case: Case) -> Iterator[Hit]:
    if case.get("tie_word_embeddings"):
        yield case.place("tie_word_embeddings"), True


def _latent_norms(case: Case) -> Iterator[Hit]:
    key, value = case.first("qk_layernorm", "use_qk_norm")
    if not value:
        yield case.place(key), value


def _latent_epsilon(case: Case) -> Iterator[Hit]:
    key, value = case.first("rms_norm_eps", "layernorm_epsilon", "layer_norm_epsilon")
    if value is not None and value != 1e-6:
        yield case.place(key), value


def _latent_widths(case: Case) -> Iterator[Hit]:
    for key in ("qk_nope_head_dim", "qk_rope_head_dim"):
        if key in case.whole:
            yield case.place(key), case.whole[key]


def _modules(case: Case) -> Iterator[Hit]:
    key, value = case.first("num_nextn_predict_layers", "mtp_num_layers", "mtp_depth")
    if value:
        yield case.place(key), value


def _loss_of_modules(case: Case) -> Iterator[Hit]:
    for place, value in _modules(case):
        if case.first("mtp_loss_factor", "mtp_loss_scaling_factor")[1] is None:
            yield place, value


def _old_modules(case: Case) -> Iterator[Hit]:
    yield from _modules(case) if case.generation == PYNATIVE else ()


def _norms_not_loaded(case: Case) -> Iterator[Hit]:
    if case.get("use_qk_norm"):
        yield case.place("use_qk_norm"), True


def _padding(case: Case) -> Iterator[Hit]:
    if case.complete and case.get("pad_token_id") is None:
        yield case.place("pad_token_id"), None


def _token_zero(case: Case) -> Iterator[Hit]:
    told = case.get("pad_token_id")
    unknown = told is None and not case.complete
    columns = case.run("train_dataset", "input_columns")
    given = isinstance(columns, list) and "attention_mask" in columns
    causal = case.get("use_attn_mask_compression") or case.get("use_eod_attn_mask_compression")
    if told != 0 and not (unknown or given or causal):
        yield case.place("pad_token_id"), told


def _hf_names(case: Case) -> Iterator[Hit]:
    """Names of the other generation that the legacy class swallows."""
    names = {*HF_KEYS.values(), *HF_KEYS, "num_attention_heads", "max_position_embeddings", *_NO_PART}
    llama = GRAPHS[LEGACY, "llama"]
    read = {key.name for key in llama.keys} | set(llama.written)
    for key in case.section:
        if key in names and key not in read and key not in _HARMLESS:
            yield case.place(key), case.section[key]


_NO_PART = ("attention_dropout", "hidden_dropout", "hidden_act", "mlp_bias", "params_dtype", "layernorm_compute_dtype")
"""Properties that the legacy graph has no switch for, and spellings of others."""
_HARMLESS = ("init_method_std", "head_dim", "kv_channels")
"""The last two mostly say what is so anyway; `_head_width` compares them."""


def _head_width(case: Case) -> Iterator[Hit]:
    heads, hidden = case.get("num_heads"), case.get("hidden_size")
    key, width = case.first("head_dim", "kv_channels")
    if (
        isinstance(width, int)
        and isinstance(heads, int)
        and isinstance(hidden, int)
        and heads
        and width != hidden // heads
    ):
        yield case.place(key), width


def _later_keys(case: Case) -> Iterator[Hit]:
    for key in GRAPHS[LEGACY, "llama"].keys:
        if key.name in case.section and not key.known(case.version) and case.section[key.name] != key.absent:
            yield case.place(key.name), case.section[key.name]


def _joined_biases(case: Case) -> Iterator[Hit]:
    if case.get("qkv_concat") and case.get("qkv_has_bias"):
        yield case.place("qkv_concat"), True


def _contiguous(case: Case) -> Iterator[Hit]:
    if case.get("use_contiguous_weight_layout_attention") and case.run("checkpoint", "load_path"):
        yield case.place("use_contiguous_weight_layout_attention"), True


def _dtype(case: Case) -> Iterator[Hit]:
    strict = case.family in QWEN or case.version.order < version_named("1.9").order
    if "dtype" in case.whole and strict:
        yield case.place("dtype"), case.whole["dtype"]


@cache
def _keys() -> frozenset[str]:
    """Keys that MindFormers 1.9 converts, or knows and passes over, in any family that it trains."""
    return frozenset(json.loads((Path(__file__).parent / "schema" / "model_keys.json").read_text(encoding="utf-8")))


def _unmapped(case: Case) -> Iterator[Hit]:
    for key, value in case.whole.items():
        if key not in _keys() and key not in ("dtype", "rope_parameters"):  # which have checks of their own
            yield case.place(str(key)), value


def _of_experts(case: Case) -> Iterator[Hit]:
    value = case.get("expert_model_parallel", 1)
    if value != 1 and case.whole_number("parallel_config", "expert_parallel") == 1:
        yield case.place("expert_model_parallel"), value


def _passed_over(case: Case) -> Iterator[Hit]:
    for key in ("multiple_of", "ffn_dim_multiplier", "moe_config"):
        if case.section.get(key) is not None:
            yield case.place(key), case.section[key]


CHECKS = (
    Check(
        "MF001",
        "hidden_dropout is 0.1 where the YAML does not say otherwise",
        "write hidden_dropout: 0.0",
        _dropout,
        CONVERTED,
        (*QWEN, "telechat3"),
        source="1.2",
    ),
    Check(
        "MF002",
        "sliding windows are dropped: every layer sees the whole sequence",
        "train with sequences no longer than the window, and take the window out of the configuration",
        _window,
        families=(*QWEN, *INFERRED, *TELECHAT, "LlamaConfig"),
        training=False,
        source="1.2",
    ),
    Check(
        "MF003",
        "the output projection of attention has no bias in MindFormers: the one that attention_bias asks for is lost",
        "a model with this bias cannot be trained with this graph",
        _attention_bias,
        CONVERTED,
        (*QWEN, *LATENT, *TELECHAT),
        source="4.1",
    ),
    Check(
        "MF004",
        "the biases of queries, keys and values, which Qwen2 has without saying so, are dropped",
        "write add_qkv_bias: True",
        _implied_bias,
        (MCORE,),
        ("qwen2",),
        training=False,
        source="7",
    ),
    Check(
        "MF005",
        "tie_word_embeddings is ignored: the output layer gets weights of its own",
        "a model with tied embeddings cannot be trained with this graph",
        _tied,
        CONVERTED,
        (*LATENT, "telechat3"),
        source="4.1",
    ),
    Check(
        "MF006",
        "without qk_layernorm: True the norms of the latents do not exist, and their weights are dropped",
        "write qk_layernorm: True",
        _latent_norms,
        CONVERTED,
        LATENT,
        source="7",
    ),
    Check(
        "MF007",
        "the norms of the latents get this epsilon too, where the model has 1e-6",
        "a model with another epsilon differs a little from what MindFormers trains",
        _latent_epsilon,
        CONVERTED,
        LATENT,
    ),
    Check(
        "MF008",
        "the widths of latent heads are not read under these names: the class's 128 and 64 stay",
        "write qk_head_dim and qk_pos_emb_head_dim",
        _latent_widths,
        CONVERTED,
        ("telechat3_moe",),
        source="1.2",
    ),
    Check(
        "MF009",
        "the modules for multi-token prediction are dropped",
        "set num_nextn_predict_layers to 0 to say so",
        _modules,
        CONVERTED,
        ("glm4_moe", "telechat3"),
        training=False,
        source="1.2",
    ),
    Check(
        "MF030",
        "modules for multi-token prediction without a factor for their loss stop with a TypeError",
        "write mtp_loss_factor",
        _loss_of_modules,
        CONVERTED,
        LATENT,
        source="7",
    ),
    Check(
        "MF031",
        "the pynative graph of this version drops the modules for multi-token prediction",
        "take the mcore generation, or MindFormers 2.0",
        _old_modules,
        (PYNATIVE,),
        ("deepseek_v3",),
        until="1.9",
    ),
    Check(
        "MF032",
        "norms of queries and keys are made and never loaded from Hugging Face's weights",
        "convert the weights beforehand",
        _norms_not_loaded,
        (MCORE,),
        ("glm4_moe",),
        training=False,
        source="7",
    ),
    Check(
        "MF033",
        "without pad_token_id the class's 151643 is taken for padding",
        "write pad_token_id; -1 where there is no padding token",
        _padding,
        CONVERTED,
        (*QWEN, "qwen2", "glm4_moe", "telechat3"),
        since="1.8",
        source="1.2",
    ),
    Check(
        "MF034",
        "the legacy class accepts this key and does not read it",
        "write it under its legacy name, if it has one; else the legacy graph has no such property",
        _hf_names,
        (LEGACY,),
        ("LlamaConfig",),
        training=False,
        source="1.4",
    ),
    Check(
        "MF035",
        "heads are always hidden_size / num_heads wide: a width of their own is not read",
        "a model with such heads needs the mcore generation",
        _head_width,
        (LEGACY,),
        ("LlamaConfig",),
        training=False,
        source="1.4",
    ),
    Check(
        "MF036",
        "this version does not know the key yet, and does not say so",
        "take a newer version of MindFormers",
        _later_keys,
        (LEGACY,),
        ("LlamaConfig",),
        training=False,
        source="1.4",
    ),
    Check(
        "MF037",
        "MindFormers' own conversion joins the biases in another order than the graph reads them",
        "set qkv_concat: False, or convert the weights with Mindport",
        _joined_biases,
        (LEGACY,),
        ("LlamaConfig",),
        training=False,
        source="4.3",
    ),
    Check(
        "MF038",
        "Hugging Face weights that checkpoint.load_path loads are joined group by group, whatever this flag says",
        "set use_contiguous_weight_layout_attention: False, or load_checkpoint: weights that Mindport has converted",
        _contiguous,
        (MCORE,),
        QWEN,
        since="1.9",
        source="4.4",
    ),
    Check(
        "MF039",
        "the key dtype, which transformers has written since 4.56, stops the conversion of the configuration",
        "take dtype out of the configuration; compute_dtype and params_dtype decide",
        _dtype,
        CONVERTED,
        source="1.2",
    ),
    Check(
        "MF040",
        "the key is on the list of those that are passed over; the width of the MLP does not follow it",
        "write intermediate_size, and the properties of experts, in model_config itself",
        _passed_over,
        CONVERTED,
        training=False,
    ),
    Check(
        "MF048",
        "expert_model_parallel is the tensor parallelism of experts: they are not spread over devices by it",
        "set expert_parallel in parallel_config",
        _of_experts,
        (MCORE,),
        source="1.2",
    ),
    Check(
        "MF049",
        "no rule converts this key: it is dropped with a warning, or, for Qwen3 and before 1.9, MindFormers stops",
        "take the key out, or write it under the name that MindFormers has for it",
        _unmapped,
        CONVERTED,
        (*QWEN, *LATENT, "telechat3"),
        source="1.2",
    ),
    Check(
        "MF050",
        "pad_token_id is not read: token 0 is taken for padding, and no token attends to it",
        "write use_attn_mask_compression: True, whose mask knows no padding; or take MindFormers 1.8",
        _token_zero,
        (MCORE,),
        (*QWEN, "deepseek_v3"),
        until="1.7",
    ),
)
