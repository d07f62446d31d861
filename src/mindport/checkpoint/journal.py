"""Which tensors of an unfinished folder are written already, so that a run can go on after it was killed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindport.checkpoint.publish import try_lock

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
    """A line for each finished tensor; one file for each process, in the folder that is being written.

    The file is locked while its process writes there, so that nobody takes the folder over meanwhile.
    """

    def __init__(self, folder: Path, fingerprint: str, rank: int) -> None:
        path = folder / f"{_PREFIX}{rank}"
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try_lock(self._file)
        self.done = _read(folder, fingerprint)
        lines, end = _lines(path)
        mine = _plan_of(lines) == fingerprint
        os.ftruncate(self._file, end if mine else 0)  # without a line that was not written to its end
        if not mine:
            self._write({"plan": fingerprint})

    def add(self, tensor: str, done: Done) -> None:
        """Note that a tensor is written. It need not have reached the disk: a later run reads it again to be sure."""
        self.done[tensor] = done
        self._write({"tensor": tensor, "digest": done.digest, "sources": done.sources})

    def close(self) -> None:
        """Close the file; it stays."""
        os.close(self._file)

    def _write(self, line: Mapping[str, object]) -> None:
        content = json.dumps(line).encode() + b"\n"
        while content:
            content = content[os.write(self._file, content) :]


def journals(folder: Path) -> list[Path]:
    """The journals in a folder."""
    return sorted(folder.glob(f"{_PREFIX}*"))


def plans_of(folder: Path) -> set[str]:
    """Fingerprints of the plans by which a folder was begun: one, or none where nothing was written yet."""
    return {plan for path in journals(folder) if (plan := _plan_of(_lines(path)[0]))}


def any_done(folder: Path) -> bool:
    """Whether a tensor is noted as written."""
    return any(len(_lines(path)[0]) > 1 for path in journals(folder))


def remove_journals(folder: Path) -> None:
    """Take the journals out of a folder that is complete."""
    for path in journals(folder):
        path.unlink()


def _plan_of(lines: Sequence[Mapping[str, Any]]) -> str:
    return str(lines[0].get("plan", "")) if lines else ""


def _lines(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The lines of a journal, up to one that is not as we write it, and the bytes that they take."""
    found: list[dict[str, Any]] = []
    end = 0
    for line in path.read_bytes().splitlines(keepends=True):
        try:
            content = json.loads(line)
        except ValueError:
            break
        if not line.endswith(b"\n") or not isinstance(content, dict):
            break
        found.append(content)
        end += len(line)
    return found, end


def _read(folder: Path, fingerprint: str) -> dict[str, Done]:
    done: dict[str, Done] = {}
    for path in journals(folder):
        lines, _ = _lines(path)
        if _plan_of(lines) == fingerprint:
            done |= {line["tensor"]: Done(line["digest"], line["sources"]) for line in lines[1:]}
    return done
