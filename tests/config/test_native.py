"""`ms_config.json`: read back identical, and every way in which it can be wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mindport.architectures.naming import Spelling
from mindport.config.hf import from_hf
from mindport.config.native import FILE_NAME, NativeConfig, read_native_config, to_json, write_native_config
from mindport.errors import MindportError

BERT = from_hf({"model_type": "bert", "architectures": ["BertForMaskedLM"], "vocab_size": 100, "note": "é\u4e2d😀"})
LLAMA = from_hf({"model_type": "llama", "eos_token_id": [1, 2], "rope_scaling": {"type": "linear", "factor": 2}})
GPT2 = from_hf({"model_type": "gpt2", "tie_word_embeddings": True})
OLD_NORMS = ((".LayerNorm.weight", ".LayerNorm.gamma"), (".LayerNorm.bias", ".LayerNorm.beta"))
CONFIGS = [
    NativeConfig(BERT),
    NativeConfig(BERT, Spelling("bert.", OLD_NORMS)),
    NativeConfig(BERT, Spelling(""), ("cls.predictions.decoder.weight", "cls.predictions.decoder.bias")),
    NativeConfig(LLAMA),
    NativeConfig(GPT2, Spelling("transformer."), ("lm_head.weight",)),
]


@pytest.mark.parametrize("config", CONFIGS)
def test_it_is_read_back_identical(config: NativeConfig, tmp_path: Path) -> None:
    path = write_native_config(tmp_path, config)
    assert path == tmp_path / FILE_NAME
    assert read_native_config(tmp_path) == read_native_config(path) == config


def test_it_is_readable_text(tmp_path: Path) -> None:
    text = write_native_config(tmp_path, CONFIGS[0]).read_text(encoding="utf-8")
    assert "é中😀" in text
    assert text.endswith("}\n")
    assert list(json.loads(text)) == ["mindport", "model_type", "hf_class", "transformer", "source"]


def edited(tmp_path: Path, edit: Callable[[dict[str, Any]], Any]) -> MindportError:
    """The error of reading a file that was changed by hand."""
    content = json.loads(json.dumps(to_json(CONFIGS[2])))
    changed = edit(content)
    (tmp_path / FILE_NAME).write_text(json.dumps(content if changed is None else changed))
    with pytest.raises(MindportError) as error:
        read_native_config(tmp_path)
    assert error.value.fix
    assert FILE_NAME in error.value.message or "is not supported" in error.value.message
    return error.value


@pytest.mark.parametrize("key", ["mindport", "model_type", "hf_class", "transformer", "source"])
@pytest.mark.parametrize("value", [None, 3, "text", [], {}, [["a", 1]], True])
def test_a_section_of_a_wrong_type_or_missing(tmp_path: Path, key: str, value: Any) -> None:
    edited(tmp_path, lambda content: content.update({key: value}))
    edited(tmp_path, lambda content: content.pop(key) and None)


@pytest.mark.parametrize("value", [0, 2, "1", None, [1]])
def test_another_format(tmp_path: Path, value: Any) -> None:
    error = edited(tmp_path, lambda content: content["mindport"].update(format=value))
    assert "has format" in error.message
    assert "this version" in error.fix


def test_fields_missing_and_unknown_are_named(tmp_path: Path) -> None:
    def edit(content: dict[str, Any]) -> None:
        del content["transformer"]["hidden_size"]
        content["transformer"]["hiden_size"] = 3

    message = edited(tmp_path, edit).message
    assert "lacks [hidden_size] and has unknown fields [hiden_size]" in message


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hidden_size", "768"),
        ("hidden_size", 768.0),
        ("hidden_size", None),
        ("hidden_size", True),
        ("layernorm_epsilon", "1e-5"),
        ("layernorm_epsilon", True),
        ("normalization", 3),
        ("normalization", None),
        ("final_layernorm", 1),
        ("final_layernorm", None),
        ("rope_scaling", []),
        ("rope_scaling", "linear"),
        ("eos_token_id", "2"),
        ("eos_token_id", False),
        ("bos_token_id", [1]),
    ],
)
def test_values_of_a_wrong_type_are_named(tmp_path: Path, field: str, value: Any) -> None:
    error = edited(tmp_path, lambda content: content["transformer"].update({field: value}))
    assert f"values of a wrong type: {field}" in error.message


@pytest.mark.parametrize(
    ("field", "value"),
    [("layernorm_epsilon", 1), ("eos_token_id", [1, 2]), ("eos_token_id", None), ("rope_scaling", {"rope_type": "x"})],
)
def test_values_of_the_right_type_are_taken(tmp_path: Path, field: str, value: Any) -> None:
    content = to_json(CONFIGS[0])
    content["transformer"][field] = value
    (tmp_path / FILE_NAME).write_text(json.dumps(content))
    assert getattr(read_native_config(tmp_path).model.transformer, field) == value


@pytest.mark.parametrize(
    "source",
    [
        {},
        {"config": {}},
        {"config": None, "tied_copies": []},
        {"config": 3, "tied_copies": []},
        {"config": {}, "tied_copies": None},
        {"config": {}, "tied_copies": "lm_head.weight"},
        {"config": {}, "tied_copies": ["no.such.copy"]},
        {"config": {}, "tied_copies": [3]},
        {"config": {}, "tied_copies": [], "names": 3},
        {"config": {}, "tied_copies": [], "names": {"base": "bert."}},
        {"config": {}, "tied_copies": [], "names": {"base": "../", "replacements": [], "table": 0}},
        {"config": {}, "tied_copies": [], "names": {"base": "", "replacements": [["a"]], "table": 0}},
        {"config": {}, "tied_copies": [], "names": {"base": "", "replacements": [["a", "b"]], "table": 0}},
        {"config": {}, "tied_copies": [], "names": {"base": "", "replacements": 3, "table": 0}},
        {"config": {}, "tied_copies": [], "names": {"base": "", "replacements": [], "table": 7}},
    ],
)
def test_a_source_section_that_is_wrong(tmp_path: Path, source: Any) -> None:
    error = edited(tmp_path, lambda content: content.update(source=source))
    assert "is not an ms_config.json written by Mindport" in error.message


@pytest.mark.parametrize(("key", "value"), [("model_type", "mystery"), ("hf_class", "BertForEverything")])
def test_a_model_that_is_not_declared(tmp_path: Path, key: str, value: str) -> None:
    edited(tmp_path, lambda content: content.update({key: value}))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"{}"])
def test_a_file_that_is_not_one(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(MindportError, match=FILE_NAME):
        read_native_config(tmp_path)


def test_a_folder_without_one(tmp_path: Path) -> None:
    with pytest.raises(MindportError, match="does not exist"):
        read_native_config(tmp_path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hidden_size", 0),
        ("num_layers", -1),
        ("vocab_size", 10**15),
        ("num_query_groups", 3),
        ("hidden_dropout", 1.5),
        ("attention_dropout", -0.5),
        ("rotary_base", float("nan")),
        ("layer_types", ["x", "y"]),
        ("layer_types", ["full_attention"]),
        ("layer_weights", []),
        ("layer_weights", [5, 0]),
        ("moe_layer_freq", [0, 7]),
    ],
)
def test_values_that_no_model_has(tmp_path: Path, field: str, value: Any) -> None:
    hf = {"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32}
    path = write_native_config(tmp_path, NativeConfig(from_hf(hf)))
    content = json.loads(path.read_text())
    content["transformer"][field] = value
    path.write_text(json.dumps(content))
    with pytest.raises(MindportError, match=f"out of range: .*{field}"):
        read_native_config(path)
