"""Folders that appear complete or not at all."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mindport.errors import MindportError
from mindport.i18n import tr

OURS = ("ms_config.json", "migration.json", "mindport_manifest.json")
"""Files of which every folder that may be replaced holds one: a converted model, a report, an exported model."""

_LOCK = ".lock"


@contextmanager
def publish(folder: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A temporary sibling to work in, renamed to `folder` when the block ends and removed when it fails.

    Args:
        folder: what should exist afterwards.
        overwrite: replace a folder that exists; without it an existing folder that holds anything is refused.

    Raises:
        MindportError: the folder exists, is being written by another process, or cannot be made.
    """
    work = Work(folder, overwrite=overwrite)
    try:
        yield work.path
        work.publish()
    except OSError as error:
        raise unwritable(folder, error) from error
    finally:
        work.close()


class Work:
    """A hidden sibling of a folder, `.NAME.partial`, in which the folder is made ready.

    It is locked, so that two processes never write one folder; what a killed process left behind is taken over.

    Args:
        folder: what should exist afterwards.
        overwrite: replace a folder that exists.
        resume: keep what an earlier run left behind; without it that is removed.

    Raises:
        MindportError: the folder exists, is being written by another process, or cannot be made.
    """

    def __init__(self, folder: Path, *, overwrite: bool, resume: bool = False) -> None:
        self._folder, self._overwrite = folder, overwrite
        check_free(folder, overwrite=overwrite)
        self.path = work_of(folder)
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            _restore(folder)
            self._lock = self._locked()
            if not resume:
                for entry in self.path.iterdir():
                    if entry.name != _LOCK:
                        shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        except OSError as error:
            raise unwritable(folder, error) from None

    def publish(self) -> None:
        """Give the folder its name.

        Raises:
            MindportError: something else was put there meanwhile.
            OSError: it cannot be renamed.
        """
        self.path.chmod(0o755)
        check_free(self._folder, overwrite=self._overwrite)
        _flush_directory(self.path)
        _replace(self.path, self._folder)
        (self._folder / _LOCK).unlink()  # last, for it marks an unfinished folder as ours

    def close(self, *, keep: bool = False) -> None:
        """Remove the hidden folder, if it is still there and is not to be kept for another run."""
        if not keep:
            shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)

    def _locked(self) -> int:
        self.path.mkdir(mode=0o755, exist_ok=True)
        if any(self.path.iterdir()) and not (self.path / _LOCK).exists():
            raise MindportError(
                tr("{folder} was not written by Mindport, so it is not replaced.", folder=self.path),
                tr("Remove it yourself, or choose another folder."),
            )
        lock = os.open(self.path / _LOCK, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise MindportError(
                tr("Another process is writing {folder}.", folder=self._folder), tr("Wait for it, or end it first.")
            ) from None
        except OSError:
            pass  # a file system without locks
        return lock


def work_of(folder: Path) -> Path:
    """Where a folder is made ready."""
    return folder.with_name(f".{folder.name}.partial")


def check_free(folder: Path, *, overwrite: bool = False, source: Path | None = None) -> None:
    """Refuse a destination that already holds something.

    Args:
        source: what is about to be read; a folder that holds it is refused even with `overwrite`.

    Raises:
        MindportError: it does, and `overwrite` is off; or it is a file, or a folder that is not ours; or overwriting it
            would destroy the source.
    """
    if not os.path.exists(folder):
        return
    if not folder.is_dir():
        raise MindportError(tr("{folder} is a file.", folder=folder), tr("Choose another folder."))
    if source and source.resolve().is_relative_to(folder.resolve()):
        raise MindportError(tr("{folder} holds the source.", folder=folder), tr("Choose another folder."))
    if any(folder.iterdir()) and not overwrite:
        raise MindportError(
            tr("{folder} already exists.", folder=folder), tr("Choose another folder, or pass --overwrite.")
        )
    if any(folder.iterdir()) and not any((folder / name).is_file() for name in OURS):
        raise MindportError(
            tr("{folder} was not written by Mindport, so it is not replaced.", folder=folder),
            tr("Remove it yourself, or choose another folder."),
        )


def _replace(work: Path, folder: Path) -> None:
    if not folder.exists():
        os.rename(work, folder)
    else:
        aside = _aside(folder)
        os.rename(folder, aside)
        try:
            os.rename(work, folder)
        except OSError:
            os.rename(aside, folder)
            raise
        shutil.rmtree(aside, ignore_errors=True)
    _flush_directory(folder.parent)


def _aside(folder: Path) -> Path:
    """Where the old folder is for the moment between two renames."""
    return folder.with_name(f".{folder.name}.mindport-old")


def _restore(folder: Path) -> None:
    """After a kill between the two renames, or before the old folder was removed."""
    aside = _aside(folder)
    if folder.exists():
        shutil.rmtree(aside, ignore_errors=True)
    elif aside.exists():
        os.rename(aside, folder)


def _flush_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def unwritable(folder: Path, error: OSError) -> MindportError:
    """The error for a folder that cannot be written."""
    return MindportError(
        tr("{folder} could not be written: {error}.", folder=folder, error=error.strerror or error),
        tr("Free some space, or choose another folder."),
    )
