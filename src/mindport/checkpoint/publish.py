"""Folders that appear complete or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mindport.errors import MindportError
from mindport.i18n import tr

OURS = ("ms_config.json", "migration.json", "mindport_manifest.json")
"""Files of which every folder that may be replaced holds one: a converted model, a report, an exported model."""

_LOCK = ".lock"

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_PATIENCE = 5.0
"""Seconds; ranks whose boards another launch has taken over notice it in one."""


@contextmanager
def publish(folder: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A temporary sibling to work in, renamed to `folder` when the block ends and removed when it fails.

    Args:
        folder: what should exist afterwards.
        overwrite: replace a folder that exists; without it an existing folder that holds anything is refused.

    Raises:
        MindportError: the folder exists, is being written by another process, or cannot be made.
    """
    folder = settled(folder)
    work = Work(folder, overwrite=overwrite)
    try:
        work.clear()
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

    Raises:
        MindportError: the folder exists, is being written by another process, or cannot be made.
    """

    def __init__(self, folder: Path, *, overwrite: bool) -> None:
        self._folder, self._overwrite = folder, overwrite
        self._removable = False  # what is there may be somebody's unfinished work
        self.path = work_of(folder)
        check_free(folder, overwrite=overwrite)
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            self._lock = self._locked()
        except OSError as error:
            raise unwritable(folder, error) from None
        try:
            self._removable = [path.name for path in self.path.iterdir()] == [_LOCK]
            _restore(folder)
            check_free(folder, overwrite=overwrite)  # once more, for it may have come back
        except OSError as error:
            self.close()
            raise unwritable(folder, error) from None
        except BaseException:
            self.close()
            raise

    def clear(self, keep: Collection[str] = ()) -> None:
        """Remove what an earlier run left behind, but for some files.

        Raises:
            MindportError: a rank of that run still writes there.
            OSError: it cannot be removed.
        """
        self._outlive_ranks()
        self._removable = True
        for entry in self.path.iterdir():
            if entry.name not in (_LOCK, *keep):
                _remove(entry)

    def publish(self) -> None:
        """Give the folder its name, once all of it is on the disk.

        Raises:
            MindportError: something else was put there meanwhile.
            OSError: it cannot be renamed.
        """
        self.path.chmod(0o755)
        check_free(self._folder, overwrite=self._overwrite)
        for path in (*self.path.rglob("*"), self.path):
            _flush(path)
        _replace(self.path, self._folder)
        self._removable = False
        (self._folder / _LOCK).unlink()  # last, for it marks an unfinished folder as ours

    def close(self, *, keep: bool = False) -> None:
        """Remove the hidden folder unless it is published, to be kept for another run, or was left by one."""
        if self._removable and not keep:
            shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)

    def _locked(self) -> int:
        for _ in range(3):
            self.path.mkdir(mode=0o755, exist_ok=True)
            if any(self.path.iterdir()) and not (self.path / _LOCK).exists():
                raise MindportError(
                    tr("{folder} was not written by Mindport, so it is not replaced.", folder=self.path),
                    tr("Remove it yourself, or choose another folder."),
                )
            lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            if not try_lock(lock):
                os.close(lock)
                break
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(lock), os.stat(self.path / _LOCK)):
                    return lock
            os.close(lock)  # published or removed by its owner just before it was locked: once more
        raise self._busy()

    def _outlive_ranks(self) -> None:
        """Wait until no rank of an earlier launch, which lost its rank 0, writes here any more; each locks a file."""
        end = time.monotonic() + _PATIENCE
        while any(_held(path) for path in self.path.glob(".*") if path.name != _LOCK):
            if time.monotonic() > end:
                raise self._busy()
            time.sleep(0.1)

    def _busy(self) -> MindportError:
        return MindportError(
            tr("Another process is writing {folder}.", folder=self._folder), tr("Wait for it, or end it first.")
        )


def try_lock(file: int) -> bool:
    """Lock a file for as long as it is open; whether it was free. Always true where the file system has no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def _held(path: Path) -> bool:
    """Whether another process has locked a file."""
    if not path.is_file():
        return False
    file = os.open(path, os.O_RDWR)
    try:
        return not try_lock(file)
    finally:
        os.close(file)


def settled(folder: Path) -> Path:
    """Where a folder really is, or will be: through links, which stay.

    Raises:
        MindportError: it is where this process is, and cannot be replaced from there.
    """
    real = Path(os.path.realpath(folder))
    if real == Path.cwd():
        raise MindportError(
            tr("{folder} is the current folder, which cannot be replaced.", folder=folder), tr("Choose another folder.")
        )
    return real


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
        try:
            os.rename(folder, aside)
            os.rename(work, folder)
        except BaseException:  # an interrupt, too
            if not folder.exists():
                os.rename(aside, folder)
            raise
        with suppress(OSError):  # what is left of it goes at the next run
            _remove(aside)
    _flush(folder.parent)


def _aside(folder: Path) -> Path:
    """Where the old folder is for the moment between two renames."""
    return folder.with_name(f".{folder.name}.mindport-old")


def _restore(folder: Path) -> None:
    """After a kill between the two renames, or before the old folder was removed."""
    aside = _aside(folder)
    if not os.path.lexists(aside):
        return
    if folder.exists() and any(folder.iterdir()):
        _remove(aside)
    else:
        os.rename(aside, folder)


def _remove(path: Path) -> None:
    """Remove a file, a link (not what it points to), or a folder."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _flush(path: Path) -> None:
    """Wait until a file or the list of files in a folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def unwritable(folder: Path, error: OSError) -> MindportError:
    """The error for a folder that cannot be written."""
    return MindportError(
        tr("{folder} could not be written: {error}.", folder=folder, error=error.strerror or error),
        tr("Free some space, or choose another folder.") if error.errno in _FULL else tr("Choose another folder."),
    )
