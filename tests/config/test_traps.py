"""Values that go wrong in silence: each kind of mistake that people met when they read configs elsewhere.

What a reader gets wrong here raises no error; the model only computes something else.
"""

from __future__ import annotations

from typing import Any

import pytest

from mindport.config.audit import DERIVED, audit
from mindport.config.hf import from_hf, to_hf
from mindport.errors import MindportError
from mindport.schema import TransformerConfig, slots_of

SMALL = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 4, "vocab_size": 32, "intermediate_size": 96}
LLAMA = {"model_type": "llama", **SMALL}
QWEN2 = {"model_type": "qwen2", **SMALL, "num_key_value_heads": 2}
QWEN3 = {"model_type": "qwen3", **SMALL, "num_key_value_heads": 2}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def canonical(hf: dict[str, Any], **changes: Any) -> TransformerConfig:
    return from_hf({**hf, **changes}).transformer


def refusal(hf: dict[str, Any], **changes: Any) -> str:
    with pytest.raises(MindportError) as error:
        from_hf({**hf, **changes})
    return error.value.message


def outcome(hf: dict[str, Any]) -> TransformerConfig | MindportError:
    try:
        return from_hf(hf).transformer
    except MindportError as error:
        return error


# --- widths ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hf", [LLAMA, QWEN3, {"model_type": "mistral", **SMALL, "num_key_value_heads": 2}])
def test_the_width_of_a_head_is_the_configs_and_not_a_quotient(hf: dict[str, Any]) -> None:
    config = canonical(hf, head_dim=32)
    shapes = slots_of(config)
    assert config.kv_channels == 32 != config.hidden_size // config.num_attention_heads
    assert shapes["layer.0.attention.q.weight"] == (4 * 32, 64)
    assert shapes["layer.0.attention.k.weight"] == (config.num_query_groups * 32, 64)
    assert shapes["layer.0.attention.o.weight"] == (64, 4 * 32)
    assert config.softmax_scale == 32**-0.5


def test_the_width_of_a_head_is_written_on_the_way_back() -> None:
    """Left out, transformers would divide."""
    changed = from_hf(LLAMA).with_transformer(kv_channels=32, softmax_scale=32**-0.5)
    assert to_hf(changed)["head_dim"] == 32
    assert to_hf(from_hf({**LLAMA, "head_dim": 32}))["head_dim"] == 32


@pytest.mark.parametrize(
    ("hf", "key", "field", "wanted"),
    [
        (LLAMA, "head_dim", "kv_channels", 16),
        (LLAMA, "num_key_value_heads", "num_query_groups", 4),
        ({"model_type": "gpt2", "n_embd": 48, "n_head": 4}, "n_inner", "ffn_hidden_size", 192),
    ],
)
@pytest.mark.parametrize("absent", [True, False])
def test_null_and_absent_mean_derive(hf: dict[str, Any], key: str, field: str, wanted: int, absent: bool) -> None:
    model = from_hf(hf if absent else {**hf, key: None})
    assert getattr(model.transformer, field) == wanted
    (row,) = [row for row in audit(model) if row.key == key]
    assert (row.status, row.to) == (DERIVED, {field: wanted})
    assert row.origin == ("class default" if absent else "file"), "the report says that nobody wrote it"


def test_key_value_heads_under_a_foreign_name_are_not_lost() -> None:
    """`n_head_kv` is Falcon's; in a Llama config it is reported, and does not count."""
    model = from_hf({**LLAMA, "n_head_kv": 2})
    assert model.transformer.num_query_groups == 4
    assert [row.key for row in audit(model) if row.status == "unhandled"] == ["n_head_kv"]


@pytest.mark.parametrize(
    ("canonical_key", "alias"),
    [("n_embd", "hidden_size"), ("n_layer", "num_hidden_layers"), ("n_head", "num_attention_heads")],
)
def test_names_that_the_class_maps_to_its_own(canonical_key: str, alias: str) -> None:
    own = {"model_type": "gpt2", "n_embd": 48, "n_layer": 3, "n_head": 6}
    other = {alias if key == canonical_key else key: value for key, value in own.items()}
    assert canonical(own) == canonical(other)


def test_the_context_length_is_not_the_width_of_the_mlp() -> None:
    config = canonical({"model_type": "gpt2", "n_embd": 48, "n_head": 4, "n_ctx": 512, "n_positions": 256})
    assert (config.ffn_hidden_size, config.max_position_embeddings) == (192, 256)


# --- positions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
@pytest.mark.parametrize("kind", ["type", "rope_type"])
def test_every_key_of_a_rope_scaling_is_kept(key: str, kind: str) -> None:
    scaling = {kind if name == "rope_type" else name: value for name, value in LLAMA3.items()}
    assert canonical(LLAMA, **{key: scaling}).rope_scaling == LLAMA3


@pytest.mark.parametrize("scaling", [None, {}, {"type": "default"}, {"rope_type": "default", "type": "default"}])
def test_no_rope_scaling(scaling: Any) -> None:
    assert canonical(LLAMA, rope_scaling=scaling).rope_scaling is None


@pytest.mark.parametrize(
    ("keys", "base"),
    [
        ({"rope_theta": 1e6}, 1e6),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}, 1e6),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}, "rope_theta": None}, 1e6),
        ({"rope_scaling": None}, 10000.0),
        ({}, 10000.0),
    ],
)
def test_the_base_of_rope_from_either_generation(keys: dict[str, Any], base: float) -> None:
    assert canonical(LLAMA, **keys).rotary_base == base


def test_a_base_that_nobody_wrote_is_reported_as_the_class_default() -> None:
    (row,) = [row for row in audit(from_hf(LLAMA)) if row.key == "rope_theta"]
    assert (row.origin, row.to["rotary_base"]) == ("class default", 10000.0)


@pytest.mark.parametrize(
    "scaling",
    [
        {"type": "mrope", "mrope_section": [16, 24, 24]},
        {"rope_type": "default", "type": "mrope", "mrope_section": [16, 24, 24]},
        {"rope_type": "default", "mrope_section": [16, 24, 24]},  # as transformers rewrites it
    ],
)
def test_sections_of_multimodal_rope_are_never_dropped(scaling: dict[str, Any]) -> None:
    message = refusal(QWEN2, rope_scaling=scaling)
    assert "mrope" in message or "disagree" in message


@pytest.mark.parametrize("kind", ["su", "longrope"])
def test_a_scaling_with_two_lists_is_not_taken_for_another(kind: str) -> None:
    scaling = {"type": kind, "short_factor": [1.0] * 8, "long_factor": [2.0] * 8}
    found = outcome({**LLAMA, "rope_scaling": scaling})
    if isinstance(found, MindportError):
        assert "RoPE scaling" in found.message
        assert kind in found.message or "longrope" in found.message
    else:
        kept = found.rope_scaling or {}
        assert (kept["rope_type"], kept["short_factor"], kept["long_factor"]) == ("longrope", [1.0] * 8, [2.0] * 8)


# --- windows -----------------------------------------------------------------------------------------------------

FULL, SLIDING = "full_attention", "sliding_attention"


@pytest.mark.parametrize("hf", [QWEN2, QWEN3])
@pytest.mark.parametrize(
    ("keys", "window", "layers"),
    [
        ({"sliding_window": 8}, None, None),
        ({"sliding_window": 8, "use_sliding_window": False, "max_window_layers": 0}, None, None),
        ({"sliding_window": 8, "use_sliding_window": True, "max_window_layers": 28}, None, None),
        ({"sliding_window": 8, "use_sliding_window": True, "max_window_layers": 0}, 8, None),
        ({"sliding_window": 8, "use_sliding_window": True, "max_window_layers": 2}, 8, [FULL] * 2 + [SLIDING] * 2),
        (
            {"sliding_window": 8, "use_sliding_window": True, "layer_types": [SLIDING, FULL] * 2},
            8,
            [SLIDING, FULL] * 2,
        ),
    ],
)
def test_both_switches_of_a_window(hf: dict[str, Any], keys: Any, window: int | None, layers: Any) -> None:
    config = canonical(hf, **keys)
    assert (config.window_size, config.layer_types) == (window, layers)


@pytest.mark.parametrize(("keys", "window"), [({}, 4096), ({"sliding_window": None}, None), ({"sliding_window": 8}, 8)])
def test_a_window_without_a_switch(keys: dict[str, Any], window: int | None) -> None:
    assert canonical({"model_type": "mistral", **SMALL, "num_key_value_heads": 2}, **keys).window_size == window


def test_a_window_that_starts_after_the_last_layer_is_no_error() -> None:
    assert canonical(QWEN2, max_window_layers=28, use_sliding_window=False).num_layers == 4


# --- numbers and biases ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["torch_dtype", "dtype"])
def test_the_dtype_under_either_name(key: str) -> None:
    assert canonical(LLAMA, **{key: "bfloat16"}).params_dtype == "bfloat16"
    assert canonical(LLAMA, **{key: None}).params_dtype == "float32"


def test_two_dtypes_are_refused() -> None:
    assert (
        refusal(LLAMA, torch_dtype="float16", dtype="bfloat16")
        == "dtype, torch_dtype are the same setting and disagree."
    )


@pytest.mark.parametrize(
    ("hf", "keys", "qkv", "out"),
    [
        (QWEN2, {}, True, False),
        (QWEN3, {}, False, False),
        (LLAMA, {}, False, False),
        (LLAMA, {"attention_bias": True}, True, True),
        (QWEN3, {"attention_bias": True}, True, True),
    ],
)
def test_biases_that_no_key_mentions(hf: dict[str, Any], keys: dict[str, Any], qkv: bool, out: bool) -> None:
    shapes = slots_of(canonical(hf, **keys))
    assert [f"layer.0.attention.{part}.bias" in shapes for part in "qkvo"] == [qkv, qkv, qkv, out]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("key", ["rms_norm_eps", "rope_theta", "initializer_range", "attention_dropout"])
def test_numbers_that_are_none(key: str, value: float) -> None:
    assert refusal(LLAMA, **{key: value}) == f"{key} must be finite, not {value}."


@pytest.mark.parametrize(
    ("model_type", "keys", "field"),
    [
        ("mixtral", {"num_local_experts": 4, "num_experts_per_tok": 9}, "moe_router_topk"),
        ("deepseek_v3", {"n_routed_experts": 4, "n_group": 3}, "moe_router_num_groups"),
        ("deepseek_v3", {"n_routed_experts": 8, "n_group": 4, "topk_group": 5}, "moe_router_group_topk"),
        ("deepseek_v3", {"n_routed_experts": 8, "n_group": 4, "topk_group": 1, "num_experts_per_tok": 3}, "topk"),
        ("llama", {"attention_dropout": 1.0}, "attention_dropout"),
        ("bert", {"hidden_dropout_prob": 1.0}, "hidden_dropout"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_is_built(model_type: str, keys: dict[str, Any], field: str) -> None:
    with pytest.raises(MindportError, match=field):
        from_hf({"model_type": model_type, **keys})
