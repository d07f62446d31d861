"""Folders appear complete or not at all, and what was there before survives every failure."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mindport.checkpoint import publish as module
from mindport.checkpoint.publish import check_free, publish
from mindport.errors import MindportError

from .disks import mounted


def tree(folder: Path) -> dict[str, str]:
    """Every file below a folder, hidden ones included -> its text."""
    return {str(p.relative_to(folder)): p.read_text() for p in sorted(folder.rglob("*")) if p.is_file()}


def write(folder: Path, overwrite: bool = False) -> None:
    with publish(folder, overwrite=overwrite) as work:
        (work / "new").write_text("new")


def test_the_folder_appears_at_the_end(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b" / "out"
    with publish(folder) as work:
        (work / "new").write_text("new")
        assert not folder.exists()
        assert work.parent == folder.parent, "a rename must not cross file systems"
    assert tree(tmp_path) == {"a/b/out/new": "new"}
    assert list(folder.parent.iterdir()) == [folder]
    assert folder.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("error", [ValueError, MindportError, KeyboardInterrupt, SystemExit])
def test_an_exception_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    def fail() -> None:
        with publish(tmp_path / "out") as work:
            (work / "half").write_text("half")
            raise error("stop")

    with pytest.raises(error):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    write(tmp_path / "out")
    assert tree(tmp_path) == {"out/new": "new"}


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "ms_config.json").write_text("old")
    with pytest.raises(MindportError, match="already exists") as error:
        write(tmp_path / "out")
    assert "--overwrite" in error.value.fix
    assert tree(tmp_path) == {"out/ms_config.json": "old"}


@pytest.mark.parametrize("hidden", [".git", ".keep"])
def test_hidden_files_count(tmp_path: Path, hidden: str) -> None:
    (tmp_path / hidden).write_text("x")
    with pytest.raises(MindportError, match="already exists"):
        check_free(tmp_path)


def test_overwriting_replaces_everything(tmp_path: Path) -> None:
    (tmp_path / "out" / "deep").mkdir(parents=True)
    (tmp_path / "out" / "deep" / "old").write_text("old")
    (tmp_path / "out" / "migration.json").write_text("old")
    write(tmp_path / "out", overwrite=True)
    assert tree(tmp_path) == {"out/new": "new"}
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_appears_meanwhile_is_not_replaced(tmp_path: Path, overwrite: bool) -> None:
    def race() -> None:
        with publish(tmp_path / "out", overwrite=overwrite) as work:
            (work / "new").write_text("new")
            (tmp_path / "out").mkdir()
            (tmp_path / "out" / "thesis.tex").write_text("precious")

    with pytest.raises(MindportError):
        race()
    assert tree(tmp_path) == {"out/thesis.tex": "precious"}


def test_a_folder_that_is_not_ours_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("precious")
    with pytest.raises(MindportError, match="not written by Mindport"):
        write(tmp_path / "out", overwrite=True)
    assert tree(tmp_path) == {"out/thesis.tex": "precious"}


def test_overwriting_keeps_the_old_folder_until_the_new_one_is_complete(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "ms_config.json").write_text("old")

    def fail() -> None:
        with publish(tmp_path / "out", overwrite=True) as work:
            (work / "half").write_text("half")
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fail()
    assert tree(tmp_path) == {"out/ms_config.json": "old"}
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", [1, 2])
def test_an_interrupt_within_the_exchange(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, after: bool
) -> None:
    """The old folder or the new one, but nothing else, and never none."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "ms_config.json").write_text("old")
    calls, rename = [], os.rename

    def interrupted(*args: Path) -> None:
        calls.append(args)
        if len(calls) == number and not after:
            raise KeyboardInterrupt
        rename(*args)
        if len(calls) == number:
            raise KeyboardInterrupt

    monkeypatch.setattr(module.os, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "out", overwrite=True)
    found = tree(tmp_path / "out")
    if number == 2 and after:
        assert found.pop(".lock") == ""
        assert found == {"new": "new"}
    else:
        assert found == {"ms_config.json": "old"}
    assert not (tmp_path / ".out.partial").exists()


def test_what_another_process_begins_right_after_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its hidden folder has the same name as ours had until it was published."""
    replace = module._replace

    def then(work: Path, folder: Path) -> None:
        replace(work, folder)
        work.mkdir()
        (work / "theirs").write_text("theirs")

    monkeypatch.setattr(module, "_replace", then)
    write(tmp_path / "out")
    assert tree(tmp_path / ".out.partial") == {"theirs": "theirs"}


@pytest.mark.parametrize("failing", [1, 2])
def test_the_old_folder_comes_back_if_the_exchange_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "ms_config.json").write_text("old")
    calls, rename = [], os.rename

    def broken(*args: Path) -> None:
        calls.append(args)
        if len(calls) == failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        rename(*args)

    monkeypatch.setattr(module.os, "rename", broken)
    with pytest.raises(MindportError, match="could not be written"):
        write(tmp_path / "out", overwrite=True)
    assert tree(tmp_path) == {"out/ms_config.json": "old"}
    assert len(list(tmp_path.iterdir())) == 1


def test_the_old_folder_is_never_deleted_while_the_new_one_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "ms_config.json").write_text("old")
    calls, rename = [], os.rename

    def broken(*args: Path) -> None:
        calls.append(args)
        if len(calls) > 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        rename(*args)

    monkeypatch.setattr(module.os, "rename", broken)
    with pytest.raises(MindportError):
        write(tmp_path / "out", overwrite=True)
    assert "old" in tree(tmp_path).values()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_in_the_way_is_never_replaced(tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "out").write_text("precious")
    with pytest.raises(MindportError, match="is a file") as error:
        write(tmp_path / "out", overwrite=overwrite)
    assert "--overwrite" not in error.value.fix
    assert tree(tmp_path) == {"out": "precious"}


def test_a_link_is_written_through_and_stays(tmp_path: Path) -> None:
    """Again and again: nothing is left that would be in the way."""
    (tmp_path / "disk" / "real").mkdir(parents=True)
    (tmp_path / "disk" / "real" / "ms_config.json").write_text("old")
    (tmp_path / "out").symlink_to("disk/real")
    for _ in range(2):
        write(tmp_path / "out", overwrite=True)
        assert (tmp_path / "out").is_symlink()
        assert tree(tmp_path / "disk") == {"real/new": "new"}
        (tmp_path / "disk" / "real" / "ms_config.json").write_text("old")


@pytest.mark.parametrize("inside", [".", "model", "model/config.json"])
def test_the_source_is_never_overwritten(tmp_path: Path, inside: str) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    with pytest.raises(MindportError, match="holds the source"):
        check_free(tmp_path, overwrite=True, source=tmp_path / inside)
    check_free(tmp_path / "model" / "converted", overwrite=True, source=tmp_path / inside)


def test_the_source_is_recognised_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "link").symlink_to("model")
    with pytest.raises(MindportError, match="holds the source"):
        check_free(tmp_path / "link", overwrite=True, source=tmp_path / "model")


@pytest.mark.parametrize("place", ["file/out", "/proc/mindport/out", "x" * 300, "x" * 250])
def test_places_where_no_folder_can_be_made(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(MindportError, match="could not be written") as error:
        write(tmp_path / place)
    assert error.value.fix
    assert tree(tmp_path) == {"file": "x"}
    assert len(list(tmp_path.iterdir())) == 1


def test_a_parent_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(MindportError, match=r"out could not be written: Permission denied\.") as error:
        write(tmp_path / "out")
    assert error.value.fix
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_parent(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(MindportError, match="Permission denied"):
            write(tmp_path / "out")
        assert list(tmp_path.iterdir()) == []
    finally:
        tmp_path.chmod(0o755)


def test_a_disk_that_fills_up(tmp_path: Path) -> None:
    def fail() -> None:
        with publish(tmp_path / "out") as work:
            (work / "half").write_text("half")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(MindportError, match="out could not be written: No space left on device"):
        fail()
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    with mounted(tmp_path / "disk", "1m") as folder:
        yield folder


def test_a_full_disk(small_disk: Path) -> None:
    def fill() -> None:
        with publish(small_disk / "out") as work:
            (work / "weights").write_bytes(bytes(2 << 20))

    with pytest.raises(MindportError, match="No space left"):
        fill()
    assert list(small_disk.iterdir()) == []
    write(small_disk / "out")
    assert tree(small_disk) == {"out/new": "new"}
