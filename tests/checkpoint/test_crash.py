"""A conversion is done or not done, never half: killed in any of its calls, and gone on with."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mindport.checkpoint.convert import convert
from mindport.checkpoint.meeting import Meeting, RankGoneError
from mindport.checkpoint.options import Options
from mindport.checkpoint.safetensors import read_header
from mindport.errors import MindportError

from .killing import SHARDED, Killer, Place, forked, tree

Make = Callable[..., Any]


@pytest.fixture
def place(make: Make, tmp_path: Path) -> Place:
    source = make("llama").save(tmp_path / "hf", shards=2)
    (source / "tokenizer.json").write_text("{}")
    (source / "1_Pooling").mkdir()
    (source / "1_Pooling" / "config.json").write_text("{}")
    (tmp_path / "place").mkdir()
    out = tmp_path / "place" / "out"
    convert(source, out, Options("ckpt"))
    old = tree(out)
    convert(source, out, SHARDED, overwrite=True)
    return Place(source, out, tree(out), tree(source), old)


# --- killed before each call ---------------------------------------------------------------------------------------


def killed(place: Place, number: int, *, overwrite: bool, half: bool) -> bool:
    """Convert in a child that is killed in its call `number`; False if it came to its end before."""

    def run() -> None:
        Killer(number, half=half).watch()
        convert(place.source, place.out, SHARDED, overwrite=overwrite)

    return forked(run) == signal.SIGKILL


def calls_of(place: Place, monkeypatch: pytest.MonkeyPatch, *, overwrite: bool) -> list[str]:
    """The calls of a conversion that nobody disturbs."""
    place.reset(overwrite=overwrite)
    killer = Killer(0)
    with monkeypatch.context() as patch:
        killer.watch(patch.setattr)
        convert(place.source, place.out, SHARDED, overwrite=overwrite)
    return killer.calls


@pytest.mark.parametrize("overwrite", [False, True])
def test_killed_in_any_call(place: Place, monkeypatch: pytest.MonkeyPatch, overwrite: bool) -> None:
    """Of each kind of call the first, the last and some between; those of the publication all."""
    calls = calls_of(place, monkeypatch, overwrite=overwrite)
    assert {"posix_fallocate", "pwrite", "write", "write_text", "copyfile", "fsync", "rename", "unlink"} <= {*calls}
    kinds = {name: [n for n, call in enumerate(calls, 1) if call == name] for name in calls}
    numbers = {n for places in kinds.values() for n in (places[0], places[len(places) // 2], places[-1])}
    numbers |= {*range(len(calls) - 4, len(calls) + 1)}
    for turn, number in enumerate(sorted(numbers)):
        place.reset(overwrite=overwrite)
        assert killed(place, number, overwrite=overwrite, half=turn % 2 == 1)
        place.goes_on(overwrite=overwrite, resume=turn % 3 != 0)


@pytest.mark.slow
@pytest.mark.parametrize("resume", [True, False])
@pytest.mark.parametrize("overwrite", [False, True])
def test_killed_in_every_call(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], overwrite: bool, resume: bool
) -> None:
    calls = calls_of(place, monkeypatch, overwrite=overwrite)
    tried = 0
    for half in (False, True):
        for number, call in enumerate(calls, 1):
            if half and call not in ("pwrite", "write", "write_text"):
                continue
            place.reset(overwrite=overwrite)
            assert killed(place, number, overwrite=overwrite, half=half)
            place.goes_on(overwrite=overwrite, resume=resume)
            tried += 1
    assert tried > 100
    with capsys.disabled():
        print(f"\nkills in every call: tried {tried}, lost 0")


def test_killed_again_and_again(place: Place) -> None:
    """Each run is killed a little later than the one before, and goes on with what that one left."""
    place.reset(overwrite=False)

    def run(number: int) -> int:
        def action() -> None:
            Killer(number).watch()
            convert(place.source, place.out, SHARDED, resume=True)

        return forked(action)

    kills = 0
    while not place.check(overwrite=False):
        assert run(10 + 9 * kills) or place.out.exists()
        kills += 1
    assert kills > 3


# --- going on --------------------------------------------------------------------------------------------------------


def partial_of(place: Place, call: str = "pwrite", part: float = 0.7, *, half: bool = False) -> Path:
    """What a run leaves that is killed after a part of its calls of a kind."""
    place.reset(overwrite=False)
    with pytest.MonkeyPatch.context() as patch:
        calls = calls_of(place, patch, overwrite=False)
    numbers = [n for n, name in enumerate(calls, 1) if name == call]
    place.reset(overwrite=False)
    assert killed(place, numbers[int(part * (len(numbers) - 1))], overwrite=False, half=half)
    work = place.out.with_name(".out.partial")
    assert work.is_dir()
    return work


def written(place: Place, monkeypatch: pytest.MonkeyPatch, *, resume: bool = True) -> list[str]:
    """Names of the tensors that a run writes."""
    from mindport.checkpoint.journal import Done, Journal

    names: list[str] = []
    add = Journal.add

    def noted(journal: Journal, tensor: str, done: Done) -> None:
        names.append(tensor)
        add(journal, tensor, done)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "add", noted)
        place.goes_on(overwrite=False, resume=resume)
    return names


def journaled(work: Path) -> list[str]:
    lines = (work / ".journal-0").read_bytes().split(b"\n")[1:-1]
    return [json.loads(line)["tensor"] for line in lines]


def test_only_what_is_missing_is_written(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    done = journaled(partial_of(place))
    names = written(place, monkeypatch)
    assert done
    assert names
    assert not {*done} & {*names}


def test_without_resume_everything_is_written_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    done = journaled(partial_of(place))
    assert {*done} < {*written(place, monkeypatch, resume=False)}


@pytest.mark.parametrize("cut", [1, 10, 60])
def test_a_journal_that_ends_within_a_line(place: Place, monkeypatch: pytest.MonkeyPatch, cut: int) -> None:
    work = partial_of(place)
    *_, last = journaled(work)
    content = (work / ".journal-0").read_bytes()
    (work / ".journal-0").write_bytes(content[:-cut])
    assert last in written(place, monkeypatch)


@pytest.mark.parametrize("line", [b"\0" * 40, b"1", b"[]", b"null", b"\xff\xfe"])
def test_a_journal_with_a_line_that_is_none(place: Place, line: bytes) -> None:
    """As a file system may leave it after the power failed: what follows does not count either."""
    work = partial_of(place)
    lines = (work / ".journal-0").read_bytes().split(b"\n")
    lines[2] = line
    (work / ".journal-0").write_bytes(b"\n".join(lines))
    place.goes_on(overwrite=False, resume=True)


def test_a_tensor_that_was_damaged_meanwhile(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    work = partial_of(place)
    name, *_ = journaled(work)
    entry = next(found[name] for path in work.glob("*.safetensors") if name in (found := read_header(path)))
    content = bytearray(entry.path.read_bytes())
    content[entry.offset + entry.nbytes - 1] ^= 1
    entry.path.write_bytes(content)
    assert name in written(place, monkeypatch)


def test_a_file_that_is_gone_meanwhile(place: Place) -> None:
    work = partial_of(place)
    next(work.glob("*.safetensors")).unlink()
    place.goes_on(overwrite=False, resume=True)


@pytest.mark.parametrize("other", [Options(), Options(shard_bytes=900), Options("ckpt")])
def test_another_conversion_is_not_gone_on_with(place: Place, other: Options) -> None:
    """And nothing of it is lost by the refusal."""
    before = tree(partial_of(place))
    with pytest.raises(MindportError, match="is another conversion, or its source has changed"):
        convert(place.source, place.out, other, resume=True)
    assert tree(place.out.with_name(".out.partial")) == before
    place.goes_on(overwrite=False, resume=True)


def test_a_source_that_changed_between(place: Place) -> None:
    partial_of(place)
    path = sorted(place.source.glob("*.safetensors"))[0]
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(MindportError, match="is another conversion, or its source has changed"):
        convert(place.source, place.out, SHARDED, resume=True)
    convert(place.source, place.out, SHARDED)
    assert tree(place.out) != place.wanted


def test_resume_with_nothing_there(place: Place) -> None:
    place.reset(overwrite=False)
    place.goes_on(overwrite=False, resume=True)


@pytest.mark.parametrize(("call", "part"), [("write_text", 1.0), ("copyfile", 1.0), ("unlink", 0.0)])
def test_nothing_of_another_run_comes_along(place: Place, call: str, part: float) -> None:
    """A run that was killed when its weights were complete, and then a resumed one whose folder has other files."""
    partial_of(place, call, part)
    (place.source / "tokenizer.json").unlink()
    shutil.rmtree(place.source / "1_Pooling")
    convert(place.source, place.out, SHARDED, resume=True)
    assert {*place.wanted} - {*tree(place.out)} == {"tokenizer.json", "1_Pooling/config.json"}


def test_weights_without_a_journal_do_not_come_along(place: Place) -> None:
    work = partial_of(place, "write_text", 1.0)
    (work / ".journal-0").unlink()
    convert(place.source, place.out, Options(), resume=True)
    assert sorted(path.name for path in place.out.glob("*.safetensors*")) == ["model.safetensors"]


def test_a_refused_run_leaves_what_was_begun(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk on which others have filled what is missing."""
    from mindport.checkpoint import carry_out

    before = tree(partial_of(place))
    with monkeypatch.context() as patch:
        patch.setattr(carry_out, "free_bytes", lambda folder: -(10**9))
        with pytest.raises(MindportError, match="are free on its disk"):
            convert(place.source, place.out, SHARDED, resume=True)
    assert tree(place.out.with_name(".out.partial")) == before


@pytest.mark.parametrize(("error", "kept"), [(RankGoneError, True), (KeyboardInterrupt, True), (MindportError, False)])
def test_what_may_go_on_is_kept(place: Place, monkeypatch: pytest.MonkeyPatch, error: type, kept: bool) -> None:
    """What was done is right if only another rank is gone."""
    place.reset(overwrite=False)

    def gone(*_: object) -> None:
        raise error("gone")

    with monkeypatch.context() as patch:
        patch.setattr(Meeting, "results", gone)
        with pytest.raises(error, match="gone"):
            convert(place.source, place.out, SHARDED)
    assert place.out.with_name(".out.partial").exists() == kept
    assert bool(written(place, monkeypatch)) == (not kept)


def test_killed_between_the_two_renames(place: Place) -> None:
    """The old folder comes back before anything else is decided; a run that may not replace it says so at once."""
    place.reset(overwrite=True)
    with pytest.MonkeyPatch.context() as patch:
        calls = calls_of(place, patch, overwrite=True)
    second = [n for n, name in enumerate(calls, 1) if name == "rename"][1]
    place.reset(overwrite=True)
    assert killed(place, second, overwrite=True, half=False)
    assert not place.out.exists()
    with pytest.raises(MindportError, match="already exists"):
        convert(place.source, place.out, SHARDED, resume=True)
    assert tree(place.out) == place.old
    place.goes_on(overwrite=True, resume=True)


def test_an_empty_folder_is_no_reason_to_drop_the_old_one(place: Place) -> None:
    place.reset(overwrite=True)
    place.out.rename(place.out.with_name(".out.mindport-old"))
    place.out.mkdir()
    with pytest.raises(MindportError, match="already exists"):
        convert(place.source, place.out, SHARDED)
    assert tree(place.out) == place.old


def test_two_at_once(place: Place) -> None:
    """The second is refused, and the first does not notice."""
    place.reset(overwrite=False)
    refused: list[str] = []

    def progress(_: int) -> None:
        if not refused:
            for resume in (False, True):
                with pytest.raises(MindportError, match="Another process is writing") as error:
                    convert(place.source, place.out, SHARDED, resume=resume)
                refused.append(str(error.value))

    convert(place.source, place.out, SHARDED, progress=progress)
    assert len(refused) == 2
    assert tree(place.out) == place.wanted


def test_everything_is_on_the_disk_before_the_folder_has_its_name(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.reset(overwrite=False)
    flushed: set[int] = set()
    at_rename: set[int] = set()
    fsync, rename = os.fsync, os.rename

    def noted_fsync(file: int) -> None:
        flushed.add(os.fstat(file).st_ino)
        fsync(file)

    def noted_rename(source: Path, target: Path) -> None:
        at_rename.update(flushed)
        rename(source, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "rename", noted_rename)
    convert(place.source, place.out, SHARDED)
    assert {path.stat().st_ino for path in (place.out, *place.out.rglob("*"))} <= at_rename
    assert place.out.parent.stat().st_ino in flushed
