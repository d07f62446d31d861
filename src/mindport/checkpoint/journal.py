"""Which tensors of an unfinished folder are written already, so that a run can go on after it was killed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_PREFIX = ".journal-"


@dataclass(frozen=True)
class Done:
    """A tensor that was written.

    Args:
        digest: of its bytes in the target.
        sources: source tensor -> digest, of those whose bytes came by in order meanwhile.
    """

    digest: str
    sources: Mapping[str, str]


class Journal:
    """A line for each finished tensor; one file for each process, in the folder that is being written."""

    def __init__(self, folder: Path, fingerprint: str, rank: int) -> None:
        self._path = folder / f"{_PREFIX}{rank}"
        self.done = _read(folder, fingerprint)
        written = self._path.read_bytes() if self._path.exists() else b""
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        whole = written.rfind(b"\n") + 1 if _plan_of(self._path) == fingerprint else 0
        os.ftruncate(self._file, whole)  # without a line that was not written to its end
        if not whole:
            self._write({"plan": fingerprint})

    def add(self, tensor: str, done: Done) -> None:
        """Note that a tensor is written. It need not have reached the disk: a later run reads it again to be sure."""
        self.done[tensor] = done
        self._write({"tensor": tensor, "digest": done.digest, "sources": done.sources})

    def close(self) -> None:
        """Close the file; it stays."""
        os.close(self._file)

    def _write(self, line: Mapping[str, object]) -> None:
        os.write(self._file, json.dumps(line).encode() + b"\n")


def journals(folder: Path) -> list[Path]:
    """The journals in a folder."""
    return sorted(folder.glob(f"{_PREFIX}*"))


def belongs(folder: Path, fingerprint: str) -> bool:
    """Whether a folder was begun by the same plan."""
    return any(_plan_of(path) == fingerprint for path in journals(folder))


def any_done(folder: Path) -> bool:
    """Whether a tensor is noted as written."""
    return any(len(_lines(path)) > 1 for path in journals(folder))


def remove_journals(folder: Path) -> None:
    """Take the journals out of a folder that is complete."""
    for path in journals(folder):
        path.unlink()


def _plan_of(path: Path) -> str | None:
    lines = _lines(path)
    found = lines[0].get("plan") if lines else None
    return found if isinstance(found, str) else None


def _lines(path: Path) -> list[dict[str, object]]:
    """The lines of a journal, up to one that was not written to its end."""
    found = []
    for line in path.read_bytes().split(b"\n"):
        try:
            found.append(json.loads(line))
        except ValueError:
            break
    return found


def _read(folder: Path, fingerprint: str) -> dict[str, Done]:
    done = {}
    for path in journals(folder):
        if _plan_of(path) == fingerprint:
            for line in _lines(path)[1:]:
                done[str(line["tensor"])] = Done(str(line["digest"]), dict(line["sources"]))  # type: ignore[call-overload]
    return done
