"""A finished folder against its own manifest: whether every byte is still what was written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mindport.checkpoint.content import CHUNK
from mindport.checkpoint.digest import digest_of, new_digest, plain_chunks
from mindport.checkpoint.files import Files
from mindport.checkpoint.folder import find_weights
from mindport.checkpoint.manifest import FILE_NAME, file_digest, not_ours, read_manifest
from mindport.checkpoint.plan import Problem
from mindport.checkpoint.source import TensorEntry
from mindport.errors import MindportError, brief
from mindport.i18n import tr

Progress = Callable[[int], None]


@dataclass(frozen=True)
class FolderReport:
    """What was found.

    Args:
        tensors: whose bytes are those that were written.
        nbytes: of these tensors.
        files: that the manifest lists besides the weights, and that were compared as wholes.
        problems: every tensor and file that differs, is missing or is too many.
    """

    tensors: int
    nbytes: int
    files: int
    problems: tuple[Problem, ...]


@dataclass(frozen=True)
class _File:
    """A weights file by its manifest: its size, and checksums of its tensors and of the bytes around them."""

    nbytes: int
    frames: str
    tensors: Mapping[str, str]


class Recheck:
    """A finished folder, converted or exported, and its manifest; no weights have been read yet.

    Other files than those of the manifest may have been added, such as reports; other tensors may not.

    Args:
        folder: holds the manifest.

    Raises:
        MindportError: there is no manifest, or it is not one of this version.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / FILE_NAME
        if not path.is_file():
            raise MindportError(
                tr("{path} does not exist.", path=path),
                tr("Give a folder that `mindport convert` or `mindport export` of this version wrote."),
            )
        try:
            manifest = read_manifest(path)
            self._weights = {
                name: _File(int(file["nbytes"]), str(file["frames"]), dict(file["tensors"].items()))
                for name, file in manifest["weights"].items()
            }
            self._files = dict(manifest["files"].items())
            for name in (*self._weights, *self._files):
                _check_name(name)
        except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise not_ours(path, error) from None
        self._folder = folder

    @property
    def nbytes(self) -> int:
        """Bytes of the weights files."""
        return sum(file.nbytes for file in self._weights.values())

    def run(self, progress: Progress = lambda nbytes: None) -> FolderReport:
        """Read everything, in bounded memory.

        Args:
            progress: called with the number of bytes of weights just read.

        Raises:
            MindportError: the folder changes while it is read.
        """
        problems = []
        for name, digest in self._files.items():
            found = file_digest(self._folder / name)
            if found != digest:
                problems.append(Problem(name, _missing() if found is None else _differs()))
        whole = {}
        for name, file in self._weights.items():
            path = self._folder / name
            size = path.stat().st_size if path.is_file() else None
            if size == file.nbytes:
                whole[name] = file
            else:
                text = tr("has {size} bytes, not {nbytes}", size=size, nbytes=file.nbytes)
                problems.append(Problem(name, _missing() if size is None else text))
        tensors, nbytes, found_problems = self._tensors(whole, progress)
        return FolderReport(tensors, nbytes, len(self._files), (*problems, *found_problems))

    def _tensors(self, whole: Mapping[str, _File], progress: Progress) -> tuple[int, int, list[Problem]]:
        """Of the weights files of the right size: tensors that are right, their bytes, and what is wrong."""
        if not whole:
            return 0, 0, []
        try:
            found = find_weights(self._folder)
        except MindportError as error:
            return 0, 0, [Problem(", ".join(whole), error.message)]
        problems = {name: what for name, what in found.problems if name in whole or name not in self._weights}
        tensors = nbytes = 0
        with Files() as files:
            for name, file in whole.items():
                inside = [entry for entry in found.entries.values() if entry.path.name == name]
                if name not in problems and _frames(self._folder / name, file.nbytes, inside) != file.frames:
                    problems[name] = tr("differs from the manifest around its tensors")
                for tensor, digest in file.tensors.items():
                    entry = found.entries.get(tensor)
                    if entry is None or entry.path.name != name:
                        problems.setdefault(tensor, tr("is not in {file}", file=name))
                        continue
                    if digest_of(plain_chunks(files, entry)) != digest:
                        problems.setdefault(tensor, _differs())
                    elif tensor not in problems:
                        tensors, nbytes = tensors + 1, nbytes + entry.nbytes
                    progress(entry.nbytes)
        known = {tensor for file in self._weights.values() for tensor in file.tensors}
        for tensor in found.entries:
            if tensor not in known:
                problems.setdefault(tensor, tr("is not in the manifest"))
        return tensors, nbytes, [Problem(name, what) for name, what in problems.items()]


def _frames(path: Path, size: int, entries: Iterable[TensorEntry]) -> str:
    """Checksum of what lies around the tensors of a file."""
    ranges = [place for entry in entries for place in (entry.pieces or ((entry.offset, entry.nbytes),))]
    digest = new_digest()
    with path.open("rb") as file:
        end = 0
        for start, length in (*sorted(ranges), (size, 0)):
            file.seek(end)
            while file.tell() < start and (content := file.read(min(CHUNK, start - file.tell()))):
                digest.update(content)
            end = max(end, start + length)
    return digest.hexdigest()


_LONGEST_NAME = 255
"""Bytes of a file's name."""


def _check_name(name: str) -> None:
    """Refuse what is not the name of a file in the folder.

    Raises:
        ValueError: it leads somewhere else, or is none.
    """
    parts = name.split("/")
    if "\0" in name or {"", ".", ".."} & {*parts} or any(len(part.encode()) > _LONGEST_NAME for part in parts):
        raise ValueError(brief(name))


def check_manifest(folder: Path) -> FolderReport:
    """Read a finished folder again and compare it with its manifest.

    Raises:
        MindportError: there is no manifest, or something differs, is missing or is too many.
    """
    report = Recheck(folder).run()
    if report.problems:
        raise MindportError(
            tr(
                "{folder} is not as its manifest says in {count} places, such as {name}.",
                folder=folder,
                count=len(report.problems),
                name=brief(report.problems[0].tensor),
            ),
            tr("Convert the model again, or copy the folder again from where it was made."),
        )
    return report


def _missing() -> str:
    return tr("is missing")


def _differs() -> str:
    return tr("differs from the manifest")
