"""Folders that appear complete or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mindport.errors import MindportError
from mindport.i18n import tr

OURS = ("ms_config.json", "migration.json")
"""Files of which every folder that may be replaced holds one: a converted model, a report."""


@contextmanager
def publish(folder: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A temporary sibling to work in, renamed to `folder` when the block ends and removed when it fails.

    Args:
        folder: what should exist afterwards.
        overwrite: replace a folder that exists; without it an existing folder that holds anything is refused.

    Raises:
        MindportError: the folder exists, or cannot be made.
    """
    check_free(folder, overwrite=overwrite)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".partial", dir=folder.parent))
    except OSError as error:
        raise _unwritable(folder, error) from None
    try:
        work.chmod(0o755)
        yield work
        check_free(folder, overwrite=overwrite)  # something else may have been put there meanwhile
        _replace(work, folder)
    except OSError as error:
        raise _unwritable(folder, error) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


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
        aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".old", dir=folder.parent))
        try:
            os.rename(folder, aside / "old")
            try:
                os.rename(work, folder)
            except OSError:
                os.rename(aside / "old", folder)
                raise
        except OSError:
            aside.rmdir()  # fails, and so keeps the old folder, should it still be in there
            raise
        shutil.rmtree(aside, ignore_errors=True)
    _flush_directory(folder.parent)


def _flush_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unwritable(folder: Path, error: OSError) -> MindportError:
    return MindportError(
        tr("{folder} could not be written: {error}.", folder=folder, error=error.strerror or error),
        tr("Free some space, or choose another folder."),
    )
