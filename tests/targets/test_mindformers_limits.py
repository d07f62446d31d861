"""Which models have a place in which graph of MindFormers, and that nothing is lost in silence there."""

from __future__ import annotations

from dataclasses import MISSING, fields, replace
from typing import Any

import pytest

from mindport.config.hf import from_hf
from mindport.errors import MindportError
from mindport.schema import TransformerConfig
from mindport.schema.transformer_config import NUMERICS
from mindport.targets.mindformers import (
    FAMILIES,
    LEGACY,
    MCORE,
    PYNATIVE,
    VERSIONS,
    Family,
    default_layout,
    family_for,
    family_named,
    layout_of,
    refusals,
    target,
    version_named,
    ways,
    within,
)
from mindport.targets.mindformers.graphs import GRAPHS

LATEST = version_named("1.9")

CLASSES = {"qwen3_moe": "Qwen3Moe", "deepseek_v3": "DeepseekV3"}


def config_of(model_type: str, **values: Any) -> TransformerConfig:
    name = CLASSES.get(model_type, model_type.capitalize())
    head = {"num_nextn_predict_layers": 1} if model_type == "deepseek_v3" else {}
    values = {"architectures": [f"{name}ForCausalLM"], **head, **values}
    return from_hf({"model_type": model_type, **values}).transformer


def named(name: str, generation: str) -> Family:
    family = family_named(name, generation)
    assert family is not None
    return family


PLACED = {
    ("llama", LEGACY): "llama",
    ("qwen2", LEGACY): "llama",
    ("qwen3", MCORE): "qwen3",
    ("qwen3_moe", MCORE): "qwen3_moe",
    ("deepseek_v3", MCORE): "deepseek_v3",
    ("llama", MCORE): "llama",
    ("qwen2", MCORE): "qwen2",
    ("mixtral", MCORE): "mixtral",
}


@pytest.mark.parametrize(("model_type", "generation"), PLACED)
def test_default_models_have_a_place(model_type: str, generation: str) -> None:
    config = config_of(model_type)
    assert family_for(config, LATEST, generation, own=model_type).name == PLACED[model_type, generation]
    assert target(LATEST, default_layout(generation)).parameters(config)


EXPRESSED = {
    (MCORE, "qwen3"): {
        "add_qkv_bias",
        "layernorm_epsilon",
        "rotary_base",
        "tie_word_embeddings",
    },
    (LEGACY, "llama"): {
        "add_qkv_bias",
        "add_attention_output_bias",
        "layernorm_epsilon",
        "rotary_base",
        "tie_word_embeddings",
    },
    (MCORE, "llama"): {
        "add_qkv_bias",
        "add_attention_output_bias",
        "layernorm_epsilon",
        "rotary_base",
        "tie_word_embeddings",
    },
    (MCORE, "mixtral"): {
        "add_qkv_bias",
        "add_attention_output_bias",
        "layernorm_epsilon",
        "moe_router_topk_scaling_factor",
        "norm_topk_prob",
        "rotary_base",
        "tie_word_embeddings",
    },
    (MCORE, "deepseek_v3"): {
        "moe_router_topk_scaling_factor",
        "norm_topk_prob",
        "rotary_base",
    },
}
"""Fields whose other values the graph computes too, as tests/conformance shows."""

OF_PARTS = {
    "add_norm_bias",  # of LayerNorm, which is refused
    "num_moe_experts",  # sizes, which are never neutral
    "moe_ffn_hidden_size",
    "moe_shared_expert_intermediate_size",
    "moe_router_topk",
    "moe_router_num_groups",
    "moe_router_group_topk",
    "moe_layer_freq",  # of experts
    "moe_router_score_function",
    "moe_router_pre_softmax",
    "moe_router_enable_expert_bias",
    "norm_topk_prob",
    "moe_router_topk_scaling_factor",
    "q_lora_rank",  # of latent attention
    "kv_lora_rank",
    "qk_head_dim",
    "qk_pos_emb_head_dim",
    "v_head_dim",
    "latent_layernorm_epsilon",
}
"""Fields that other fields switch on, or whose values mean something only together with others."""


def another(value: object) -> object:
    """A value of the same kind that no model here has."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return value * 2 + 0.125
    if isinstance(value, int):
        return value + 3
    return "another" if isinstance(value, str) else 5


MODELS = {key: key[1] for key in EXPRESSED}


@pytest.mark.parametrize("key", MODELS)
def test_every_field_has_a_place_or_is_refused(key: tuple[str, str]) -> None:
    """A new field of TransformerConfig is refused until somebody says that a graph computes it."""
    generation, name = key
    config = config_of(MODELS[key], tie_word_embeddings=False)
    family = named(name, generation)
    assert refusals(config, family, LATEST) == []
    passed = set()
    for field in fields(TransformerConfig):
        if field.metadata["effect"] != NUMERICS or field.default is MISSING:
            continue
        if field.name == "rope_scaling":
            changed = replace(config, rope_scaling={"rope_type": "longrope"})
        else:
            changed = replace(config, **{field.name: another(getattr(config, field.name))})
        if not refusals(changed, family, LATEST):
            passed.add(field.name)
    assert EXPRESSED[key] <= passed <= EXPRESSED[key] | OF_PARTS


REFUSED: dict[str, tuple[str, dict[str, Any], tuple[str, str], str]] = {
    "a window": ("qwen3", {"use_sliding_window": True, "max_window_layers": 0}, (MCORE, "qwen3"), "window_size"),
    "a bias of the output projection": ("qwen3", {"attention_bias": True}, (MCORE, "qwen3"), "add_attention_output"),
    "RoPE scaling": (
        "qwen3",
        {"rope_scaling": {"rope_type": "linear", "factor": 2.0}},
        (MCORE, "qwen3"),
        "rope_scaling",
    ),
    "heads that do not divide": (
        "qwen3",
        {"hidden_size": 100, "num_attention_heads": 12, "num_key_value_heads": 4},
        (MCORE, "qwen3"),
        "multiple",
    ),
    "dense layers between": ("qwen3_moe", {"mlp_only_layers": [1]}, (MCORE, "qwen3_moe"), "moe_layer_freq"),
    "a single expert": (
        "qwen3_moe",
        {"num_experts_per_tok": 1, "norm_topk_prob": True},
        (MCORE, "qwen3_moe"),
        "norm_topk_prob",
    ),
    "norms of heads": ("qwen3", {}, (LEGACY, "llama"), "qk_layernorm"),
    "a width of heads": ("llama", {"head_dim": 64}, (LEGACY, "llama"), "64"),
    "biases of the MLP": ("llama", {"mlp_bias": True}, (LEGACY, "llama"), "add_mlp_bias"),
    "experts": ("qwen3_moe", {}, (LEGACY, "llama"), "num_moe_experts"),
    "another activation": ("llama", {"hidden_act": "gelu"}, (LEGACY, "llama"), "activation_func"),
    "ties where the graph has none": ("qwen2", {"tie_word_embeddings": True}, (MCORE, "telechat3"), "tie_word"),
    "other groups of experts": (
        "deepseek_v3",
        {"topk_group": 8, "n_group": 8},
        (MCORE, "deepseek_v3"),
        "best 2",
    ),
    "RoPE without interleaving": ("deepseek_v3", {"rope_interleave": False}, (MCORE, "deepseek_v3"), "interleaved"),
    "another epsilon": ("deepseek_v3", {"rms_norm_eps": 1e-5}, (MCORE, "deepseek_v3"), "epsilon"),
    "YaRN without mscale": (
        "deepseek_v3",
        {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
        (MCORE, "deepseek_v3"),
        "mscale",
    ),
    "two modules": ("deepseek_v3", {"num_nextn_predict_layers": 2}, (MCORE, "deepseek_v3"), "at most one"),
    "no experts": ("qwen3", {}, (MCORE, "qwen3_moe"), "no"),
    "a window, in the plug-in": ("mistral", {"sliding_window": 4096}, (MCORE, "mistral"), "window_size"),
    "biases of the MLP, in the plug-in": ("llama", {"mlp_bias": True}, (MCORE, "llama"), "add_mlp_bias"),
    "norms of heads, in the plug-in": ("qwen3", {}, (MCORE, "llama"), "qk_layernorm"),
    "experts, in the plug-in": ("mixtral", {}, (MCORE, "mistral"), "num_moe_experts"),
    "dynamic RoPE, in the plug-in": (
        "llama",
        {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}},
        (MCORE, "llama"),
        "dynamic",
    ),
    "no head": ("llama", {"architectures": ["LlamaModel"]}, (LEGACY, "llama"), "head"),
    "dynamic RoPE": (
        "llama",
        {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}},
        (LEGACY, "llama"),
        "dynamic",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_graph_would_lose_is_refused(case: str) -> None:
    model_type, values, (generation, name), wanted = REFUSED[case]
    reasons = refusals(config_of(model_type, **values), named(name, generation), LATEST)
    assert any(wanted in reason for reason in reasons), reasons


@pytest.mark.parametrize(
    ("values", "version", "wanted"),
    [
        ({"tie_word_embeddings": True}, "1.2", "1.3"),
        ({"attention_bias": True}, "1.5", "1.6"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "1.2", "1.3"),
    ],
)
def test_settings_came_with_versions(values: dict[str, Any], version: str, wanted: str) -> None:
    config = config_of("llama", **values)
    family = named("llama", LEGACY)
    (reason,) = refusals(config, family, version_named(version))
    assert wanted in reason
    assert refusals(config, family, version_named(wanted)) == []


def test_short_sequences_see_no_window_and_no_dynamic_scaling() -> None:
    family = named("llama", LEGACY)
    mistral = config_of("mistral", sliding_window=4096)
    assert refusals(mistral, family, LATEST)
    assert refusals(within(mistral, 4096), family, LATEST) == []
    assert refusals(within(mistral, 4097), family, LATEST)
    dynamic = config_of("llama", rope_scaling={"rope_type": "dynamic", "factor": 2.0}, max_position_embeddings=2048)
    assert refusals(within(dynamic, 2048), family, LATEST) == []
    assert refusals(within(dynamic, 2049), family, LATEST)


def test_of_several_graphs_the_one_of_the_models_own_name_is_taken() -> None:
    """Then MindFormers' own before the plug-in's, and those before one that stands in."""
    config = config_of("mistral", sliding_window=None)
    assert family_for(config, LATEST, MCORE, own="mistral").name == "mistral"
    assert family_for(config, LATEST, MCORE, own="phi3").name == "llama"
    assert family_for(config, LATEST, MCORE, "telechat3", own="mistral").name == "telechat3"
    assert family_for(config, version_named("2.0"), MCORE, own="mistral").name == "telechat3"
    assert not family_for(config_of("qwen3"), LATEST, MCORE, own="llama").plugin


@pytest.mark.parametrize("version", [name for name in VERSIONS if name != "1.9"])
def test_the_plugin_is_for_one_version(version: str) -> None:
    (reason,) = refusals(config_of("llama"), named("llama", MCORE), version_named(version))
    assert "MindFormers 1.9" in reason
    assert version in reason


def test_a_refusal_names_what_would_do() -> None:
    with pytest.raises(MindportError) as caught:
        family_for(config_of("qwen3"), version_named("1.6"), MCORE)
    assert "from MindFormers 1.7 on" in caught.value.message
    assert "mcore (1.7 - 2.1)" in caught.value.fix
    with pytest.raises(MindportError, match="trains nothing"):
        family_for(config_of("qwen3"), version_named("1.5"), MCORE)
    with pytest.raises(MindportError, match="pynative"):
        family_for(config_of("qwen3"), LATEST, PYNATIVE)


def test_ways_are_versions_and_generations() -> None:
    assert ways(config_of("qwen3")) == [(version, MCORE) for version in ("2.1", "2.0", "1.9", "1.8", "1.7")]
    assert (("1.0", LEGACY)) in ways(config_of("llama"))
    assert ways(config_of("gpt2", architectures=["GPT2LMHeadModel"])) == []


def test_experts_of_the_first_mcore_version_are_refused() -> None:
    config = config_of("deepseek_v3")
    assert any("1.6" in reason for reason in refusals(config, named("deepseek_v3", MCORE), version_named("1.6")))
    assert refusals(config, named("deepseek_v3", MCORE), version_named("1.7")) == []


def test_every_trained_family_is_described_or_says_so() -> None:
    without = {(f.generation, f.name) for f in FAMILIES if f.trained_since} - set(GRAPHS)
    assert without == {(LEGACY, "glm2"), (PYNATIVE, "deepseek_v4")}
    assert set(GRAPHS) <= {(f.generation, f.name) for f in FAMILIES}
    for generation, name in without:
        (reason,) = refusals(config_of("llama"), named(name, generation), version_named("2.1"))
        assert "does not know" in reason


@pytest.mark.parametrize("name", ["1.9", "v1.9", "r1.9.0", "1.9.0"])
def test_a_version_by_any_spelling(name: str) -> None:
    assert version_named(name) is VERSIONS["1.9"]


@pytest.mark.parametrize("name", ["1.4", "3.0", "", "latest"])
def test_unknown_versions_are_refused(name: str) -> None:
    with pytest.raises(MindportError, match=r"1\.9"):
        version_named(name)


def test_versions_are_in_order_and_their_generations_grow() -> None:
    orders = [version.order for version in VERSIONS.values()]
    assert orders == sorted(orders)
    assert VERSIONS["1.5"].generations == (LEGACY,)
    assert VERSIONS["1.6"].generations == (MCORE, LEGACY)
    assert VERSIONS["1.9"].generations == (MCORE, LEGACY, PYNATIVE)
    assert [family.name for family in VERSIONS["1.8"].families(MCORE)] == ["qwen3", "qwen3_moe", "deepseek_v3"]
    assert {family.name for family in VERSIONS["1.6"].families(MCORE, training=False)} >= {"qwen2", "qwen3"}


@pytest.mark.parametrize("generation", [MCORE, LEGACY])
def test_a_layout_says_its_settings_and_is_read_from_them(generation: str) -> None:
    default = default_layout(generation)
    assert layout_of(generation, {"num_layers": 2}) == default
    turned = {name: not value for name, value in default.settings().items()}
    assert layout_of(generation, turned).settings() == turned
    with pytest.raises(MindportError, match="how weights lie"):
        layout_of(generation, dict.fromkeys(turned, "true"))


def test_layouts_exist_for_two_generations() -> None:
    with pytest.raises(MindportError, match="pynative"):
        default_layout(PYNATIVE)
