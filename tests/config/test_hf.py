"""Hugging Face configs: every spelling is understood, every mistake is one sentence, and nothing else happens."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mindport.architectures import architecture, class_defaults, model_types
from mindport.architectures.vocabulary import LARGEST, Field
from mindport.config.hf import MOST_LAYERS, ModelConfig, config_path, from_hf, read_hf_config, to_hf
from mindport.errors import MindportError
from mindport.schema import TransformerConfig

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 32000,
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "num_hidden_layers": 22,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "max_position_embeddings": 2048,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0,
    "rope_scaling": None,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GPT2: dict[str, Any] = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2"}
BERT: dict[str, Any] = {"architectures": ["BertModel"], "model_type": "bert"}
BASES = {"llama": LLAMA, "gpt2": GPT2, "bert": BERT}


def canonical(base: dict[str, Any], **changes: Any) -> TransformerConfig:
    return from_hf({**base, **changes}).transformer


def refusal(base: dict[str, Any], **changes: Any) -> str:
    with pytest.raises(MindportError) as error:
        from_hf({**base, **changes})
    assert error.value.fix, "every error says what to do"
    assert len(str(error.value)) < 800
    return error.value.message


# --- values ------------------------------------------------------------------------------------------------------


def test_a_whole_config() -> None:
    config = canonical(LLAMA)
    assert config == TransformerConfig(
        vocab_size=32000,
        hidden_size=2048,
        num_layers=22,
        num_attention_heads=32,
        num_query_groups=4,
        kv_channels=64,
        ffn_hidden_size=5632,
        max_position_embeddings=2048,
        gated_linear_unit=True,
        softmax_scale=0.125,
        head="causal_lm",
        params_dtype="bfloat16",
        bos_token_id=1,
        eos_token_id=2,
    )


def test_class_defaults_fill_in_what_a_file_leaves_out() -> None:
    config = canonical(GPT2)
    assert (config.vocab_size, config.num_layers, config.ffn_hidden_size, config.eos_token_id) == (
        50257,
        12,
        3072,
        50256,
    )
    assert config.tie_word_embeddings
    assert canonical(BERT).layernorm_epsilon == 1e-12


@pytest.mark.parametrize("model_type", model_types())
def test_defaults_alone_are_a_model(model_type: str) -> None:
    model = from_hf({"model_type": model_type})
    assert model.hf_class == next(iter(architecture(model_type).classes))
    assert model.transformer.kv_channels > 0


@pytest.mark.parametrize(
    ("base", "changes", "field", "wanted"),
    [
        (LLAMA, {"num_key_value_heads": None}, "num_query_groups", 32),
        (LLAMA, {"head_dim": None}, "kv_channels", 64),
        (LLAMA, {"head_dim": 80}, "kv_channels", 80),
        (GPT2, {"n_inner": None, "n_embd": 24}, "ffn_hidden_size", 96),
        (GPT2, {"n_inner": 100}, "ffn_hidden_size", 100),
        (BERT, {"classifier_dropout": None, "hidden_dropout_prob": 0.3}, "classifier_dropout", 0.3),
        (BERT, {"classifier_dropout": 0.2, "hidden_dropout_prob": 0.3}, "classifier_dropout", 0.2),
        (LLAMA, {"torch_dtype": None}, "params_dtype", "float32"),
        (LLAMA, {"bos_token_id": None}, "bos_token_id", None),
        (LLAMA, {"eos_token_id": None}, "eos_token_id", None),
    ],
)
def test_null_means_derive(base: dict[str, Any], changes: dict[str, Any], field: str, wanted: Any) -> None:
    assert getattr(canonical(base, **changes), field) == wanted


def test_nulls_are_the_same_as_absent_keys() -> None:
    assert canonical(LLAMA, head_dim=None, pad_token_id=None, rope_parameters=None) == canonical(LLAMA)


@pytest.mark.parametrize(
    ("key", "alias", "value", "field"),
    [
        ("n_embd", "hidden_size", 96, "hidden_size"),
        ("n_layer", "num_hidden_layers", 3, "num_layers"),
        ("n_head", "num_attention_heads", 4, "num_attention_heads"),
        ("n_positions", "max_position_embeddings", 64, "max_position_embeddings"),
        ("dtype", "torch_dtype", "float16", "params_dtype"),
    ],
)
def test_aliases(key: str, alias: str, value: Any, field: str) -> None:
    for spelling in ({key: value}, {alias: value}, {key: value, alias: value}):
        assert getattr(canonical(GPT2, **spelling), field) == value
    other = "bfloat16" if field == "params_dtype" else value + 12
    message = refusal(GPT2, **{key: value, alias: other})
    assert message == f"{key}, {alias} are the same setting and disagree."


def test_integers_are_numbers() -> None:
    config = canonical(LLAMA, rope_theta=500000, attention_dropout=0)
    assert (config.rotary_base, config.attention_dropout) == (500000.0, 0.0)
    assert isinstance(config.rotary_base, float)


@pytest.mark.parametrize("eos", [2, None, [2], [128001, 128008, 128009], []])
def test_end_of_sequence(eos: Any) -> None:
    assert canonical(LLAMA, eos_token_id=eos).eos_token_id == eos


@pytest.mark.parametrize("eos", [True, "2", 2.0, [2, "3"], [True], [[2]], [None], {"a": 2}])
def test_end_of_sequence_of_a_wrong_type(eos: Any) -> None:
    assert "eos_token_id must be an integer or a list of integers" in refusal(LLAMA, eos_token_id=eos)


def test_gpt2_without_scaled_attention() -> None:
    assert canonical(GPT2, scale_attn_weights=False).softmax_scale == 1.0
    assert canonical(GPT2).softmax_scale == 64**-0.5
    assert canonical(GPT2, scale_attn_by_inverse_layer_idx=True).scale_attention_by_inverse_layer_idx


@pytest.mark.parametrize(
    ("changes", "labels"),
    [
        ({}, 2),
        ({"num_labels": 5}, 5),
        ({"id2label": {"0": "a", "1": "b", "2": "c"}}, 3),
        ({"id2label": {"0": "a", "1": "b", "2": "c"}, "num_labels": 5}, 3),
        ({"id2label": None, "num_labels": 5}, 5),
        ({"id2label": {}, "num_labels": 5}, 5),
    ],
)
def test_labels(changes: dict[str, Any], labels: int) -> None:
    assert canonical(BERT, **{"architectures": ["BertForSequenceClassification"], **changes}).num_labels == labels


@pytest.mark.parametrize(
    "changes", [{"num_labels": "3"}, {"num_labels": 0}, {"num_labels": -1}, {"id2label": ["a"]}, {"id2label": "a"}]
)
def test_labels_of_a_wrong_type(changes: dict[str, Any]) -> None:
    assert next(iter(changes)) in refusal(BERT, **changes)


# --- positions ---------------------------------------------------------------------------------------------------

LLAMA3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


@pytest.mark.parametrize(
    "spelling",
    [
        {"rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", **LLAMA3}},
        {"rope_theta": 500000, "rope_scaling": {"type": "llama3", **LLAMA3}},
        {"rope_theta": 5e5, "rope_scaling": {"type": "llama3", "rope_type": "llama3", **LLAMA3}},
        {"rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5, **LLAMA3}},
        {"rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5, **LLAMA3}, "rope_scaling": None},
        {
            "rope_theta": 5e5,
            "rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5, **LLAMA3},
            "rope_scaling": {"rope_type": "llama3", **LLAMA3},
        },
        {
            "rope_theta": 5e5,
            "rope_parameters": {"rope_type": "llama3", **LLAMA3},
            "rope_scaling": {"type": "llama3", **LLAMA3},
        },
        {"rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", **LLAMA3, "factor": 8}},
    ],
)
def test_spellings_of_rope(spelling: dict[str, Any]) -> None:
    config = canonical({k: v for k, v in LLAMA.items() if not k.startswith("rope")}, **spelling)
    assert config.rotary_base == 5e5
    assert config.rope_scaling == {"rope_type": "llama3", **LLAMA3}


@pytest.mark.parametrize(
    "spelling",
    [
        {},
        {"rope_scaling": {}},
        {"rope_scaling": {"type": "default"}},
        {"rope_scaling": {"rope_type": "default"}},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
        {"rope_parameters": {"rope_theta": 10000.0}},
        {"rope_parameters": {}},
    ],
)
def test_plain_rope(spelling: dict[str, Any]) -> None:
    config = canonical({"model_type": "llama"}, **spelling)
    assert (config.rotary_base, config.rope_scaling) == (10000.0, None)


@pytest.mark.parametrize("absent", [{}, {"original_max_position_embeddings": None}])
def test_yarn_takes_the_trained_length_from_the_model(absent: dict[str, None]) -> None:
    scaling = canonical(LLAMA, rope_scaling={"rope_type": "yarn", "factor": 4.0, **absent}).rope_scaling
    assert scaling == {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rope_scaling": "linear"}, "rope_scaling must be an object, not 'linear'."),
        ({"rope_scaling": []}, "rope_scaling must be an object, not []."),
        ({"rope_parameters": 3}, "rope_parameters must be an object, not 3."),
        ({"rope_scaling": {"type": "su", "factor": 2.0}}, "RoPE scaling 'su' is not supported."),
        ({"rope_scaling": {"type": ["linear"], "factor": 2.0}}, "rope_type must be a string, not ['linear']."),
        ({"rope_scaling": {"rope_type": {}, "type": 3}}, "rope_type must be a string, not 3."),
        (
            {"rope_scaling": {"type": "linear", "rope_type": "dynamic", "factor": 2.0}},
            "rope_type, type are the same setting and disagree.",
        ),
        (
            {"rope_scaling": {"type": "linear"}},
            "RoPE scaling linear lacks [factor] and has unknown keys [].",
        ),
        (
            {"rope_scaling": {"type": "linear", "factor": 2.0, "fast": 1}},
            "RoPE scaling linear lacks [] and has unknown keys [fast].",
        ),
        ({"rope_scaling": {"factor": 2.0}}, "RoPE scaling default lacks [] and has unknown keys [factor]."),
        ({"rope_scaling": {"type": "linear", "factor": "2"}}, "factor must be a number, not '2'."),
        ({"rope_scaling": {"type": "linear", "factor": True}}, "factor must be a number, not True."),
        ({"rope_scaling": {"type": "linear", "factor": 0}}, "factor must be at least 1, not 0.0."),
        ({"rope_scaling": {"type": "linear", "factor": float("inf")}}, "factor must be finite, not inf."),
        (
            {"rope_scaling": {"rope_type": "llama3", **LLAMA3, "original_max_position_embeddings": "8192"}},
            "original_max_position_embeddings must be an integer, not '8192'.",
        ),
        (
            {"rope_scaling": {"rope_type": "llama3", **LLAMA3, "high_freq_factor": 1.0}},
            "low_freq_factor must be less than high_freq_factor.",
        ),
        (
            {"rope_scaling": {"rope_type": "yarn", "factor": 2.0, "truncate": 1}},
            "truncate must be true or false, not 1.",
        ),
        (
            {"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": {"rope_type": "default"}},
            "rope_scaling, rope_parameters are the same setting and disagree.",
        ),
        (
            {"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2.0, "rope_theta": 3e5}},
            "rope_theta, rope_scaling.rope_theta are the same setting and disagree.",
        ),
        ({"rope_theta": 0}, "rope_theta must be at least 1, not 0.0."),
        ({"rope_theta": "1e4"}, "rope_theta must be a number, not '1e4'."),
        ({"rope_theta": None}, "rope_theta must be a number, not None."),
    ],
)
def test_rope_that_is_wrong(changes: dict[str, Any], message: str) -> None:
    assert refusal(LLAMA, **changes) == message


# --- wrong types -------------------------------------------------------------------------------------------------

WRONG: dict[type | str, list[Any]] = {
    int: [True, "8", 8.0, 8.5, [8], {"a": 8}, float("inf"), float("nan"), LARGEST + 1, -LARGEST - 1, 10**4000],
    float: [True, "0.5", [0.5], {}, float("inf"), float("-inf"), float("nan"), json.loads("1e400"), 10**4000],
    bool: [0, 1, "true", "false", [], None, 1.0],
    str: [0, None, [], {}],
    "choice": ["nonsense", 0, [], {}, ["silu"], True],
}
FIELDS = [(name, rule) for name in model_types() for rule in architecture(name).rules if isinstance(rule, Field)]


@pytest.mark.parametrize(("model_type", "rule"), FIELDS, ids=[f"{name}-{rule.key}" for name, rule in FIELDS])
def test_every_field_refuses_wrong_types(model_type: str, rule: Field) -> None:
    kind = "choice" if isinstance(rule.kind, tuple) else rule.kind
    wrong = [value for value in WRONG[kind] if value is not None or not (rule.derive or rule.nullable)]
    if rule.minimum is not None:
        wrong.append(rule.minimum - 1)
    if rule.maximum is not None:
        wrong.append(rule.maximum + 1)
    for value in wrong:
        message = refusal({"model_type": model_type, rule.key: value})
        assert rule.key in message, value


@pytest.mark.parametrize("value", [0, -1, -(10**9)])
def test_sizes_are_positive(value: int) -> None:
    for key in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads"):
        assert refusal(LLAMA, **{key: value}) == f"{key} must be at least 1, not {value}."


@given(
    st.sampled_from(sorted(BASES)).flatmap(
        lambda name: st.tuples(
            st.just(name),
            st.dictionaries(
                st.sampled_from(sorted({*class_defaults(name), "rope_parameters", "id2label", "architectures"})),
                st.recursive(
                    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
                    lambda inner: (
                        st.lists(inner, max_size=2)
                        | st.dictionaries(st.sampled_from(["type", "rope_type", "factor", "rope_theta", "0"]), inner)
                    ),
                    max_leaves=4,
                ),
                min_size=1,
                max_size=4,
            ),
        )
    )
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_values_are_a_model_or_an_error(case: tuple[str, dict[str, Any]]) -> None:
    name, changes = case
    try:
        model = from_hf({"model_type": name, **changes})
    except MindportError:
        return
    assert to_hf(model) == model.hf


# --- what is not supported ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_attention_heads": 30}, "hidden_size = 2048 is not a multiple of num_attention_heads = 30."),
        ({"num_key_value_heads": 5}, "32 attention heads cannot share 5 key/value heads evenly."),
        ({"num_key_value_heads": 64}, "32 attention heads cannot share 64 key/value heads evenly."),
        ({"hidden_act": "mish"}, "hidden_act = 'mish' is not supported."),
        ({"is_encoder_decoder": True}, "is_encoder_decoder = True is not supported: encoder-decoder models"),
        ({"add_cross_attention": True}, "add_cross_attention = True is not supported: cross-attention"),
        (
            {"quantization_config": {"bits": 4}},
            "quantization_config: the weights are quantised, and it does not say how.",
        ),
        ({"pruned_heads": {"0": [1]}}, "pruned_heads = {'0': [1]} is not supported"),
        ({"num_hidden_layers": MOST_LAYERS + 1}, "10001 layers are more than the 10000 that are supported."),
    ],
)
def test_what_the_model_cannot_express(changes: dict[str, Any], message: str) -> None:
    assert message in refusal(LLAMA, **changes)


def test_an_explicit_head_width_need_not_divide() -> None:
    assert canonical(LLAMA, num_attention_heads=30, num_key_value_heads=3, head_dim=70).kv_channels == 70


@pytest.mark.parametrize(
    ("model_type", "near"),
    [("lama", "llama"), ("GPT2", "gpt2"), ("gpt-2", "gpt2"), ("bertt", "bert"), ("llama-3", "llama")],
)
def test_the_nearest_model_type_is_suggested(model_type: str, near: str) -> None:
    with pytest.raises(MindportError) as error:
        from_hf({"model_type": model_type})
    assert f"model_type '{model_type}' is not known; " in error.value.message
    assert f"Nearest supported model_type: {near}." in error.value.fix
    assert "mindport list" in error.value.fix


@pytest.mark.parametrize("model_type", ["", "zzz", "../llama", "mindport.cli", "__init__", "x" * 100_000, "llama\n"])
def test_model_types_that_are_not_declared(model_type: str) -> None:
    assert "is not known; it has none of the keys" in refusal({"model_type": model_type})


@pytest.mark.parametrize("model_type", [3, ["llama"], {"a": 1}, True, 0, False, [], float("nan")])
def test_model_types_that_are_no_names(model_type: Any) -> None:
    assert refusal(LLAMA, model_type=model_type) == f"model_type must be a string, not {model_type!r}."


@pytest.mark.parametrize("named", ["LlamaForSequenceClassification", "Nonsense", 3, [3], [["LlamaModel"]], [None]])
def test_classes_that_are_not_declared(named: Any) -> None:
    with pytest.raises(MindportError, match="of llama is not supported") as error:
        from_hf({**LLAMA, "architectures": named if isinstance(named, list) else [named]})
    assert error.value.fix == (
        "Supported classes: LlamaForCausalLM, LlamaModel, LLaMAForCausalLM. "
        "The bare model, without a head, is LlamaModel."
    )


@pytest.mark.parametrize("named", [None, [], ""])
def test_the_first_class_is_assumed(named: Any) -> None:
    assert from_hf({**LLAMA, "architectures": named}).hf_class == "LlamaForCausalLM"


def test_a_long_value_does_not_flood_the_message() -> None:
    quantised = {"quantization_config": {"modules_to_not_convert": [f"model.layers.{i}" for i in range(10_000)]}}
    refusal(LLAMA, **quantised)
    refusal(LLAMA, hidden_act="x" * 100_000)
    refusal(LLAMA, vocab_size=["x" * 1000] * 1000)


# --- and back ----------------------------------------------------------------------------------------------------

SPELLINGS = [
    LLAMA,
    GPT2,
    BERT,
    {"model_type": "llama"},
    {**LLAMA, "rope_scaling": {"type": "linear", "factor": 2}},
    {"model_type": "llama", "rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5, **LLAMA3}},
    {"model_type": "gpt2", "hidden_size": 96, "num_attention_heads": 4, "torch_dtype": "float16"},
    {**BERT, "architectures": ["BertForTokenClassification"], "num_labels": 7, "unknown_key": [1, {"a": None}]},
    {**BERT, "architectures": ["BertForSequenceClassification"], "id2label": {"0": "yes", "1": "no", "2": "well"}},
]


@pytest.mark.parametrize("hf", SPELLINGS)
def test_an_unchanged_config_is_written_as_it_was(hf: dict[str, Any]) -> None:
    model = from_hf(hf)
    assert to_hf(model) == hf
    assert list(to_hf(model)) == list(hf)
    assert from_hf(to_hf(model)) == model


def test_the_source_is_not_changed_by_reading_or_writing() -> None:
    hf = {**LLAMA, "rope_scaling": {"type": "linear", "factor": 2}}
    before = json.dumps(hf)
    to_hf(from_hf(hf).with_transformer(rotary_base=1e6))
    assert json.dumps(hf) == before


CHANGES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("llama", {"rotary_base": 1e6}, {"rope_theta": 1e6}),
    ("llama", {"rope_scaling": {"rope_type": "linear", "factor": 4.0}}, {"rope_scaling": {}}),
    ("llama", {"num_layers": 3}, {"num_hidden_layers": 3}),
    ("llama", {"kv_channels": 32, "softmax_scale": 32**-0.5}, {"head_dim": 32}),
    ("llama", {"add_qkv_bias": True, "add_attention_output_bias": True}, {"attention_bias": True}),
    ("llama", {"eos_token_id": [1, 2]}, {"eos_token_id": [1, 2]}),
    ("llama", {"params_dtype": "float16"}, {"dtype": "float16"}),
    ("gpt2", {"ffn_hidden_size": 100}, {"n_inner": 100}),
    ("gpt2", {"softmax_scale": 1.0}, {"scale_attn_weights": False}),
    ("bert", {"hidden_dropout": 0.0, "embedding_dropout": 0.0}, {"hidden_dropout_prob": 0.0}),
    ("bert", {"activation_func": "relu", "head_activation": "relu"}, {"hidden_act": "relu"}),
]


@pytest.mark.parametrize(("model_type", "changes", "keys"), CHANGES)
def test_a_changed_field_is_written(model_type: str, changes: dict[str, Any], keys: dict[str, Any]) -> None:
    model = from_hf(BASES[model_type]).with_transformer(**changes)
    if model_type == "bert" and "hidden_dropout" in changes:
        model = model.with_transformer(classifier_dropout=0.0)
    written = to_hf(model)
    assert from_hf(written).transformer == model.transformer
    for key, value in keys.items():
        assert written[key] == (value or model.transformer.rope_scaling if key == "rope_scaling" else value)
    untouched = set(BASES[model_type]) - set(keys) - {"torch_dtype", "rope_theta", "rope_scaling"}
    assert all(written[key] == BASES[model_type][key] for key in untouched)


def test_a_change_replaces_the_other_spelling() -> None:
    model = from_hf({"model_type": "gpt2", "hidden_size": 96, "num_attention_heads": 4}).with_transformer(
        hidden_size=128, ffn_hidden_size=512, kv_channels=32, softmax_scale=32**-0.5
    )
    written = to_hf(model)
    assert written["n_embd"] == 128
    assert "hidden_size" not in written


@pytest.mark.parametrize(
    ("model_type", "change"),
    [
        ("llama", {"normalization": "LayerNorm"}),
        ("llama", {"add_attention_output_bias": True}),
        ("llama", {"softmax_scale": 0.5}),
        ("gpt2", {"rotary_base": 5.0}),
        ("gpt2", {"softmax_scale": 0.3}),
        ("bert", {"norm_placement": "pre"}),
        ("bert", {"head": "causal_lm"}),
    ],
)
def test_what_the_architecture_cannot_say_is_refused(model_type: str, change: dict[str, Any]) -> None:
    model = from_hf(BASES[model_type]).with_transformer(**change)
    with pytest.raises(MindportError, match=f"A {model_type} config cannot express") as error:
        to_hf(model)
    assert next(iter(change)) in error.value.message


def test_another_class_is_written() -> None:
    model = dataclasses.replace(from_hf(LLAMA), hf_class="LlamaModel").with_transformer(head="none")
    assert to_hf(model)["architectures"] == ["LlamaModel"]


def test_an_optional_part_is_no_difference() -> None:
    # A BertModel without its pooler: the config has no word for it, the weights say so.
    assert to_hf(from_hf(BERT).with_transformer(add_pooler=False)) == BERT


# --- files -------------------------------------------------------------------------------------------------------


def test_a_folder_or_its_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    wanted = from_hf(LLAMA)
    assert read_hf_config(tmp_path) == read_hf_config(tmp_path / "config.json") == wanted
    other = tmp_path / "anything"
    other.write_text(json.dumps(LLAMA))
    assert read_hf_config(other) == wanted


@pytest.mark.parametrize("name", ["", "nowhere", "folder/config.json"])
def test_paths_that_are_no_model(tmp_path: Path, name: str) -> None:
    with pytest.raises(MindportError, match="does not exist") as error:
        config_path(tmp_path / name)
    assert "config.json" in error.value.fix


def test_a_model_knows_its_declaration() -> None:
    model: ModelConfig = from_hf(BERT)
    assert model.declaration is architecture("bert")
    assert model.declared_class is architecture("bert").classes["BertModel"]
