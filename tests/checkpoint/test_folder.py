"""Model folders: one file, or shards whose index has to be right in both directions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mindport.checkpoint import safetensors
from mindport.errors import MindportError


def write_file(path: Path, *names: str, value: bytes = b"\1\2\3\4") -> None:
    head, _ = safetensors.make_header([(name, "F32", (1,)) for name in names], {})
    path.write_bytes(head + value * len(names))


def write_index(folder: Path, weight_map: Any) -> None:
    (folder / safetensors.INDEX_FILE).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two shards that fit their index."""
    write_file(tmp_path / "1.safetensors", "a", "b")
    write_file(tmp_path / "2.safetensors", "c")
    write_index(tmp_path, {"a": "1.safetensors", "b": "1.safetensors", "c": "2.safetensors"})
    return tmp_path


def refusal(folder: Path) -> str:
    with pytest.raises(MindportError) as error:
        safetensors.read_folder(folder)
    assert error.value.fix
    return error.value.message


def test_shards_are_read_as_one(folder: Path) -> None:
    entries = safetensors.read_folder(folder)
    assert {name: entry.path.name for name, entry in entries.items()} == {
        "a": "1.safetensors",
        "b": "1.safetensors",
        "c": "2.safetensors",
    }


def test_a_shard_the_index_does_not_name_is_stale_and_not_read(folder: Path) -> None:
    write_file(folder / "3.safetensors", "a", "d")
    assert set(safetensors.read_folder(folder)) == {"a", "b", "c"}


def test_a_single_file_comes_before_an_index_as_in_transformers(folder: Path) -> None:
    write_file(folder / safetensors.SINGLE_FILE, "only")
    assert set(safetensors.read_folder(folder)) == {"only"}


def test_an_empty_folder_says_how_to_save(tmp_path: Path) -> None:
    assert "model.safetensors" in refusal(tmp_path)


def test_a_missing_shard(folder: Path) -> None:
    (folder / "2.safetensors").unlink()
    assert "2.safetensors does not exist" in refusal(folder)


def test_a_broken_shard(folder: Path) -> None:
    content = (folder / "2.safetensors").read_bytes()
    (folder / "2.safetensors").write_bytes(content[:-1])
    assert "2.safetensors is broken: it is truncated" in refusal(folder)


@pytest.mark.parametrize(
    ("weight_map", "wrong"),
    [
        ({"a": "1.safetensors", "c": "2.safetensors"}, "1 tensors are not where it says, the first is 'b'"),
        (
            {"a": "1.safetensors", "b": "1.safetensors", "c": "2.safetensors", "d": "2.safetensors"},
            "1 tensors are not where it says, the first is 'd'",
        ),
        (
            {"a": "2.safetensors", "b": "1.safetensors", "c": "1.safetensors"},
            "2 tensors are not where it says, the first is 'a'",
        ),
    ],
)
def test_index_and_shards_are_compared_both_ways(folder: Path, weight_map: dict[str, str], wrong: str) -> None:
    write_index(folder, weight_map)
    assert wrong in refusal(folder)


def test_a_tensor_in_two_shards(folder: Path) -> None:
    write_file(folder / "2.safetensors", "b", "c")
    assert "tensor 'b' is in two shards" in refusal(folder)


@pytest.mark.parametrize(
    "shard",
    [
        "../1.safetensors",
        "/etc/passwd",
        "x/1.safetensors",
        "./1.safetensors",
        "",
        ".",
        "..",
        "1.safetensors/",
        "x/../1.safetensors",
    ],
)
def test_a_shard_outside_the_folder_is_refused(folder: Path, shard: str) -> None:
    write_file(folder.parent / "1.safetensors", "a", "b")
    write_index(folder, {"a": shard, "b": shard, "c": "2.safetensors"})
    assert "not a plain file name" in refusal(folder)


@pytest.mark.parametrize("shard", ["x" * 5000, "1\0.safetensors", "1.safetensors ", "..."])
def test_a_shard_name_no_file_can_have(folder: Path, shard: str) -> None:
    write_index(folder, {"a": shard, "b": shard, "c": "2.safetensors"})
    assert "does not exist" in refusal(folder)


@pytest.mark.parametrize("weight_map", [None, 3, [], "1.safetensors", {"a": 3}, {"a": None}, {"a": ["1.safetensors"]}])
def test_a_weight_map_of_the_wrong_type(folder: Path, weight_map: Any) -> None:
    write_index(folder, weight_map)
    assert "weight_map" in refusal(folder)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff\xfe", b'{"weight_map": ' * 100_000, b"{}"])
def test_an_index_that_is_not_one(folder: Path, content: bytes) -> None:
    (folder / safetensors.INDEX_FILE).write_bytes(content)
    assert safetensors.INDEX_FILE in refusal(folder)
