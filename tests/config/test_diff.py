"""Two configs compared: what differs in meaning, what only in spelling, and what each difference changes."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from mindport.config import diff as module
from mindport.config.diff import EFFECTS, SAME, UNKNOWN, WEIGHT_SHAPES, Change, ConfigDiff, diff
from mindport.config.hf import ModelConfig, from_hf, read_hf_config
from mindport.config.native import NativeConfig, write_native_config
from mindport.errors import MindportError
from mindport.schema import NUMERICS, RUN, TRAINING, TransformerConfig, slots_of

CORPUS = Path(__file__).parents[2] / ".." / "shared" / "corpus" / "configs"

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 320,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "rope_theta": 50000.0,
    "rope_scaling": {"rope_type": "linear", "factor": 2.0},
    "torch_dtype": "float16",
}


def compared(tmp_path: Path, a: dict[str, Any], b: dict[str, Any]) -> ConfigDiff:
    for name, content in (("a", a), ("b", b)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    return diff(tmp_path / "a.json", tmp_path / "b.json")


def without(config: dict[str, Any], *keys: str, **more: Any) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in keys} | more


def effects(found: ConfigDiff) -> dict[str, str]:
    """Canonical field -> effect."""
    return {change.path: change.effect for change in found.fields}


def keys(found: ConfigDiff) -> dict[str, tuple[str, str, tuple[str, ...]]]:
    return {change.path: (change.change, change.effect, change.fields) for change in found.keys}


# --- the same in meaning ---------------------------------------------------------------------------------------------

SPELLINGS: dict[str, dict[str, Any]] = {
    "dtype": without(LLAMA, "torch_dtype", dtype="float16"),
    "RoPE of transformers 5": without(
        LLAMA,
        "rope_theta",
        "rope_scaling",
        rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 50000.0},
    ),
    "type instead of rope_type": {**LLAMA, "rope_scaling": {"type": "linear", "factor": 2.0}},
    "a default written": {**LLAMA, "hidden_act": "silu", "attention_bias": False, "head_dim": 8},
    "a null": {**LLAMA, "head_dim": None, "pad_token_id": None},
    "an integer for a number": {**LLAMA, "rope_theta": 50000},
    "no class": without(LLAMA, "architectures"),
    "another name of the class": {**LLAMA, "architectures": ["LLaMAForCausalLM"]},
    "another order": dict(reversed(LLAMA.items())),
    "what only one value is supported of": {**LLAMA, "add_cross_attention": False},
}


@pytest.mark.parametrize("other", SPELLINGS.values(), ids=SPELLINGS)
def test_another_spelling_means_the_same(tmp_path: Path, other: dict[str, Any]) -> None:
    for a, b in ((LLAMA, other), (other, LLAMA)):
        found = compared(tmp_path, a, b)
        assert found.equal
        assert found.fields == ()
        assert {change.effect for change in found.keys} <= {SAME, "record"}
        assert {change.path.split(".")[0] for change in found.keys} == {
            key for key in {*a, *b} if (key in a) != (key in b) or a[key] != b[key]
        }


def test_what_is_ignored_is_shown_with_the_reason(tmp_path: Path) -> None:
    notes = {"transformers_version": "4.40", "use_cache": False, "gradient_checkpointing": True}
    found = compared(tmp_path, {**LLAMA, "use_cache": True}, {**LLAMA, **notes})
    assert found.equal
    assert {change.path: (change.change, change.effect) for change in found.keys} == {
        "use_cache": ("changed", "run"),
        "transformers_version": ("added", "record"),
        "gradient_checkpointing": ("added", "training"),
    }
    assert all(change.note for change in found.keys)


# --- differences -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"vocab_size": 321}, {"vocab_size": WEIGHT_SHAPES}),
        ({"num_hidden_layers": 4}, {"num_layers": WEIGHT_SHAPES}),
        ({"attention_bias": True}, {"add_qkv_bias": WEIGHT_SHAPES, "add_attention_output_bias": WEIGHT_SHAPES}),
        ({"tie_word_embeddings": True}, {"tie_word_embeddings": WEIGHT_SHAPES}),
        ({"architectures": ["LlamaModel"]}, {"head": WEIGHT_SHAPES}),
        ({"max_position_embeddings": 512}, {"max_position_embeddings": NUMERICS}),
        ({"rms_norm_eps": 1e-5}, {"layernorm_epsilon": NUMERICS}),
        ({"hidden_act": "gelu"}, {"activation_func": NUMERICS}),
        ({"rope_scaling": {"rope_type": "linear", "factor": 4.0}}, {"rope_scaling.factor": NUMERICS}),
        ({"rope_scaling": None}, {"rope_scaling": NUMERICS}),
        ({"attention_dropout": 0.1}, {"attention_dropout": TRAINING}),
        ({"initializer_range": 0.1}, {"init_method_std": TRAINING}),
        ({"eos_token_id": [2, 3]}, {"eos_token_id": RUN}),
        ({"torch_dtype": "bfloat16"}, {"params_dtype": RUN}),
        ({"pad_token_id": 0}, {"pad_token_id": RUN, "embedding_padding_idx": TRAINING}),
    ],
)
def test_what_a_change_changes(tmp_path: Path, change: dict[str, Any], expected: dict[str, str]) -> None:
    found = compared(tmp_path, LLAMA, {**LLAMA, **change})
    assert not found.equal
    assert effects(found) == expected
    (key,) = found.keys
    assert set(key.fields) == {path.split(".")[0] for path in expected}
    assert key.effect == min(expected.values(), key=EFFECTS.index)
    assert any((found.slots.added, found.slots.removed, found.slots.reshaped)) == (WEIGHT_SHAPES in expected.values())


def test_heads_of_another_width_that_fit_the_same_weights_change_numerics(tmp_path: Path) -> None:
    found = compared(tmp_path, LLAMA, {**LLAMA, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 16})
    assert set(effects(found)) == {"num_attention_heads", "num_query_groups", "kv_channels", "softmax_scale"}
    assert set(effects(found).values()) == {NUMERICS}
    more = compared(
        tmp_path, LLAMA, {**LLAMA, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 16, "vocab_size": 9}
    )
    assert {name for name, effect in effects(more).items() if effect == WEIGHT_SHAPES} == {"vocab_size"}


def test_a_key_lists_what_is_derived_from_it(tmp_path: Path) -> None:
    found = compared(tmp_path, LLAMA, {**LLAMA, "num_attention_heads": 4})
    assert keys(found)["num_attention_heads"] == (
        "changed",
        WEIGHT_SHAPES,
        ("num_attention_heads", "kv_channels", "softmax_scale"),
    )


def test_keys_that_only_go_together(tmp_path: Path) -> None:
    qwen = {"model_type": "qwen2", "num_hidden_layers": 4, "layer_types": ["full_attention"] * 4}
    window = {"use_sliding_window": True, "sliding_window": 8}
    types = ["full_attention"] * 3 + ["sliding_attention"] * 3
    found = compared(tmp_path, qwen, {**qwen, **window, "num_hidden_layers": 6, "layer_types": types})
    assert set(effects(found)) == {"num_layers", "window_size", "layer_types"}
    for key in window:
        assert set(keys(found)[key][2]) == {"window_size", "layer_types"}
    assert "num_layers" in keys(found)["num_hidden_layers"][2]


def test_paths_lead_into_objects_and_lists(tmp_path: Path) -> None:
    a = {**LLAMA, "x": {"y": [{"z": 1}, {"z": 2}], "n": None, "list": [1, 2]}}
    b = {**LLAMA, "x": {"y": [{"z": 1}, {"z": True}], "m": None, "list": [1, 2, 3]}}
    found = compared(tmp_path, a, b)
    assert [(change.path, change.change, change.a, change.b) for change in found.keys] == [
        ("x.y.1.z", "changed", 2, True),
        ("x.n", "removed", None, None),
        ("x.list", "changed", [1, 2], [1, 2, 3]),
        ("x.m", "added", None, None),
    ]


def test_keys_that_nobody_knows_may_mean_something(tmp_path: Path) -> None:
    found = compared(tmp_path, {**LLAMA, "mystery": 1}, LLAMA)
    assert found.keys == (Change("mystery", "removed", 1, None, UNKNOWN),)
    assert not found.equal
    other = {"model_type": "qwen2", "mystery": 2}
    assert keys(compared(tmp_path, {**LLAMA, "mystery": 1}, other)) == {"mystery": ("changed", UNKNOWN, ())}


def test_nan_is_equal_to_itself(tmp_path: Path) -> None:
    assert compared(tmp_path, {**LLAMA, "mystery": float("nan")}, {**LLAMA, "mystery": float("nan")}).equal
    assert not compared(tmp_path, {**LLAMA, "mystery": 1}, {**LLAMA, "mystery": True}).equal


def test_names_of_labels_count(tmp_path: Path) -> None:
    bert = {"model_type": "bert", "architectures": ["BertForSequenceClassification"]}
    one, other = ({**bert, "id2label": {"0": x, "1": y}} for x, y in ("ab", "ba"))
    found = compared(tmp_path, one, other)
    assert not found.equal
    assert keys(found) == {"id2label.0": ("changed", RUN, ()), "id2label.1": ("changed", RUN, ())}


def test_a_mixture_that_is_no_model_counts_as_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = (from_hf({**LLAMA, **change}).transformer for change in ({}, {"vocab_size": 9, "rms_norm_eps": 0.1}))

    def slots(config: TransformerConfig) -> Any:
        if config not in (a, b):
            raise ZeroDivisionError
        return slots_of(config)

    monkeypatch.setattr(module, "slots_of", slots)
    assert module._reshaping(a, b) == {"vocab_size", "layernorm_epsilon"}


# --- other kinds and architectures -----------------------------------------------------------------------------------


def native(folder: Path, model: ModelConfig) -> Path:
    folder.mkdir()
    write_native_config(folder, NativeConfig(model))
    return folder


def test_a_converted_folder_is_what_it_was_made_from(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps({**LLAMA, "mystery": 1}))
    folder = native(tmp_path / "ms", read_hf_config(tmp_path / "model"))
    for a, b in ((tmp_path / "model", folder), (folder, tmp_path / "model"), (folder, folder / "ms_config.json")):
        found = diff(a, b)
        assert found.equal
        assert found.keys == ()
    assert (found.a.kind, found.b.kind) == ("native", "native")


def test_across_kinds_the_fields_are_compared(tmp_path: Path) -> None:
    model = from_hf(LLAMA)
    folder = native(tmp_path / "ms", replace(model, transformer=replace(model.transformer, softmax_scale=0.5)))
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    found = diff(tmp_path / "config.json", folder)
    assert effects(found) == {"softmax_scale": NUMERICS}
    assert found.keys == ()


def test_parts_of_which_only_the_weights_tell_do_not_differ(tmp_path: Path) -> None:
    model = from_hf({"model_type": "bert", "architectures": ["BertModel"]})
    folder = native(tmp_path / "ms", model.with_transformer(add_pooler=False))
    (tmp_path / "config.json").write_text(json.dumps(model.hf))
    assert diff(tmp_path / "config.json", folder).equal
    whole = native(tmp_path / "whole", model)
    assert effects(diff(whole, folder)) == {"add_pooler": WEIGHT_SHAPES}


def test_another_architecture_can_mean_the_same(tmp_path: Path) -> None:
    mistral = {**LLAMA, "model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": None}
    found = compared(tmp_path, LLAMA, mistral)
    assert found.equal
    assert found.keys == ()
    assert (found.a.model_type, found.b.model_type) == ("llama", "mistral")
    assert effects(compared(tmp_path, LLAMA, {**mistral, "sliding_window": 7})) == {"window_size": NUMERICS}


def test_where_there_is_no_config(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    for wrong, message in (
        (tmp_path / "empty", "holds none of config.json, ms_config.json"),
        (tmp_path / "nowhere", "does not exist"),
    ):
        with pytest.raises(MindportError, match=message) as error:
            diff(tmp_path, wrong)
        assert error.value.fix
    (tmp_path / "ms_config.json").write_text("{}")
    with pytest.raises(MindportError, match="holds several configurations"):
        diff(tmp_path, tmp_path)


# --- every field -----------------------------------------------------------------------------------------------------


def test_effects_agree_with_what_the_mutation_tests_say() -> None:
    """Fields that are inert in evaluation are exactly those that are not NUMERICS, but for what chooses the outputs."""
    pytest.importorskip("torch")
    pytest.importorskip("mindspore")
    import ast

    tree = ast.parse((Path(__file__).parents[1] / "architectures" / "mutations.py").read_text(encoding="utf-8"))
    (inert,) = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "INERT"
    ]
    said = TransformerConfig.effects()
    assert {name for name, effect in said.items() if effect != NUMERICS} == set(inert) - {"head"}
    assert set(said.values()) == {NUMERICS, TRAINING, RUN}
    assert list(said) == [f.name for f in fields(TransformerConfig)]


# --- public configs --------------------------------------------------------------------------------------------------


def readable(pattern: str) -> list[Path]:
    found = []
    for path in sorted(CORPUS.glob(pattern)):
        try:
            read_hf_config(path)
        except MindportError:
            continue
        found.append(path)
    return found


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of public configs is not here")
@pytest.mark.parametrize("pattern", ["llama__*", "qwen*", "mistral*", "gpt2*", "bert*"])
def test_public_configs(pattern: str) -> None:
    paths = readable(pattern)
    assert len(paths) >= 2
    for a, b in zip(paths, [*paths[1:], paths[0]], strict=True):
        assert diff(a, a).equal
        assert diff(a, a).keys == ()
        found, back = diff(a, b), diff(b, a)
        one, other = read_hf_config(a), read_hf_config(b)
        assert found.equal == back.equal
        assert effects(found) == effects(back)
        assert ({path.split(".")[0] for path in effects(found)} == set()) == (one.transformer == other.transformer)
        assert (WEIGHT_SHAPES in effects(found).values()) == (slots_of(one.transformer) != slots_of(other.transformer))
        if one.model_type == other.model_type:
            explained = {name for change in found.keys for name in change.fields}
            assert {path.split(".")[0] for path in effects(found)} <= explained, "every field is some key's doing"
            assert {change.path.split(".")[0] for change in found.keys} == {
                key
                for key in {*one.hf, *other.hf}
                if (key in one.hf) != (key in other.hf) or one.hf[key] != other.hf[key]
            }
