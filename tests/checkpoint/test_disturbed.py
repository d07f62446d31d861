"""Disks that are full, folders that cannot be written, sources that change: one sentence, and nothing is left."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mindport.checkpoint import carry_out
from mindport.checkpoint.convert import convert, plan_conversion
from mindport.checkpoint.export import export
from mindport.checkpoint.options import Options
from mindport.errors import MindportError

from .disks import mounted
from .killing import SHARDED, forked, tree

Make = Callable[..., Any]


@pytest.fixture
def source(make: Make, tmp_path: Path) -> Path:
    folder: Path = make("llama").save(tmp_path / "hf", shards=2)
    return folder


def refused(source: Path, out: Path, match: str, options: Options = SHARDED, **how: Any) -> MindportError:
    """The error of a conversion that leaves everything as it was."""
    before, beside = tree(source), sorted(out.parent.iterdir()) if out.parent.is_dir() else None
    with pytest.raises(MindportError, match=match) as error:
        convert(source, out, options, **how)
    assert "\n" not in str(error.value)
    assert error.value.fix
    assert tree(source) == before
    assert (sorted(out.parent.iterdir()) if out.parent.is_dir() else None) == beside
    return error.value


# --- no room -------------------------------------------------------------------------------------------------------


PAGE = os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KB; the weights have 10 KB, and every other file takes 4."""
    with mounted(tmp_path / "disk", "64k") as folder:
        yield folder


def test_a_full_disk(source: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it becomes full: at the weights, the journal, the configuration or the manifest."""
    monkeypatch.setattr(carry_out, "free_bytes", lambda folder: 1 << 40)
    convert(source, small_disk / "out", Options())
    needed = sum(-(-path.stat().st_size // PAGE) * PAGE for path in (small_disk / "out").iterdir())
    shutil.rmtree(small_disk / "out")
    for free in range(0, needed, PAGE):
        (small_disk / "others").write_bytes(bytes((64 << 10) - free))
        error = refused(source, small_disk / "out", "No space left on device", Options())
        assert "out could not be written" in error.message
    (small_disk / "others").unlink()
    convert(source, small_disk / "out", Options())


def test_a_disk_that_is_too_small_is_noticed_before(source: Path, small_disk: Path) -> None:
    (small_disk / "others").write_bytes(bytes(60 << 10))
    refused(source, small_disk / "out", "are free on its disk", Options())


def test_an_old_folder_survives_a_full_disk(source: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    convert(source, small_disk / "out", Options())
    before = tree(small_disk / "out")
    monkeypatch.setattr(carry_out, "free_bytes", lambda folder: 1 << 40)
    (small_disk / "others").write_bytes(bytes(os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize))
    refused(source, small_disk / "out", "No space left on device", Options(), overwrite=True)
    assert tree(small_disk / "out") == before


def test_a_limit_on_the_size_of_files(source: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mindport", "convert", source, "-o", tmp_path / "out"]
    done = subprocess.run(
        [*map(str, command)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"{tmp_path / 'out'} could not be written: File too large." in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hf"]


@pytest.mark.parametrize("call", ["posix_fallocate", "truncate", "pwrite", "write", "fsync", "rename", "mkdir", "open"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_any_call_may_fail(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int) -> None:
    real, writing = getattr(os, call), tmp_path / "place"
    writing.mkdir()

    def failing(*args: Any, **kwargs: Any) -> Any:
        if call == "open" and not str(args[0]).startswith(str(writing)):
            return real(*args, **kwargs)
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing)
        with pytest.raises(MindportError, match=f"out could not be written: {os.strerror(code)}"):
            convert(source, writing / "out", SHARDED)
    monkeypatch.undo()
    assert [path for path in writing.iterdir() if path.name != ".out.partial" or any(path.iterdir())] == []


def test_a_source_that_cannot_be_read(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken disk under the source is not taken for one under the target."""

    def failing(*args: Any) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "preadv", failing)
    error = refused(source, tmp_path / "out", "could not be read: Input/output error")
    assert str(source) in error.message


# --- targets that cannot be -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["", "nowhere", "out"])
def test_a_read_only_place(source: Path, tmp_path: Path, place: str) -> None:
    """For somebody who is not root: the folder that is to hold the target, one above it, or an existing target."""
    nobody = 65534
    closed = tmp_path / "closed"
    closed.mkdir()
    convert(source, closed / "out", SHARDED)  # also loads what nobody might not be allowed to read
    if place != "out":
        shutil.rmtree(closed / "out")
    for folder in (tmp_path, *tmp_path.parents):
        if not folder.stat().st_mode & 0o001:
            if os.geteuid() != 0 or "pytest" not in str(folder):
                pytest.skip("the folders above cannot be opened for others")
            folder.chmod(0o755)
    for path in source.iterdir():
        path.chmod(0o644)
    closed.chmod(0o555)
    before = tree(closed)
    out = closed / place / "out" if place == "nowhere" else closed / "out"
    read, write = os.pipe()

    def run() -> None:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(nobody)
            os.setuid(nobody)
        try:
            convert(source, out, overwrite=True)
        except MindportError as error:
            os.write(write, str(error).encode())

    assert forked(run) == 0
    os.close(write)
    with open(read, encoding="utf-8") as pipe:
        said = pipe.read()
    closed.chmod(0o755)
    assert said.startswith(f"{out} could not be written: Permission denied.")
    assert tree(closed) == before
    assert sorted(path.name for path in closed.iterdir()) == (["out"] if place == "out" else [])


def test_parents_are_made(source: Path, tmp_path: Path) -> None:
    convert(source, tmp_path / "a" / "b" / "out", SHARDED)
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["out"]


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_is_never_replaced(source: Path, tmp_path: Path, overwrite: bool, resume: bool) -> None:
    (tmp_path / "out").write_text("precious")
    refused(source, tmp_path / "out", "is a file", overwrite=overwrite, resume=resume)
    assert (tmp_path / "out").read_text() == "precious"


def test_a_target_in_the_source(source: Path) -> None:
    """Allowed: nothing of the source is touched, and nothing that is read lies there."""
    before = tree(source)
    convert(source, source / "ms", SHARDED)
    after = tree(source)
    assert {name: content for name, content in after.items() if not name.startswith("ms/")} == before
    refused(source, source, "holds the source", overwrite=True)


@pytest.mark.parametrize("resume", [False, True])
def test_a_source_in_the_target(source: Path, tmp_path: Path, resume: bool) -> None:
    (source.parent / "ms_config.json").write_text("{}")
    refused(source, source.parent, "holds the source", overwrite=True, resume=resume)
    assert source.is_dir()


def test_weights_in_the_target_of_an_export(source: Path, tmp_path: Path) -> None:
    """The weights that are given by themselves are a source as well."""
    convert(source, tmp_path / "ms")
    target = tmp_path / "target"
    convert(source, target)
    before = tree(target)
    with pytest.raises(MindportError, match="holds the source"):
        export(tmp_path / "ms", target, weights=target / "model.safetensors", overwrite=True)
    assert tree(target) == before


# --- sources that change --------------------------------------------------------------------------------------------


def truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 4)


def rewritten(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def longer(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"1234")


def replaced(path: Path) -> None:
    stamps = path.stat()
    path.with_name("new").write_bytes(path.read_bytes())
    os.utime(path.with_name("new"), ns=(stamps.st_atime_ns, stamps.st_mtime_ns))
    path.with_name("new").replace(path)


def removed(path: Path) -> None:
    path.unlink()


CHANGES = [truncated, rewritten, longer, replaced, removed]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("when", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("number", [0, 1])
def test_a_source_that_changes_while_it_is_read(
    source: Path, tmp_path: Path, change: Callable[[Path], None], when: float, number: int
) -> None:
    """Whether its bytes were read already or not. The old folder survives, too."""
    path = sorted(source.glob("*.safetensors"))[number]
    convert(source, tmp_path / "out", Options("ckpt"))
    old, moved, total = tree(tmp_path / "out"), 0, plan_conversion(source).plan.bytes_out
    done = False

    def progress(nbytes: int) -> None:
        nonlocal moved, done
        moved += nbytes
        if not done and moved >= when * total:
            done = True
            change(path)

    with pytest.raises(MindportError, match="changed while it was being read") as error:
        convert(source, tmp_path / "out", SHARDED, overwrite=True, progress=progress)
    assert done
    assert str(path) in error.value.message
    assert tree(tmp_path / "out") == old
    assert sorted(p.name for p in tmp_path.iterdir()) == ["hf", "out"]


@pytest.mark.parametrize("change", CHANGES)
def test_a_source_that_changes_while_its_header_is_read(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]
) -> None:
    """The header is that of before, the weights would be those of after."""
    from mindport.checkpoint import folder as module

    read = module._READERS["safetensors"]

    def reading(path: Path) -> Any:
        entries = read(path)
        change(path)
        return entries

    monkeypatch.setitem(module._READERS, "safetensors", reading)
    with pytest.raises(MindportError, match="changed while it was being read"):
        convert(source, tmp_path / "out", SHARDED)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["hf"]
