"""File systems that are soon full."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted(folder: Path, size: str) -> Iterator[Path]:
    """A tmpfs of a size such as `64k`, mounted on a new folder. The test is skipped where that is not allowed."""
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    folder.mkdir()
    if os.geteuid() != 0 or not mount or not unmount:
        pytest.skip("mounting needs root")
    made = subprocess.run(
        [mount, "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("mounting is not allowed here")
    yield folder
    subprocess.run([unmount, "-l", folder], capture_output=True, check=True)
