"""`mindport_manifest.json`: what a folder was made from and by what, with checksums to check it again."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mindport.checkpoint.options import PLAIN, Options
from mindport.checkpoint.plan import Plan
from mindport.checkpoint.shards import TargetFile
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


def write_manifest(
    folder: Path,
    plan: Plan,
    files: tuple[TargetFile, ...],
    digests: Mapping[str, str],
    sources: Mapping[str, str],
    notes: Mapping[str, Any],
    edited: tuple[str, ...] = (),
) -> None:
    """Write the manifest of a folder in which everything else is in place.

    Args:
        folder: holds the weights files and whatever lies beside them.
        plan, files: what was carried out.
        digests, sources: output tensor, source tensor -> checksum.
        notes: what else was decided, such as dtypes and the vocabulary.
        edited: names of files beside the weights that are not listed, because people will change them.
    """
    import numpy as np

    from mindport.checkpoint.digest import digest_of

    apart = {*(file.name for file in files), *edited}
    beside = sorted(p for p in folder.rglob("*") if p.is_file() and not p.name.startswith(".") and p.name not in apart)
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
                    "frames": digest_of(memoryview(content) for _, content in file.frames),
                    "tensors": {placed.output.name: digests[placed.output.name] for placed in file.outputs},
                }
                for file in files
            },
            "files": {str(path.relative_to(folder)): file_digest(path) for path in beside},
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
        return Options.from_json(read_manifest(path)["options"], vocab)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise not_ours(path, error) from None


def check_listed(folder: Path, name: str) -> None:
    """Make sure that a file of a finished folder is as the manifest lists it; one that it does not list is not asked.

    Raises:
        MindportError: it differs, or the manifest is not one of this version.
    """
    path = folder / FILE_NAME
    if not path.is_file():
        return
    try:
        listed = read_manifest(path)["files"].get(name)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise not_ours(path, error) from None
    if listed is not None and listed != file_digest(folder / name):
        raise MindportError(
            tr("{path} is not as it was written: it may say another layout than the weights have.", path=folder / name),
            tr("Convert the model again, or copy the folder again from where it was made."),
        )


def read_manifest(path: Path) -> dict[str, Any]:
    """The content of a manifest.

    Raises:
        MindportError: it cannot be read.
        KeyError, TypeError, ValueError: it is not one of this version.
    """
    manifest = read_json_object(path)
    if manifest["mindport"]["format"] != FORMAT or manifest["checksum"] != ALGORITHM:
        raise ValueError(brief(manifest["mindport"]))
    return manifest


def not_ours(path: Path, error: Exception) -> MindportError:
    """The error for a manifest whose content is not what this version writes."""
    return MindportError(
        tr("{path} is not a manifest of this version of Mindport: {error!r}.", path=path, error=error),
        tr("Convert the model again."),
    )


def file_digest(path: Path) -> str | None:
    """Checksum of a whole file; None if there is none."""
    from mindport.checkpoint.digest import new_digest

    if not path.is_file():
        return None
    digest = new_digest()
    with path.open("rb") as file:
        while content := file.read(_CHUNK):
            digest.update(content)
    return digest.hexdigest()
