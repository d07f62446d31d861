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
        _replace(work, folder)
    except OSError as error:
        raise _unwritable(folder, error) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def check_free(folder: Path, *, overwrite: bool = False) -> None:
    """Refuse a destination that already holds something.

    Raises:
        MindportError: it does, and `overwrite` is off; or it is a file.
    """
    if folder.is_dir():
        taken = any(folder.iterdir()) and not overwrite
    else:
        taken = folder.exists()
    if taken:
        raise MindportError(
            tr("{folder} already exists.", folder=folder), tr("Choose another folder, or pass --overwrite.")
        )


def _replace(work: Path, folder: Path) -> None:
    old = None
    if folder.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".old", dir=folder.parent))
        os.rename(folder, old / folder.name)
    os.rename(work, folder)
    _flush_directory(folder.parent)
    if old:
        shutil.rmtree(old, ignore_errors=True)


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
