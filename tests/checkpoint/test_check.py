"""A converted folder against its source: what no forward pass would show."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mindport.checkpoint import safetensors
from mindport.checkpoint.check import check_folder
from mindport.checkpoint.convert import convert
from mindport.checkpoint.files import read
from mindport.checkpoint.options import Options
from mindport.errors import MindportError

Make = Callable[..., Any]
WEIGHTS = {"safetensors": "model.safetensors", "ckpt": "model.ckpt"}
FORMATS = pytest.mark.parametrize("kind", sorted(WEIGHTS))


@pytest.fixture(params=["llama", "gpt2", "bert", "deepseek_v3"])
def source(request: pytest.FixtureRequest, make: Make, tmp_path: Path) -> Path:
    return make(request.param).save(tmp_path / "hf")


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


@FORMATS
def test_what_convert_writes_passes(source: Path, tmp_path: Path, kind: str) -> None:
    convert(source, tmp_path / "ms", Options(kind))
    check_folder(source, tmp_path / "ms")


@FORMATS
def test_one_bit_of_any_tensor_shows(source: Path, tmp_path: Path, kind: str) -> None:
    convert(source, tmp_path / "safe")
    names = safetensors.read_header(tmp_path / "safe" / WEIGHTS["safetensors"])
    convert(source, tmp_path / "ms", Options(kind))
    path = tmp_path / "ms" / WEIGHTS[kind]
    whole = path.read_bytes()
    for name, entry in names.items():
        flip(path, whole.index(read(entry).tobytes()) + entry.nbytes - 1)
        with pytest.raises(MindportError, match="differs from the source") as error:
            check_folder(source, tmp_path / "ms")
        assert name in str(error.value)
        path.write_bytes(whole)


@FORMATS
@pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: b + b"\0", lambda b: b""], ids=["cut", "more", "empty"])
def test_another_length_shows(source: Path, tmp_path: Path, kind: str, change: Callable[[bytes], bytes]) -> None:
    convert(source, tmp_path / "ms", Options(kind))
    path = tmp_path / "ms" / WEIGHTS[kind]
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(MindportError, match=r"differs from the source|is broken"):
        check_folder(source, tmp_path / "ms")


@pytest.mark.parametrize(
    ("field", "value"),
    [("hidden_dropout", 0.9), ("eos_token_id", 1), ("init_method_std", 0.5), ("layernorm_epsilon", 0.1)],
)
def test_a_changed_config_shows(source: Path, tmp_path: Path, field: str, value: object) -> None:
    convert(source, tmp_path / "ms")
    path = tmp_path / "ms" / "ms_config.json"
    content = json.loads(path.read_text())
    content["transformer"][field] = value
    path.write_text(json.dumps(content))
    with pytest.raises(MindportError, match=field):
        check_folder(source, tmp_path / "ms")


def test_a_changed_record_of_the_source_shows(source: Path, tmp_path: Path) -> None:
    convert(source, tmp_path / "ms")
    path = tmp_path / "ms" / "ms_config.json"
    content = json.loads(path.read_text())
    content["source"]["config"]["torch_dtype"] = "float64"
    path.write_text(json.dumps(content))
    with pytest.raises(MindportError, match="source"):
        check_folder(source, tmp_path / "ms")


def test_another_model_shows(make: Make, tmp_path: Path) -> None:
    convert(make("gpt2").save(tmp_path / "a"), tmp_path / "ms")
    with pytest.raises(MindportError, match="differs from the source"):
        check_folder(make("llama").save(tmp_path / "b"), tmp_path / "ms")


def test_folders_are_needed(source: Path, tmp_path: Path) -> None:
    convert(source / "config.json", tmp_path / "ms")
    with pytest.raises(MindportError, match="holds no weights"):
        check_folder(source, tmp_path / "ms")
    with pytest.raises(MindportError, match="is not a folder"):
        check_folder(source / "config.json", tmp_path / "ms")
