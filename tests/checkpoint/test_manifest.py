"""The manifest of a folder: what it records, and that no change of the folder passes it."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash

from mindport.checkpoint import recheck as module
from mindport.checkpoint.convert import convert
from mindport.checkpoint.export import export
from mindport.checkpoint.files import read
from mindport.checkpoint.folder import find_weights
from mindport.checkpoint.manifest import FILE_NAME
from mindport.checkpoint.options import Options
from mindport.checkpoint.recheck import check_manifest
from mindport.errors import MindportError

Make = Callable[..., Any]

KINDS = {"one file": Options(), "shards": Options(shard_bytes=1500), "ckpt": Options("ckpt")}


@pytest.fixture(scope="module", params=KINDS)
def finished(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from .conftest import llama

    folder = tmp_path_factory.mktemp("finished")
    source = llama().save(folder / "hf")
    (source / "tokenizer.json").write_text('{"model": 1}')
    (source / "1_Pooling").mkdir()
    (source / "1_Pooling" / "config.json").write_text("{}")
    convert(source, folder / "ms", KINDS[request.param])
    return folder / "ms"


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "ms")
    return tmp_path / "ms"


def others(folder: Path) -> list[Path]:
    """All files but the manifest."""
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != FILE_NAME]


def test_a_finished_folder_passes(finished: Path) -> None:
    report = check_manifest(finished)
    found = find_weights(finished)
    assert report.tensors == len(found.entries)
    assert report.nbytes == sum(entry.nbytes for entry in found.entries.values())


def test_checksums_of_every_tensor(finished: Path) -> None:
    manifest = json.loads((finished / FILE_NAME).read_text())
    written = {name: digest for file in manifest["weights"].values() for name, digest in file["tensors"].items()}
    source = {name: xxhash.xxh3_128_hexdigest(read(entry).tobytes()) for name, entry in _entries(finished).items()}
    assert written == source
    wanted = _entries(finished.parent / "hf")
    assert manifest["source"]["tensors"] == {
        name: xxhash.xxh3_128_hexdigest(read(entry).tobytes()) for name, entry in wanted.items()
    }


def _entries(folder: Path) -> dict[str, Any]:
    return find_weights(folder).entries


def test_one_bit_anywhere(copy: Path) -> None:
    """In the first bytes of each file one after the other, then here and there."""
    rng = random.Random(1)
    for path in others(copy):
        content = path.read_bytes()
        places = {*range(min(40, len(content))), len(content) - 1, *rng.choices(range(len(content)), k=40)}
        for place in places:
            changed = bytearray(content)
            changed[place] ^= 1 << rng.randrange(8)
            path.write_bytes(changed)
            with pytest.raises(MindportError) as error:
                check_manifest(copy)
            assert error.value.message
        path.write_bytes(content)
    check_manifest(copy)


def test_the_header_alone(copy: Path) -> None:
    """Names, dtypes and shapes that were changed, though every tensor still has its bytes."""
    tried = 0
    for path in find_weights(copy).files:
        content = path.read_bytes()
        for old, new in ((b'"F32"', b'"I32"'), (b"[11,8]", b"[8,11]"), (b'"ms"', b'"pt"'), (b"Float32", b"Int32\0\0")):
            if old in content:
                path.write_bytes(content.replace(old, new, 1))
                with pytest.raises(MindportError):
                    check_manifest(copy)
                tried += 1
        path.write_bytes(content)
    assert tried


def test_a_file_that_is_missing(copy: Path) -> None:
    for path in others(copy):
        content = path.read_bytes()
        path.unlink()
        with pytest.raises(MindportError, match="is not as its manifest says in 1 place") as error:
            check_manifest(copy)
        assert path.name in error.value.message
        path.write_bytes(content)


@pytest.mark.parametrize("cut", [0, 1, 0.5])
def test_a_file_that_is_cut(copy: Path, cut: float) -> None:
    for path in others(copy):
        content = path.read_bytes()
        path.write_bytes(content[: int(cut * len(content)) if cut < 1 else -1])
        with pytest.raises(MindportError, match="is not as its manifest says"):
            check_manifest(copy)
        path.write_bytes(content)


def test_a_file_that_is_longer(copy: Path) -> None:
    for path in others(copy):
        content = path.read_bytes()
        path.write_bytes(content + b" ")
        with pytest.raises(MindportError, match="is not as its manifest says"):
            check_manifest(copy)
        path.write_bytes(content)


def test_a_tensor_too_many_or_too_few(copy: Path) -> None:
    numpy_format = pytest.importorskip("safetensors.numpy")
    path = find_weights(copy).files[0]
    if path.suffix != ".safetensors":
        pytest.skip("is written by hand")
    tensors = numpy_format.load_file(path)
    for changed in (tensors | {"extra": np.zeros(1, np.float32)}, dict([*tensors.items()][1:])):
        numpy_format.save_file(changed, path, metadata={"format": "ms"})
        record = json.loads((copy / FILE_NAME).read_text())
        record["weights"][path.name]["nbytes"] = path.stat().st_size  # so that it is not the size that gives it away
        (copy / FILE_NAME).write_text(json.dumps(record))
        with pytest.raises(MindportError, match="is not as its manifest says"):
            check_manifest(copy)


def test_two_tensors_that_were_exchanged(copy: Path) -> None:
    entries = _entries(copy)
    one, two = entries["layer.0.mlp.gate.weight"], entries["layer.0.mlp.up.weight"]
    first, second = read(one).tobytes(), read(two).tobytes()
    for entry, content in ((one, second), (two, first)):
        with entry.path.open("r+b") as file:
            file.seek(entry.offset)
            file.write(content)
    with pytest.raises(MindportError, match="in 2 places"):
        check_manifest(copy)


def test_weights_that_hide_the_others(copy: Path) -> None:
    """A stray file that a reader would take for the weights."""
    if (copy / "model.safetensors").exists():
        pytest.skip("nothing comes before it")
    shutil.copyfile(find_weights(copy).files[0], copy / "model.safetensors")
    with pytest.raises(MindportError):
        check_manifest(copy)


def put(*keys: str, value: object) -> Callable[[dict[str, Any]], object]:
    def change(manifest: dict[str, Any]) -> object:
        inner: Any = manifest
        for key in keys[:-1]:
            inner = inner[key] if key != "*" else next(iter(inner.values()))
        inner[keys[-1] if keys[-1] != "*" else next(iter(inner))] = value
        return manifest

    return change


HOSTILE: list[Callable[[dict[str, Any]], object]] = [
    lambda manifest: [],
    lambda manifest: {},
    lambda manifest: None,
    *(
        put(key, value=value)
        for key in ("mindport", "weights", "files")
        for value in (None, 1, "x", [], [[]], {"a": {}})
    ),
    put("mindport", "format", value=2),
    put("checksum", value="sha1"),
    put("checksum", value=[]),
    *(put("weights", "*", value=value) for value in (None, 1, "x", [], {})),
    *(
        put("weights", "*", "nbytes", value=v)
        for v in (None, "x", [], {}, 1e999, -1, 10**300, "9" * 4000, float("nan"))
    ),
    *(put("weights", "*", "tensors", value=value) for value in (None, 1, "x", [], {})),
    *(put("weights", "*", "tensors", "*", value=value) for value in (None, 1, "x", [], {}, "0" * 32)),
    *(put("weights", "*", "frames", value=value) for value in (None, 1, [], {}, "0" * 32)),
    *(put("files", "*", value=value) for value in (None, 1, [], {}, "0" * 32)),
    *(
        put(where, name, value={"nbytes": 1, "frames": "", "tensors": {}} if where == "weights" else "x")
        for where in ("weights", "files")
        for name in ("", ".", "..", "../x", "a/../../x", "/etc/passwd", "/dev/zero", "a\0b", "x" * 300, "./x", "a//b")
    ),
]


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_a_manifest_that_is_none(copy: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """One error, and no file is opened that is not in the folder."""
    record = HOSTILE[number](json.loads((copy / FILE_NAME).read_text()))
    (copy / FILE_NAME).write_text(json.dumps(record))
    digest = module.file_digest

    def inside(path: Path) -> str | None:
        assert path.resolve().is_relative_to(copy.resolve())
        return digest(path)

    monkeypatch.setattr(module, "file_digest", inside)
    with pytest.raises(MindportError) as error:
        check_manifest(copy)
    assert len(str(error.value)) < 500
    assert error.value.fix


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff", b"[" * 100_000, b'{"weights": ' * 1000, b" " * (65 << 20)], ids=lambda c: str(c[:9])
)
def test_a_manifest_that_is_no_json(copy: Path, content: bytes) -> None:
    (copy / FILE_NAME).write_bytes(content)
    with pytest.raises(MindportError):
        check_manifest(copy)


def test_a_folder_without_one(copy: Path) -> None:
    (copy / FILE_NAME).unlink()
    with pytest.raises(MindportError, match="does not exist"):
        check_manifest(copy)


def test_of_an_exported_folder(finished: Path, tmp_path: Path) -> None:
    export(finished, tmp_path / "back", Options(shard_bytes=2000))
    assert check_manifest(tmp_path / "back").tensors == len(_entries(finished.parent / "hf"))
