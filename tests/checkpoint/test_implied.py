"""A config that contradicts its tensors: the key that is wrong is named, with the value that the tensors imply."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mindport.architectures.naming import Spelling
from mindport.checkpoint.implied import Implied, describe, implied
from mindport.checkpoint.match import spelling_of, with_optional_parts
from mindport.checkpoint.source import Checkpoint, TensorEntry
from mindport.config.hf import ModelConfig, from_hf

from .conftest import Tiny

Make = Callable[..., Tiny]


def entries_of(tiny: Tiny) -> dict[str, TensorEntry]:
    """Headers alone: no file is there."""
    tensors = {**tiny.tensors, **tiny.skipped}
    return {name: TensorEntry(name, "F32", array.shape, Path("none"), 0) for name, array in tensors.items()}


def read(config: dict[str, Any], source: Checkpoint) -> tuple[ModelConfig, Spelling]:
    """As a conversion does."""
    model = from_hf(config)
    spelling = spelling_of(model, source)
    return with_optional_parts(model, spelling, source), spelling


def guess(config: dict[str, Any], source: Checkpoint) -> list[Implied]:
    return implied(*read(config, source), source)


def said(found: list[Implied]) -> dict[str, Any]:
    """Key -> value, where there are no alternatives."""
    assert not any(one.alternatives for one in found), found
    return {one.keys[0]: one.tensors for one in found}


TINIES: list[tuple[str, dict[str, Any]]] = [
    ("llama", {}),
    ("llama", {"tied": True}),
    ("llama", {"tied": True, "copy": True}),
    ("llama", {"base": ""}),
    ("gpt2", {"buffers": True}),
    ("gpt2", {"copy": True}),
    ("gpt2", {"base": ""}),
    ("bert", {}),
    ("bert", {"pooler": False}),
    ("bert", {"hf_class": "BertForMaskedLM", "base": "bert.", "old_norms": True, "copies": True}),
    ("deepseek_v3", {}),
    ("deepseek_v3", {"modules": 2, "query_rank": None}),
    ("deepseek_v3", {"modules": 0, "stacked": True}),
]


@pytest.mark.parametrize(("model_type", "variant"), TINIES)
def test_a_right_config_implies_nothing(make: Make, model_type: str, variant: dict[str, Any]) -> None:
    tiny = make(model_type, **variant)
    assert guess(tiny.config, entries_of(tiny)) == []


CHANGES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    *(
        ("llama", {}, {key: wrong})
        for key, wrong in [
            ("vocab_size", 12),
            ("vocab_size", 5),
            ("hidden_size", 16),
            ("intermediate_size", 9),
            ("num_key_value_heads", 4),
            ("num_key_value_heads", 1),
            ("head_dim", 4),
            ("num_attention_heads", 8),
            ("num_attention_heads", 2),
            ("num_hidden_layers", 1),
            ("num_hidden_layers", 3),
            ("num_hidden_layers", 40),
            ("attention_bias", True),
            ("mlp_bias", True),
        ]
    ),
    ("llama", {"tied": True}, {"tie_word_embeddings": False}),
    ("llama", {"base": ""}, {"hidden_size": 9}),
    *(
        ("gpt2", {"buffers": True}, {key: wrong})
        for key, wrong in [("n_embd", 12), ("n_inner", 7), ("n_layer", 3), ("n_layer", 1), ("n_positions", 8)]
    ),
    *(
        ("bert", {"copies": True, "hf_class": "BertForMaskedLM", "base": "bert."}, {key: wrong})
        for key, wrong in [("hidden_size", 8), ("vocab_size", 12), ("num_hidden_layers", 12)]
    ),
    ("bert", {}, {"type_vocab_size": 3}),
    ("bert", {"pooler": False}, {"max_position_embeddings": 512}),
    *(
        ("deepseek_v3", variant, {key: wrong})
        for variant in ({}, {"stacked": True, "modules": 0})
        for key, wrong in [
            ("n_routed_experts", 8),
            ("n_routed_experts", 6),
            ("first_k_dense_replace", 0),
            ("first_k_dense_replace", 2),
            ("num_hidden_layers", 1),
            ("num_hidden_layers", 3),
            ("q_lora_rank", None),
            ("q_lora_rank", 6),
            ("kv_lora_rank", 14),
            ("qk_nope_head_dim", 8),
            ("v_head_dim", 5),
            ("n_shared_experts", 1),
            ("moe_intermediate_size", 12),
        ]
    ),
    ("deepseek_v3", {"query_rank": None}, {"q_lora_rank": 7}),
    ("deepseek_v3", {"modules": 2}, {"num_nextn_predict_layers": 1}),
]


@pytest.mark.parametrize(("model_type", "variant", "change"), CHANGES)
def test_a_wrong_key_is_named(make: Make, model_type: str, variant: dict[str, Any], change: dict[str, Any]) -> None:
    tiny = make(model_type, **variant)
    right = {"type_vocab_size": 2, "attention_bias": False, "mlp_bias": False, **tiny.config}
    found = guess({**tiny.config, **change}, entries_of(tiny))
    assert said(found) == {key: right[key] for key in change}
    assert [one.config for one in found] == list(change.values())
    assert all(one.explains > 0 for one in found)


@pytest.mark.parametrize(
    ("model_type", "change"),
    [
        ("llama", {"vocab_size": 12, "num_key_value_heads": 4}),
        ("llama", {"hidden_size": 16, "num_hidden_layers": 3}),
        ("llama", {"num_attention_heads": 8, "head_dim": 4}),
        ("llama", {"num_key_value_heads": 4, "head_dim": 5}),
        ("llama", {"vocab_size": 12, "hidden_size": 16, "intermediate_size": 7}),
        ("gpt2", {"n_layer": 3, "n_embd": 12}),
        ("deepseek_v3", {"n_routed_experts": 8, "kv_lora_rank": 14}),
        ("deepseek_v3", {"num_hidden_layers": 3, "first_k_dense_replace": 2}),
    ],
)
def test_several_wrong_keys_are_all_named(make: Make, model_type: str, change: dict[str, Any]) -> None:
    tiny = make(model_type)
    assert said(guess({**tiny.config, **change}, entries_of(tiny))) == {key: tiny.config[key] for key in change}


def test_the_canonical_field_is_named_too(make: Make) -> None:
    tiny = make("gpt2")
    (found,) = guess({**tiny.config, "n_embd": 12}, entries_of(tiny))
    assert (found.field, found.keys, found.config, found.tensors) == ("hidden_size", ("n_embd",), 12, 6)


def test_what_the_class_assumes_can_be_wrong(make: Make) -> None:
    """No key says it: four times the hidden size."""
    tiny = make("gpt2")
    config = {key: value for key, value in tiny.config.items() if key != "n_inner"}
    (found,) = guess(config, entries_of(tiny))
    assert (found.keys, found.config, found.tensors) == (("n_inner",), 24, 6)


def test_an_alias_is_named_as_the_file_spells_it(make: Make) -> None:
    tiny = make("gpt2")
    config = {key: value for key, value in tiny.config.items() if key != "n_layer"} | {"num_hidden_layers": 3}
    assert said(guess(config, entries_of(tiny))) == {"num_hidden_layers": 2}


def test_where_shapes_cannot_tell_all_that_could_be_are_named(make: Make) -> None:
    """Heads share out a width of 12. With half as many, keys are as wide as half as many key heads would be."""
    tiny = make("llama")
    source = {
        name: TensorEntry(name, "F32", tuple(12 if size == 8 else size for size in entry.shape), entry.path, 0)
        for name, entry in entries_of(tiny).items()
    }
    right = {**tiny.config, "hidden_size": 12, "head_dim": None}
    assert guess(right, source) == []
    (found,) = guess({**right, "num_attention_heads": 2}, source)
    named = {(one.keys, one.config, one.tensors) for one in (found, *found.alternatives)}
    assert named == {(("num_attention_heads",), 2, 4), (("num_key_value_heads",), 2, 1)}
    assert {one.explains for one in (found, *found.alternatives)} == {found.explains}


def test_the_tensors_of_another_model_imply_nothing(make: Make) -> None:
    assert guess(make("llama").config, entries_of(make("bert"))) == []
    assert guess(make("llama").config, {}) == []
    llama = make("llama")
    renamed = {f"x.{name}": entry for name, entry in entries_of(llama).items()}
    assert guess(llama.config, renamed) == []
    attention = {name: entry for name, entry in entries_of(llama).items() if "self_attn" not in name}
    assert guess(llama.config, {**attention, **renamed}) == []


def test_foreign_tensors_do_not_hide_what_is_wrong(make: Make) -> None:
    tiny = make("llama")
    digits = "9" * 5000
    foreign = [*(f"adapter.{i}.lora_A.weight" for i in range(500)), f"model.layers.{digits}.x", "model.layers.007.x"]
    source = entries_of(tiny) | {n: TensorEntry(n, "F32", (3,), Path("none"), 0) for n in foreign}
    assert said(guess({**tiny.config, "vocab_size": 12}, source)) == {"vocab_size": 11}


def test_absurd_shapes_and_numbers_cost_nothing(make: Make) -> None:
    """Sizes that no memory holds, as a broken or hostile file may claim them."""
    tiny = make("deepseek_v3", stacked=True)
    source = entries_of(tiny)
    for name in [name for name in source if name.endswith("gate_up_proj")]:
        source[name] = TensorEntry(name, "F32", (10**9, 12, 0), Path("none"), 0)
    for number in (9999, 10**8, 10**40):
        name = f"model.layers.{number}.input_layernorm.weight"
        source[name] = TensorEntry(name, "F32", (8,), Path("none"), 0)
    start = time.monotonic()
    assert said(guess({**tiny.config, "vocab_size": 12}, source)).get("vocab_size") == 11
    assert time.monotonic() - start < 30


# --- in words ----------------------------------------------------------------------------------------------------


WORDS = [
    Implied("vocab_size", ("vocab_size",), 12, 11, 2),
    Implied(
        "num_query_groups",
        ("num_key_value_heads",),
        8,
        4,
        4,
        (Implied("tie_word_embeddings", ("tie_word_embeddings",), False, True, 4),),
    ),
    Implied("num_labels", ("id2label", "label2id"), 2, None, 1),
]


def test_it_is_said_in_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDPORT_LANG", "en")
    assert describe([]) == ""
    assert describe(WORDS) == (
        "The tensors imply vocab_size = 11 (config.json: 12). "
        "The tensors imply num_key_value_heads = 4 (config.json: 8) or "
        "tie_word_embeddings = true (config.json: false). "
        "The tensors imply num_labels = null (config.json: 2)."
    )
    monkeypatch.setenv("MINDPORT_LANG", "zh_CN")
    assert describe(WORDS[:1]) == "张量表明 vocab_size = 11（config.json 中为 12）。"
