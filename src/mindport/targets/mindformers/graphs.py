"""What each training graph of MindFormers computes, in terms of `TransformerConfig`, and under which keys it is told.

A graph says of every canonical field one of three things: the key that carries it, the one value the graph always has,
or nothing, and then the model must have the field's default. So no property of a model can get lost on the way: what a
graph cannot be told is a reason to refuse.

Names of keys: the legacy generation spells a field as its metadata `legacy` says. The mcore generation reads the
Hugging Face key where MindFormers maps one to the field (`HF_KEYS`), and else the name that the metadata `mcore` gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from mindport.plugin.families import FAMILIES as PLUGIN_FAMILIES
from mindport.plugin.families import PluginFamily, granted_by
from mindport.schema import TransformerConfig
from mindport.schema.transformer_config import RUN
from mindport.targets.mindformers.spellings import (
    LEGACY_ROPE,
    MLA_ROPE,
    MODULES,
    PADDING,
    SCALING,
    SHARED,
    SPARSE,
    Same,
    Section,
    Spelling,
)
from mindport.targets.mindformers.versions import LEGACY, MCORE, PYNATIVE, Version, version_named

Since = str | None
"""First version that knows a key; None = every one that has the graph."""


class Required:
    """In place of a value that a key would have where it is absent: MindFormers' own would be another model's."""


REQUIRED = Required()


@dataclass(frozen=True)
class Key:
    """How a graph is told of a canonical field.

    Args:
        field: the field; of several that one spelling carries, the first.
        name: the key in the model's section.
        spelling: how values become keys and back.
        since: first version that reads the key.
        absent: what the graph computes with where the key is absent, or a function that gives it from the section and
            the fields found before; REQUIRED where it would be the size of another model.
    """

    field: str
    name: str
    spelling: Spelling
    since: Since = None
    absent: Any = REQUIRED

    def known(self, version: Version) -> bool:
        return self.since is None or version.order >= version_named(self.since).order


@dataclass(frozen=True)
class Constant:
    """A key with one value, which every YAML for a graph has, so that no default of MindFormers decides.

    Args:
        value: the value.
        since, until: first and last version that reads the key; None = the first, or the last, with the graph.
    """

    value: Any
    since: Since = None
    until: Since = None

    def known(self, version: Version) -> bool:
        early = self.since is not None and version.order < version_named(self.since).order
        late = self.until is not None and version.order > version_named(self.until).order
        return not (early or late)


@dataclass(frozen=True)
class Graph:
    """A training graph.

    Args:
        name: as MindFormers calls it: its `model_type`, or that of the legacy classes.
        generation: LEGACY, MCORE or PYNATIVE.
        keys: the fields that can be told.
        fixed: the fields that are always the same.
        written: the keys that always have the same value.
        latent: latent attention instead of heads with a width of their own.
    """

    name: str
    generation: str
    keys: tuple[Key, ...]
    fixed: Mapping[str, Any]
    written: Mapping[str, Constant]
    latent: bool = False

    def key_of(self, field: str) -> Key | None:
        return next((key for key in self.keys if key.field == field), None)

    @property
    def told(self) -> frozenset[str]:
        """Fields that some key carries."""
        return frozenset(name for key in self.keys for name in (key.field, *key.spelling.also))

    def written_in(self, version: Version) -> dict[str, Any]:
        """The constant keys that a version knows."""
        return {key: constant.value for key, constant in self.written.items() if constant.known(version)}


FREE = frozenset(
    {
        *(f.name for f in fields(TransformerConfig) if f.metadata["effect"] == RUN and f.name != "mtp_num_layers"),
        "embedding_padding_idx",  # follows from pad_token_id
        "softmax_scale",  # follows from the widths: `limits` compares it
    }
)
"""Fields that are no reason to refuse: token ids and precision, which belong to a run, and what follows from others."""

HF_KEYS = {
    "num_layers": "num_hidden_layers",
    "num_query_groups": "num_key_value_heads",
    "kv_channels": "head_dim",
    "ffn_hidden_size": "intermediate_size",
    "layernorm_epsilon": "rms_norm_eps",
    "rotary_base": "rope_theta",
    "init_method_std": "initializer_range",
    "add_qkv_bias": "attention_bias",
    "moe_router_topk": "num_experts_per_tok",
    "moe_ffn_hidden_size": "moe_intermediate_size",
    "moe_router_topk_scaling_factor": "routed_scaling_factor",
    "moe_router_num_groups": "n_group",
    "moe_router_group_topk": "topk_group",
    "qk_head_dim": "qk_nope_head_dim",
    "qk_pos_emb_head_dim": "qk_rope_head_dim",
    "mtp_num_layers": "num_nextn_predict_layers",
}
"""Canonical field -> the Hugging Face key that MindFormers' mcore configuration classes read in its place. They hold
this key, with a default, whether a YAML has it or not: the canonical name beside it is a conflict, and MindFormers
stops."""


def _named(field: str, of: str) -> str:
    metadata: Mapping[str, Any] = TransformerConfig.__dataclass_fields__[field].metadata
    return str(metadata[of].split()[0])


def _legacy(field: str, since: Since = None, absent: Any = REQUIRED, spelling: Spelling | None = None) -> Key:
    return Key(field, _named(field, "legacy"), spelling or Same(), since, absent)


def _mcore(
    field: str, since: Since = None, absent: Any = REQUIRED, spelling: Spelling | None = None, name: str = ""
) -> Key:
    return Key(field, name or HF_KEYS.get(field) or _named(field, "mcore"), spelling or Same(), since, absent)


_DECODER = {
    "head": "causal_lm",
    "attention_mask_type": "causal",
    "normalization": "RMSNorm",
    "gated_linear_unit": True,
    "activation_func": "silu",
    "position_embedding_type": "rope",
    "hidden_dropout": 0.0,
    "moe_router_pre_softmax": True,
}
"""Every graph here is a Llama-like decoder."""


def _feed_forward(section: Section, found: Mapping[str, Any]) -> int:
    """Width of a legacy MLP whose YAML gives none: two thirds of 4 times the hidden size, times `ffn_dim_multiplier`,
    rounded up to `multiple_of`."""
    width = int(found["hidden_size"] * 8 / 3)
    multiplier, multiple = section.get("ffn_dim_multiplier"), section.get("multiple_of", 256)
    width = width if multiplier is None else int(multiplier * width)
    return int(multiple * ((width + multiple - 1) // multiple))


def _own(field: str) -> Callable[[Section, Mapping[str, Any]], Any]:
    """Where a key is absent, what another field has."""
    return lambda section, found: found[field]


_SIZES = ("vocab_size", "hidden_size", "num_layers", "num_attention_heads", "num_query_groups", "ffn_hidden_size")
_TOKENS = ("bos_token_id", "eos_token_id")

LLAMA = Graph(
    "llama",
    LEGACY,
    keys=(
        *(_legacy(name) for name in _SIZES[:4]),
        _legacy("num_query_groups", absent=_own("num_attention_heads")),
        _legacy("ffn_hidden_size", absent=_feed_forward),
        _legacy("max_position_embeddings", absent=lambda section, found: section.get("seq_length", 2048)),
        _legacy("layernorm_epsilon", absent=1e-5),
        _legacy("add_qkv_bias", "1.1", False),
        _legacy("add_attention_output_bias", "1.6", False),
        _legacy("rotary_base", "1.1", 10000.0),
        _legacy("rope_scaling", absent=None, spelling=LEGACY_ROPE),
        _legacy("tie_word_embeddings", "1.3", False),
        _legacy("init_method_std", "1.6", 0.01),
        _legacy("pad_token_id", absent=0, spelling=PADDING),
        *(_legacy(name, absent=None) for name in _TOKENS),
    ),
    fixed={**_DECODER, "attention_dropout": 0.0},
    written={"ignore_token_id": Constant(-100)},
)
"""`LlamaConfig` and `LlamaForCausalLM`: heads share the hidden size evenly; every property is a switch of its own."""

_DENSE = (
    *(_mcore(name) for name in _SIZES),
    _mcore("kv_channels"),
    _mcore("max_position_embeddings"),
    _mcore("layernorm_epsilon"),
    _mcore("rotary_base"),
    _mcore("init_method_std", absent=0.02),
    _mcore("attention_dropout", absent=0.0),
    _mcore("pad_token_id", absent=None, spelling=PADDING),
    *(Key(name, name, Same(), absent=None) for name in _TOKENS),
)
_DROPOUT = _mcore("hidden_dropout", absent=0.1)
_BIAS = _mcore("add_qkv_bias", absent=False)
_TIED = _mcore("tie_word_embeddings", absent=False)

_MODULES = {
    "hidden_act": Constant("silu"),
    "normalization": Constant("RMSNorm"),
    "gated_linear_unit": Constant(True),
    "add_bias_linear": Constant(False),
    "position_embedding_type": Constant("rope"),
}
_BY_GROUP = {
    "use_contiguous_weight_layout_attention": Constant(False, "1.7"),
    "use_interleaved_weight_layout_mlp": Constant(True, "1.7"),
}
"""Layout of joined weights; the one that MindFormers itself makes of Hugging Face weights."""

_ROUTED = (
    _mcore("moe_router_topk"),
    _mcore("moe_ffn_hidden_size"),
    _mcore("norm_topk_prob"),
    _mcore("moe_router_topk_scaling_factor"),
)
_GROUPED = {"moe_grouped_gemm": Constant(True), "moe_token_drop_policy": Constant("probs")}

_CAN_DROP_OUT = {name: value for name, value in _DECODER.items() if name != "hidden_dropout"}

QWEN3 = Graph(
    "qwen3",
    MCORE,
    keys=(*_DENSE, _DROPOUT, _BIAS, _TIED),
    fixed={**_CAN_DROP_OUT, "qk_layernorm": "head"},
    written={**_MODULES, "qk_layernorm": Constant(True), **_BY_GROUP},
)

QWEN3_MOE = Graph(
    "qwen3_moe",
    MCORE,
    keys=(
        *QWEN3.keys,
        _mcore("num_moe_experts", name="num_experts"),
        *_ROUTED,
        _mcore("moe_aux_loss_coeff", "1.7", 0.0),
    ),
    fixed=QWEN3.fixed,
    written={
        **QWEN3.written,
        **_GROUPED,
        "moe_router_score_function": Constant("softmax"),
        "moe_router_pre_softmax": Constant(True),
        "moe_router_enable_expert_bias": Constant(False),
    },
)

DEEPSEEK_V3 = Graph(
    "deepseek_v3",
    MCORE,
    keys=(
        *(key for key in _DENSE if key.field != "kv_channels"),
        _mcore("hidden_dropout", absent=0.0),
        _mcore("rope_scaling", absent=None, spelling=MLA_ROPE),
        *(_mcore(name) for name in ("q_lora_rank", "kv_lora_rank", "qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim")),
        _mcore("num_moe_experts", name="n_routed_experts"),
        *_ROUTED,
        _mcore("moe_shared_expert_intermediate_size", spelling=SHARED, name="n_shared_experts"),
        _mcore("moe_layer_freq", spelling=SPARSE, name="first_k_dense_replace"),
        _mcore("moe_router_num_groups"),
        _mcore("moe_router_group_topk"),
        _mcore("moe_aux_loss_coeff", "1.7", 0.0),
        _mcore("mtp_num_layers", spelling=MODULES),
    ),
    fixed={
        **_CAN_DROP_OUT,
        "multi_latent_attention": True,
        "rotary_interleaved": True,
        "moe_router_score_function": "sigmoid",
        "moe_router_enable_expert_bias": True,
    },
    written={
        **{key: value for key, value in _MODULES.items() if key != "position_embedding_type"},
        "multi_latent_attention": Constant(True),
        "qk_layernorm": Constant(True),
        "attention_bias": Constant(False),
        "tie_word_embeddings": Constant(False),
        "topk_method": Constant("noaux_tc"),
        **_GROUPED,
        "moe_router_score_function": Constant("sigmoid", "1.7"),
        "scoring_func": Constant("sigmoid", until="1.6"),  # it is deleted, unread, from 1.7 on
        "moe_router_enable_expert_bias": Constant(True),
        "mla_qkv_concat": Constant(True),
        "use_interleaved_weight_layout_mlp": Constant(True, "1.7"),
    },
    latent=True,
)

TELECHAT3 = Graph(
    "telechat3",
    MCORE,
    keys=(*_DENSE, _DROPOUT, _BIAS),
    fixed=_CAN_DROP_OUT,
    written={**_MODULES, "qk_layernorm": Constant(False), "tie_word_embeddings": Constant(False), **_BY_GROUP},
)
"""Without norms of queries and keys it is Llama's block, so it can stand in for one; see `emit`."""

_HEADS = ("qk_head_dim", "qk_pos_emb_head_dim")

TELECHAT3_MOE = replace(
    DEEPSEEK_V3,
    name="telechat3_moe",
    keys=tuple(replace(key, name=key.field) if key.field in _HEADS else key for key in DEEPSEEK_V3.keys),
)
"""DeepSeek-V3's block; but the class does not pass on Hugging Face's names of the widths of heads."""


def _of_plugin(family: PluginFamily) -> Graph:
    """Llama's block in the mcore generation, made of the same modules; what MindFormers lacks, the plug-in adds."""
    keys = (
        *_DENSE,
        _DROPOUT,
        *(_mcore(name, name=name) for name in ("add_qkv_bias", "add_attention_output_bias")),
        _mcore("tie_word_embeddings"),
        _mcore("rope_scaling", spelling=SCALING),
    )
    written = {**_MODULES, "qk_layernorm": Constant(False), **_BY_GROUP}
    if family.experts:
        keys += (_mcore("num_moe_experts", name="num_experts"), *_ROUTED, _mcore("moe_aux_loss_coeff"))
        written |= {key: value for key, value in QWEN3_MOE.written.items() if key not in QWEN3.written}
    return Graph(family.model_type, MCORE, tuple(_taken(key, family) for key in keys), _CAN_DROP_OUT, written)


def _taken(key: Key, family: PluginFamily) -> Key:
    """A key of the plug-in, with what it takes where the key is absent."""
    granted = granted_by(family)
    if key.name in granted:
        return replace(key, absent=key.spelling.read(key.name, key.field, granted, {})[key.field])
    return replace(key, absent=_DERIVED.get(key.field, key.absent))


_DERIVED: dict[str, Callable[[Section, Mapping[str, Any]], Any]] = {
    "kv_channels": lambda section, found: found["hidden_size"] // found["num_attention_heads"],
    "moe_ffn_hidden_size": _own("ffn_hidden_size"),
}

_STATIC = (LLAMA, QWEN3, QWEN3_MOE, DEEPSEEK_V3, TELECHAT3, TELECHAT3_MOE, *map(_of_plugin, PLUGIN_FAMILIES))


def _pynative(graph: Graph) -> Graph:
    """The same modules outside a static graph: its YAML tells them by the same keys, but for the layout of weights."""
    written = {key: value for key, value in graph.written.items() if key not in _BY_GROUP}
    return Graph(graph.name, PYNATIVE, graph.keys, graph.fixed, written, graph.latent)


GRAPHS: dict[tuple[str, str], Graph] = {
    (graph.generation, graph.name): graph for graph in (*_STATIC, _pynative(QWEN3), _pynative(DEEPSEEK_V3))
}
"""(generation, name) -> graph."""
