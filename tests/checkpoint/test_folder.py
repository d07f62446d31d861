"""Finding a folder's weights: one file, or shards whose index has to be right in both directions, in every format."""

from __future__ import annotations

import json
import random
import zipfile
from pathlib import Path
from typing import Any

import pytest

from mindport.checkpoint import ckpt, safetensors
from mindport.checkpoint.files import read
from mindport.checkpoint.folder import FILES, Found, find_weights
from mindport.errors import MindportError

from .hostile import mutations

VALUE = b"\1\2\3\4"


def write_file(path: Path, *names: str) -> None:
    """A safetensors file with a tensor of four bytes under each name."""
    head, _ = safetensors.make_header([(name, "F32", (1,)) for name in names], {})
    path.write_bytes(head + VALUE * len(names))


def write_torch(path: Path, *names: str, zipped: bool = True) -> None:
    torch = pytest.importorskip("torch")
    tensors = {name: torch.tensor(list(VALUE), dtype=torch.uint8).view(torch.float32) for name in names}
    torch.save(tensors, path, _use_new_zipfile_serialization=zipped)


def write_ckpt(path: Path, *names: str) -> None:
    path.write_bytes(b"".join(head + VALUE for name in names for head, _, _ in ckpt.slices(name, "F32", (1,))))


def write_index(folder: Path, weight_map: Any, name: str = safetensors.INDEX_FILE) -> None:
    (folder / name).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two shards that fit their index."""
    folder = tmp_path / "model"
    folder.mkdir()
    write_file(folder / "1.safetensors", "a", "b")
    write_file(folder / "2.safetensors", "c")
    write_index(folder, {"a": "1.safetensors", "b": "1.safetensors", "c": "2.safetensors"})
    return folder


def refusal(path: Path) -> str:
    with pytest.raises(MindportError) as error:
        find_weights(path)
    assert error.value.fix
    return error.value.message


def where(found: Found) -> dict[str, str]:
    """Tensor -> file, after every value was seen to be right."""
    assert all(read(entry).tobytes() == VALUE for entry in found.entries.values())
    return {name: entry.path.name for name, entry in found.entries.items()}


def test_shards_are_read_as_one(folder: Path) -> None:
    found = find_weights(folder)
    assert where(found) == {"a": "1.safetensors", "b": "1.safetensors", "c": "2.safetensors"}
    assert found.files == (folder / "1.safetensors", folder / "2.safetensors")
    assert (found.format, found.problems, found.stray) == ("safetensors", (), ())
    assert where(find_weights(folder / safetensors.INDEX_FILE)) == where(found)


@pytest.mark.parametrize("zipped", [False, True])
def test_shards_of_torch(tmp_path: Path, zipped: bool) -> None:
    write_torch(tmp_path / "pytorch_model-1.bin", "a", "b", zipped=zipped)
    write_torch(tmp_path / "pytorch_model-2.bin", "c", zipped=zipped)
    shards = {"a": "pytorch_model-1.bin", "b": "pytorch_model-1.bin", "c": "pytorch_model-2.bin"}
    write_index(tmp_path, shards, "pytorch_model.bin.index.json")
    found = find_weights(tmp_path)
    assert (where(found), found.format, found.problems) == (shards, "torch", ())


@pytest.mark.parametrize("wrapped", [False, True])
def test_shards_of_mindspore(folder: Path, wrapped: bool) -> None:
    content = json.loads((folder / safetensors.INDEX_FILE).read_text())
    (folder / "param_name_map.json").write_text(json.dumps(content if wrapped else content["weight_map"]))
    (folder / safetensors.INDEX_FILE).unlink()
    found = find_weights(folder)
    assert (where(found), found.problems) == (content["weight_map"], ())


def test_the_order_is_that_of_transformers(folder: Path) -> None:
    write_ckpt(folder / "model.ckpt", "model.ckpt")
    write_torch(folder / "pytorch_model.bin", "pytorch_model.bin")
    write_torch(folder / "p.bin", "pytorch_model.bin.index.json")
    write_index(folder, {"pytorch_model.bin.index.json": "p.bin"}, "pytorch_model.bin.index.json")
    write_file(folder / "m.safetensors", "param_name_map.json")
    write_index(folder, {"param_name_map.json": "m.safetensors"}, "param_name_map.json")
    write_file(folder / "i.safetensors", safetensors.INDEX_FILE)
    write_index(folder, {safetensors.INDEX_FILE: "i.safetensors"})
    write_file(folder / safetensors.SINGLE_FILE, safetensors.SINGLE_FILE)
    for name in FILES:
        assert list(find_weights(folder).entries) == [name]
        (folder / name).unlink()


@pytest.mark.parametrize(
    ("name", "write", "kind"),
    [
        ("x.safetensors", write_file, "safetensors"),
        ("x.bin", write_torch, "torch"),
        ("x.pt", write_torch, "torch"),
        ("x.pth", write_torch, "torch"),
        ("x.ckpt", write_ckpt, "ckpt"),
        ("lightning.ckpt", write_torch, "torch"),
        ("x.bin", write_file, "safetensors"),
        ("x.pt", lambda path, *names: write_torch(path, *names, zipped=False), "torch"),
    ],
)
def test_a_single_file_whatever_it_is_called(tmp_path: Path, name: str, write: Any, kind: str) -> None:
    write(tmp_path / name, "a", "b")
    for stray in ("optimizer.pt", "training_args.bin", "adapter_model.safetensors", ".hidden.bin"):
        (tmp_path / stray).write_bytes(b"")
    found = find_weights(tmp_path)
    assert where(found) == {"a": name, "b": name}
    assert (found.format, found.files) == (kind, (tmp_path / name,))
    assert found.stray == ("adapter_model.safetensors", "optimizer.pt", "training_args.bin")
    assert find_weights(tmp_path / name).stray == ()
    (tmp_path / name).rename(tmp_path / "no_suffix")
    assert where(find_weights(tmp_path / "no_suffix")) == {"a": "no_suffix", "b": "no_suffix"}


def test_several_candidates_are_listed(tmp_path: Path) -> None:
    write_file(tmp_path / "model-00001-of-00002.safetensors", "a")
    write_file(tmp_path / "model-00002-of-00002.safetensors", "b")
    message = refusal(tmp_path)
    assert "model-00001-of-00002.safetensors" in message
    assert "model-00002-of-00002.safetensors" in message


def test_files_that_are_not_read_are_named(folder: Path) -> None:
    strays = ("adapter_model.safetensors", "consolidated.00.pth", "model-00009-of-00009.safetensors", "optimizer.pt")
    for name in (*strays, "vocab.txt"):
        write_file(folder / name, "a", "d")
    found = find_weights(folder)
    assert set(found.entries) == {"a", "b", "c"}
    assert found.stray == strays


def test_an_empty_folder_says_how_to_save(tmp_path: Path) -> None:
    assert "model.safetensors" in refusal(tmp_path)
    (tmp_path / "optimizer.pt").write_bytes(b"")
    assert "model.safetensors" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer"),
        (b"", "truncated"),
        (b"\x93NUMPY", "truncated"),
    ],
)
def test_files_that_are_something_else(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / safetensors.SINGLE_FILE).write_bytes(content)
    assert reason in refusal(tmp_path)
    (tmp_path / "x").write_bytes(content)
    assert reason in refusal(tmp_path / "x") or "none of the formats" in refusal(tmp_path / "x")


def test_a_path_that_does_not_exist(tmp_path: Path) -> None:
    for name in ("x", "x" * 5000, "x\0y", "x/y.bin", "x.json"):
        refusal(tmp_path / name)


# --- an index and its shards -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weight_map", "problems"),
    [
        (
            {"a": "1.safetensors", "c": "2.safetensors"},
            {"b": "is in 1.safetensors, and the index does not know it"},
        ),
        (
            {"a": "1.safetensors", "b": "1.safetensors", "c": "2.safetensors", "d": "2.safetensors"},
            {"d": "is not in 2.safetensors as the index says"},
        ),
        (
            {"a": "2.safetensors", "b": "1.safetensors", "c": "1.safetensors", "d": "1.safetensors"},
            {
                "a": "is in 1.safetensors, not in '2.safetensors' as the index says",
                "c": "is in 2.safetensors, not in '1.safetensors' as the index says",
                "d": "is not in 1.safetensors as the index says",
            },
        ),
    ],
)
def test_index_and_shards_are_compared_both_ways(
    folder: Path, weight_map: dict[str, str], problems: dict[str, str]
) -> None:
    write_index(folder, weight_map)
    assert dict(find_weights(folder).problems) == problems


def test_every_problem_is_collected(folder: Path) -> None:
    write_file(folder / "3.safetensors", "b", "x")
    (folder / "4.safetensors").write_bytes(b"broken")
    shards = {"a": 1, "b": 1, "c": 2, "x": 3, "d": 4, "e": 5, "f": 5}
    write_index(folder, {**{name: f"{number}.safetensors" for name, number in shards.items()}, "g": "../g.safetensors"})
    problems = find_weights(folder).problems
    assert {name for name, _ in problems} == {"b", "4.safetensors", "5.safetensors", "../g.safetensors"}
    assert len(problems) == 4
    text = dict(problems)
    assert text["b"] == "is in 1.safetensors and in 3.safetensors"
    assert "truncated" in text["4.safetensors"]
    assert "does not exist" in text["5.safetensors"]


def test_shards_of_several_formats(folder: Path) -> None:
    write_torch(folder / "2.safetensors", "c")
    assert [name for name, _ in find_weights(folder).problems] == [safetensors.INDEX_FILE]


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
        "..\\1.safetensors",
    ],
)
def test_a_shard_outside_the_folder_is_not_read(folder: Path, shard: str) -> None:
    write_file(folder.parent / "1.safetensors", "a", "b")
    write_index(folder, {"a": shard, "b": shard, "c": "2.safetensors"})
    found = find_weights(folder)
    assert set(found.entries) == {"c"}
    assert found.problems == ((shard, "the index names a shard that is not a plain file name"),)


@pytest.mark.parametrize("shard", ["x" * 5000, "1\0.safetensors", "1.safetensors ", "..."])
def test_a_shard_name_no_file_can_have(folder: Path, shard: str) -> None:
    write_index(folder, {"a": shard, "b": shard, "c": "2.safetensors"})
    assert [name for name, _ in find_weights(folder).problems] == [shard]


@pytest.mark.parametrize(
    "weight_map", [None, 3, [], {}, "1.safetensors", {"a": 3}, {"a": None}, {"a": ["1.safetensors"]}]
)
def test_a_weight_map_of_the_wrong_type(folder: Path, weight_map: Any) -> None:
    write_index(folder, weight_map)
    assert "weight_map" in refusal(folder)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff\xfe", b'{"weight_map": ' * 100_000, b"{}"])
def test_an_index_that_is_not_one(folder: Path, content: bytes) -> None:
    (folder / safetensors.INDEX_FILE).write_bytes(content)
    assert safetensors.INDEX_FILE in refusal(folder)


def test_a_tensor_with_two_shards_in_the_index(folder: Path) -> None:
    (folder / safetensors.INDEX_FILE).write_text('{"weight_map": {"a": "1.safetensors", "a": "2.safetensors"}}')
    assert "'a' more than once" in refusal(folder)


def fuzz(folder: Path, count: int, seed: int) -> int:
    """Mutated indexes and files under any name. Returns how many were read without a problem."""
    index = folder / safetensors.INDEX_FILE
    accepted = 0
    for content in mutations(index.read_bytes(), count // 2, seed):
        index.write_bytes(content)
        accepted += quietly(folder)
    rng = random.Random(seed)
    write_torch(folder / "z.pt", "a")
    write_torch(folder / "l.pt", "a", zipped=False)
    write_ckpt(folder / "m.ckpt", "a")
    wholes = [(folder / name).read_bytes() for name in ("1.safetensors", "z.pt", "l.pt", "m.ckpt")]
    for whole in wholes:
        for content in mutations(whole, count // 8, seed):
            path = folder / f"x{rng.choice(('.bin', '.pt', '.ckpt', '.safetensors', ''))}"
            path.write_bytes(content)
            accepted += quietly(path)
            path.unlink()
    return accepted


def quietly(path: Path) -> bool:
    """Whether weights were found; anything but a MindportError is passed on."""
    try:
        return not find_weights(path).problems
    except MindportError:
        return False


def test_mutated_folders_are_read_or_refused(folder: Path) -> None:
    assert fuzz(folder, 400, 0) > 20


@pytest.mark.slow
def test_many_mutated_folders(folder: Path) -> None:
    accepted = fuzz(folder, 20_000, 1000)
    print(f"20000 folders and files tried, {accepted} read, the others refused")


def test_a_zip_bomb_is_refused_unopened(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.bin", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("x/data.pkl", bytes(100 << 20))
    assert (tmp_path / "x.bin").stat().st_size < 1 << 20
    assert "compressed" in refusal(tmp_path)
