"""The families that the plug-in brings, and how it reads a model config of theirs. Plain Python, as it travels.

A config is read in full or not at all: what no key says is an error, and so is what the graph does not compute.
`mindport validate` asks the same function. Inside MindFormers, which speaks English, errors are English.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

VERSION = "1.9"
"""The MindFormers that the plug-in is made for. Others have some of the modules it uses otherwise, or not at all."""

MODULE = "mindport_graphs"
"""Name of the module whose classes a YAML names: `auto_register: mindport_graphs.LlamaConfig`."""


@dataclass(frozen=True)
class PluginFamily:
    """Models of one Hugging Face class: Llama's block, and what differs.

    Args:
        model_type: in a YAML and in config.json.
        config_class, model_class: names in MindFormers' registry, which are those of Hugging Face.
        implied: keys of a model config that the Hugging Face class has without saying so.
        spelled: key of config.json -> the keys here that say the same.
        experts: the MLP of each layer is experts and a router.
    """

    model_type: str
    config_class: str
    model_class: str
    implied: Mapping[str, Any] = field(default_factory=dict)
    spelled: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    experts: bool = False


FAMILIES: tuple[PluginFamily, ...] = (
    PluginFamily(
        "llama",
        "LlamaConfig",
        "LlamaForCausalLM",
        spelled={"attention_bias": ("add_qkv_bias", "add_attention_output_bias")},
    ),
    PluginFamily("mistral", "MistralConfig", "MistralForCausalLM"),
    PluginFamily("qwen2", "Qwen2Config", "Qwen2ForCausalLM", {"add_qkv_bias": True, "use_sliding_window": False}),
    PluginFamily(
        "mixtral",
        "MixtralConfig",
        "MixtralForCausalLM",
        {"norm_topk_prob": True},
        {
            "num_local_experts": ("num_experts",),
            "router_aux_loss_coef": ("moe_aux_loss_coeff",),
            "intermediate_size": ("intermediate_size", "moe_intermediate_size"),
        },
        experts=True,
    ),
)
"""One entry is all there is to a family whose block differs from Llama's in no more than this."""

REQUIRED = (
    *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
    *("num_key_value_heads", "max_position_embeddings", "rms_norm_eps", "rope_theta", "tie_word_embeddings"),
)
REQUIRED_OF_EXPERTS = ("num_experts", "num_experts_per_tok", "moe_intermediate_size", "norm_topk_prob")

WHOLE_NUMBERS = (
    *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
    *("num_key_value_heads", "max_position_embeddings", "head_dim", "seq_length", "sliding_window"),
)
"""Keys that are computed with here."""

DEFAULTS: Mapping[str, Any] = {
    "hidden_dropout": 0.0,  # Llama's block has none; MindFormers' own default is 0.1
    "attention_dropout": 0.0,
    "add_qkv_bias": False,
    "add_attention_output_bias": False,
    "rope_scaling": None,
    "initializer_range": 0.02,
    "pad_token_id": -1,  # no token: MindFormers would take 0 for padding, and leave it out of the loss
}
DEFAULTS_OF_EXPERTS: Mapping[str, Any] = {"routed_scaling_factor": 1.0, "moe_aux_loss_coeff": 0.0}

ALWAYS: Mapping[str, Any] = {
    "normalization": "RMSNorm",
    "gated_linear_unit": True,
    "add_bias_linear": False,
    "hidden_act": "silu",
    "position_embedding_type": "rope",
    "qk_layernorm": False,
    "multi_latent_attention": False,
    "partial_rotary_factor": 1.0,
    "mlp_bias": False,
}
ALWAYS_OF_EXPERTS: Mapping[str, Any] = {
    "moe_grouped_gemm": True,
    "moe_token_drop_policy": "probs",
    "moe_router_score_function": "softmax",
    "moe_router_pre_softmax": True,
    "moe_router_enable_expert_bias": False,
    "router_jitter_noise": 0.0,
}
"""What a graph has in every family."""

SCALINGS: Mapping[str, tuple[str, ...]] = {
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
    "yarn": ("factor", "original_max_position_embeddings"),
}
"""RoPE scaling that the graph has -> the keys without which it says nothing."""

_UNREAD = frozenset(
    {
        *("mlp_bias", "partial_rotary_factor", "router_jitter_noise"),
        *("sliding_window", "use_sliding_window", "max_window_layers", "layer_types"),
        *("auto_map", "dtype", "output_router_logits", "pretraining_tp", "torch_dtype", "transformers_version"),
        *("use_cache", "_attn_implementation"),
    }
)
"""Keys of config.json that were checked, or are of no matter, and that MindFormers' configuration does not have."""

MISSING = "{key} is missing."
OTHERWISE = "{key} = {value}: this graph always has {always}."
NO_EXPERTS = "{key} = {value}: models of {family} have no experts."
NO_SCALING = "rope_scaling is of the kind {kind}, which this graph does not have."
PARAMETERS = "rope_parameters is not read here: write rope_theta and rope_scaling."
WINDOW = "sliding_window = {window} with seq_length = {length}: no sequence may be longer than the window."
NO_WHOLE_NUMBER = "{key} = {value} is no whole number."
NO_NUMBER = "{key} = {value} is no number."
NO_LIST = "{key} = {value} is no list."
TEMPLATES = (
    *(MISSING, OTHERWISE, NO_EXPERTS, NO_SCALING, PARAMETERS, WINDOW),
    *(NO_WHOLE_NUMBER, NO_NUMBER, NO_LIST),
)


@dataclass(frozen=True)
class Refusal:
    """Why a config is not read.

    Args:
        key: of the config; of what is missing, the one to be added.
        template: one of `TEMPLATES`.
        values: its placeholders.
    """

    key: str
    template: str
    values: Mapping[str, Any]

    def __str__(self) -> str:
        return self.template.format(**self.values)


def family_of(model_type: Any) -> PluginFamily | None:
    """The family of a model_type."""
    known = {family.model_type: family for family in FAMILIES}
    return known.get(model_type) if isinstance(model_type, str) else None


def granted_by(family: PluginFamily) -> dict[str, Any]:
    """What a config need not say: key -> the value that is taken then."""
    return {**DEFAULTS, **(DEFAULTS_OF_EXPERTS if family.experts else {}), **family.implied}


def respelled(family: PluginFamily, given: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of config.json by the names they have here; a name that is given itself counts. Nulls are left out."""
    said = {key: value for key, value in given.items() if value is not None}
    for key, names in family.spelled.items():
        if key in said:
            value = said[key] if key in names else said.pop(key)
            for name in names:
                said.setdefault(name, value)
    return said


def settings(family: PluginFamily, given: Mapping[str, Any]) -> dict[str, Any]:
    """A model config with everything said, by the keys that the graph is made from.

    Args:
        given: `model_config` of a YAML over a config.json; keys that are not known here are kept.

    Raises:
        ValueError: all that `refusals` finds.
    """
    found = [*refusals(family, given)]
    if found:
        raise ValueError(f"Mindport's plug-in for {family.model_type}: " + " ".join(map(str, found)))
    return {key: value for key, value in _whole(family, given).items() if key not in _UNREAD}


def refusals(family: PluginFamily, given: Mapping[str, Any]) -> Iterator[Refusal]:
    """What a config lacks, and what it says that the graph does not compute; of values that are none, those alone."""
    if misfits := [*_misfits(respelled(family, given))]:
        yield from misfits
        return
    whole = _whole(family, given)
    for key in (*REQUIRED, *(REQUIRED_OF_EXPERTS if family.experts else ())):
        if key not in whole:
            yield Refusal(key, MISSING, {"key": key})
    for key, always in _always(family).items():
        if whole[key] != always:
            yield Refusal(key, OTHERWISE, {"key": key, "value": whole[key], "always": always})
    if not family.experts and whole.get("num_experts"):
        values = {"key": "num_experts", "value": whole["num_experts"], "family": family.model_type}
        yield Refusal("num_experts", NO_EXPERTS, values)
    if "rope_parameters" in whole:
        yield Refusal("rope_parameters", PARAMETERS, {})
    scaling = whole["rope_scaling"]
    if scaling is not None and scaling["rope_type"] not in SCALINGS:
        yield Refusal("rope_scaling", NO_SCALING, {"kind": scaling["rope_type"]})
    elif scaling is not None:
        for key in SCALINGS[scaling["rope_type"]]:
            if key not in scaling:
                yield Refusal("rope_scaling", MISSING, {"key": f"rope_scaling.{key}"})
            elif type(scaling[key]) not in (int, float):
                yield Refusal("rope_scaling", NO_NUMBER, {"key": f"rope_scaling.{key}", "value": scaling[key]})
    yield from _window(whole)


def _misfits(said: Mapping[str, Any]) -> Iterator[Refusal]:
    """Values of another kind than what is computed with."""
    for key in WHOLE_NUMBERS:
        if type(said.get(key, 0)) is not int:
            yield Refusal(key, NO_WHOLE_NUMBER, {"key": key, "value": said[key]})
    if not isinstance(said.get("layer_types", []), list):
        yield Refusal("layer_types", NO_LIST, {"key": "layer_types", "value": said["layer_types"]})
    scaling = said.get("rope_scaling")
    kind = scaling.get("rope_type", scaling.get("type")) if isinstance(scaling, Mapping) else scaling
    if kind is not None and not isinstance(kind, str):
        yield Refusal("rope_scaling", NO_SCALING, {"kind": kind})


def _always(family: PluginFamily) -> dict[str, Any]:
    return {**ALWAYS, **(ALWAYS_OF_EXPERTS if family.experts else {})}


def _whole(family: PluginFamily, given: Mapping[str, Any]) -> dict[str, Any]:
    """A config with what it does not need to say."""
    whole = {**_always(family), **granted_by(family), **respelled(family, given)}
    if "head_dim" not in whole and whole.get("num_attention_heads"):
        whole["head_dim"] = whole.get("hidden_size", 0) // whole["num_attention_heads"]
    return {**whole, "rope_scaling": _scaling(whole)}


def _scaling(whole: Mapping[str, Any]) -> dict[str, Any] | None:
    """The RoPE scaling with everything said; None where there is none, or it changes nothing."""
    given = whole["rope_scaling"]
    if given is None:
        return None
    if not isinstance(given, Mapping):
        return {"rope_type": given}
    scaling = {key: value for key, value in given.items() if key != "type" and value is not None}
    kind, positions = scaling.setdefault("rope_type", given.get("type")), whole.get("max_position_embeddings", 0)
    if kind in (None, "default") or (kind == "dynamic" and whole.get("seq_length", positions + 1) <= positions):
        return None
    if kind == "yarn":
        scaling.setdefault("original_max_position_embeddings", positions)
    return scaling


def _window(whole: Mapping[str, Any]) -> Iterator[Refusal]:
    """A sliding window is nothing as long as no query sees beyond it; the graph has no other."""
    window, length = whole.get("sliding_window"), whole.get("seq_length")
    by_layer = "sliding_attention" in whole.get("layer_types", ())
    if not by_layer and not (window and whole.get("use_sliding_window", True)):
        return
    if not (window and length and length <= window):
        yield Refusal("sliding_window", WINDOW, {"window": window, "length": length})
