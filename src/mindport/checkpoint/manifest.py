"""`mindport_manifest.json`: what a folder was made from and by what, with checksums to check it again."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindport.checkpoint.folder import find_weights
from mindport.checkpoint.options import PLAIN, Options
from mindport.checkpoint.plan import Plan
from mindport.checkpoint.shards import TargetFile
from mindport.checkpoint.source import TensorEntry
from mindport.config.json_file import read_json_object, write_json
from mindport.errors import MindportError, brief
from mindport.i18n import tr
from mindport.schema import VocabChange
from mindport.version import __version__

FILE_NAME = "mindport_manifest.json"
FORMAT = 1
ALGORITHM = "xxh3_128"

_CHUNK = 1 << 20
"""Bytes read at a time."""

_LONGEST_NAME = 255
"""Bytes; the limit of Linux."""


def write_manifest(
    folder: Path,
    plan: Plan,
    files: tuple[TargetFile, ...],
    digests: Mapping[str, str],
    sources: Mapping[str, str],
    notes: Mapping[str, Any],
) -> None:
    """Write the manifest of a folder in which everything else is in place.

    Args:
        folder: holds the weights files and whatever lies beside them.
        plan, files: what was carried out.
        digests, sources: output tensor, source tensor -> checksum.
        notes: what else was decided, such as dtypes and the vocabulary.
    """
    import numpy as np

    from mindport.checkpoint.digest import digest_of

    weights = {file.name: file for file in files}
    beside = sorted(
        p for p in folder.rglob("*") if p.is_file() and not p.name.startswith(".") and p.name not in weights
    )
    write_json(
        folder / FILE_NAME,
        {
            "mindport": {"format": FORMAT, "version": __version__},
            "made_by": {
                "command": sys.argv,
                "python": sys.version.split()[0],
                "numpy": np.__version__,
            },
            "checksum": ALGORITHM,
            "source": {
                "files": {path.name: path.stat().st_size for path in plan.files},
                "tensors": dict(sorted(sources.items())),
                "skipped": dict(plan.skipped),
                "tied_copies": dict(plan.copies),
            },
            **notes,
            "weights": {
                file.name: {
                    "nbytes": file.nbytes,
                    "framing": digest_of(memoryview(content) for _, content in file.frames),
                    "tensors": {placed.output.name: digests[placed.output.name] for placed in file.outputs},
                }
                for file in files
            },
            "files": {str(path.relative_to(folder)): _file_digest(path) for path in beside},
        },
    )


def recorded_options(folder: Path, vocab: VocabChange | None) -> Options:
    """The options a folder was written with; the usual ones where it has no manifest.

    Raises:
        MindportError: the manifest is not one of this version.
    """
    path = folder / FILE_NAME
    if not path.is_file():
        return PLAIN
    try:
        return Options.from_json(_read(path)["options"], vocab)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _not_ours(path, error) from None


def check_manifest(folder: Path) -> tuple[int, int]:
    """Read a finished folder again and compare it with its manifest.

    Returns:
        tensors and bytes of weights that were found to be as the manifest says.

    Raises:
        MindportError: there is no manifest, or something differs, is missing or is too many; all of it at once.
    """
    from mindport.checkpoint.digest import digest_of, plain_chunks
    from mindport.checkpoint.files import Files

    path = folder / FILE_NAME
    if not path.is_file():
        raise MindportError(
            tr("{path} does not exist.", path=path),
            tr("Give a folder that `mindport convert` or `mindport export` of this version wrote."),
        )
    try:
        manifest = _read(path)
        weights = {_plain(name): _Weights.from_json(file) for name, file in manifest["weights"].items()}
        beside = {_plain(name): str(digest) for name, digest in manifest["files"].items()}
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise _not_ours(path, error) from None
    wrong = [name for name, digest in beside.items() if _file_digest(folder / name) != digest]
    wrong += [name for name, file in weights.items() if _size(folder / name) != file.nbytes]
    if not wrong and weights:
        found = find_weights(folder)
        entries = dict(found.entries)
        wrong += [name for name, _ in found.problems]
        with Files() as files:
            for name, file in weights.items():
                held = [entry for entry in entries.values() if entry.path.name == name]
                if digest_of(_framing(folder / name, held)) != file.framing:
                    wrong.append(name)
                for tensor, digest in file.tensors.items():
                    entry = entries.pop(tensor, None)
                    if entry is None or entry.path.name != name or digest_of(plain_chunks(files, entry)) != digest:
                        wrong.append(tensor)
        wrong += entries
    if wrong:
        raise MindportError(
            tr(
                "{folder} is not as its manifest says in {count} places, such as {name}.",
                folder=folder,
                count=len(wrong),
                name=brief(wrong[0]),
            ),
            tr("Convert the model again, or copy the folder again from where it was made."),
        )
    return sum(len(file.tensors) for file in weights.values()), sum(file.nbytes for file in weights.values())


@dataclass(frozen=True)
class _Weights:
    """What a manifest says of a weights file: its size, and checksums of its tensors and of all else in it."""

    nbytes: int
    framing: str
    tensors: Mapping[str, str]

    @staticmethod
    def from_json(record: Mapping[str, Any]) -> _Weights:
        return _Weights(int(record["nbytes"]), str(record["framing"]), dict(record["tensors"].items()))


def _plain(name: str) -> str:
    """The name of a file in the folder.

    Raises:
        ValueError: it leads somewhere else, or is none.
    """
    parts = name.split("/")
    if "\0" in name or {"", ".", ".."} & {*parts} or any(len(part.encode()) > _LONGEST_NAME for part in parts):
        raise ValueError(brief(name))
    return name


def _framing(path: Path, entries: Iterable[TensorEntry]) -> Iterator[memoryview]:
    """All bytes of a weights file that belong to no tensor: header, lengths, names."""
    ranges = sorted(place for entry in entries for place in entry.pieces or ((entry.offset, entry.nbytes),))
    with path.open("rb") as file:
        for start, length in (*ranges, (_size(path), 0)):
            while file.tell() < start and (content := file.read(min(_CHUNK, start - file.tell()))):
                yield memoryview(content)
            file.seek(start + length)


def _read(path: Path) -> dict[str, Any]:
    manifest = read_json_object(path)
    if manifest["mindport"]["format"] != FORMAT or manifest["checksum"] != ALGORITHM:
        raise ValueError(brief(manifest["mindport"]))
    return manifest


def _not_ours(path: Path, error: Exception) -> MindportError:
    return MindportError(
        tr("{path} is not a manifest of this version of Mindport: {error!r}.", path=path, error=error),
        tr("Convert the model again."),
    )


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else -1


def _file_digest(path: Path) -> str | None:
    from mindport.checkpoint.digest import new_digest

    if not path.is_file():
        return None
    digest = new_digest()
    with path.open("rb") as file:
        while content := file.read(_CHUNK):
            digest.update(content)
    return digest.hexdigest()
