"""The weights of a model folder or file, whatever their format: which files hold them, and where each tensor lies."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from mindport.checkpoint.broken import broken
from mindport.checkpoint.ckpt_reader import read_ckpt
from mindport.checkpoint.safetensors import INDEX_FILE, SINGLE_FILE, read_header
from mindport.checkpoint.source import Stamp, TensorEntry, stamp_of
from mindport.checkpoint.torch_file import read_torch
from mindport.config.json_file import read_json_object, unreadable
from mindport.errors import MindportError, brief
from mindport.i18n import tr

FILES = (
    SINGLE_FILE,
    INDEX_FILE,
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "model.ckpt",
    "param_name_map.json",
)
"""Names looked for, the first first: those of transformers in its order, then those of MindSpore."""

_READ_AS = {".safetensors": "safetensors", ".bin": "torch", ".pt": "torch", ".pth": "torch", ".ckpt": "ckpt"}
"""Suffix -> format, where the content does not tell."""

_WEIGHT_SUFFIXES = (*_READ_AS, ".gguf", ".h5", ".msgpack")
"""Of files that are named when they are not read."""

_NOT_A_MODEL = ("adapter_model", "optimizer", "rng_state", "scaler", "scheduler", "training_args")
"""Starts of the names of files that lie beside the weights and are never taken for them."""

_READERS: dict[str, Callable[[Path], dict[str, TensorEntry]]] = {
    "safetensors": read_header,
    "torch": read_torch,
    "ckpt": read_ckpt,
}


@dataclass(frozen=True)
class Found:
    """The weights that were found.

    Args:
        entries: tensor name -> where it lies. With problems, those that could be read.
        stamps: of the files that hold them, taken before anything was read from these.
        format: of these: "safetensors", "torch" or "ckpt".
        problems: (shard or tensor, what is wrong), for every contradiction between an index and its shards. If there
            are any, the weights must not be used.
        stray: names of weight files in the folder that are not read.
    """

    entries: dict[str, TensorEntry]
    stamps: Mapping[Path, Stamp]
    format: str
    problems: tuple[tuple[str, str], ...] = ()
    stray: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that hold them."""
        return tuple(self.stamps)


def find_weights(path: Path) -> Found:
    """The weights of a folder, of an index, or of a single file.

    Raises:
        MindportError: there are none, it is not clear which they are, or a single file or an index cannot be read.
    """
    if not os.path.isdir(path):
        return _indexed(path) if path.suffix == ".json" else _single(path)
    chosen = next((path / name for name in FILES if (path / name).is_file()), None) or _only(path)
    found = _indexed(chosen) if chosen.suffix == ".json" else _single(chosen)
    used = {file.name for file in found.files}
    stray = tuple(file.name for file in _weight_files(path) if file.name not in used)
    return replace(found, stray=stray)


def _single(path: Path) -> Found:
    kind = _format_of(path)
    stamps = {path: stamp_of(path)}
    return Found(_READERS[kind](path), stamps, kind)


def _indexed(index: Path) -> Found:
    """Shards, their headers compared with the index both ways."""
    content = read_json_object(index)
    weight_map = content.get("weight_map", content if index.name == FILES[-1] else None)
    if not isinstance(weight_map, dict) or not all(isinstance(v, str) for v in weight_map.values()) or not weight_map:
        raise broken(index, tr("it has no weight_map"))
    entries: dict[str, TensorEntry] = {}
    problems: list[tuple[str, str]] = []
    stamps: dict[Path, Stamp] = {}
    kinds: set[str] = set()
    for shard in sorted(set(weight_map.values())):
        if Path(shard).name != shard or shard in ("", ".", "..") or "\\" in shard:
            problems.append((shard, tr("the index names a shard that is not a plain file name")))
            continue
        try:
            found = _single(index.parent / shard)
        except MindportError as error:
            problems.append((shard, error.message))
            continue
        stamps |= found.stamps
        kinds.add(found.format)
        for name, entry in found.entries.items():
            if name in entries:
                problems.append((name, tr("is in {file} and in {other}", file=entries[name].path.name, other=shard)))
            elif name not in weight_map:
                problems.append((name, tr("is in {file}, and the index does not know it", file=shard)))
            entries.setdefault(name, entry)
    read = {file.name for file in stamps}
    for name, shard in weight_map.items():
        if name in entries and entries[name].path.name != shard:
            held = entries[name].path.name
            problems.append((name, tr("is in {file}, not in {other} as the index says", file=held, other=brief(shard))))
        elif name not in entries and shard in read:
            problems.append((name, tr("is not in {file} as the index says", file=shard)))
    if len(kinds) > 1:
        problems.append(
            (index.name, tr("the shards are of several formats: {formats}", formats=", ".join(sorted(kinds))))
        )
    return Found(entries, stamps, min(kinds, default="safetensors"), tuple(problems))


def _only(folder: Path) -> Path:
    """The one file in a folder that can be its weights."""
    candidates = [
        file for file in _weight_files(folder) if file.suffix in _READ_AS and not file.name.startswith(_NOT_A_MODEL)
    ]
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        raise MindportError(
            tr(
                "{folder} holds several files that may be its weights: {files}.",
                folder=folder,
                files=brief([file.name for file in candidates]),
            ),
            tr("Give one of them, or restore the index that belongs to them."),
        )
    raise MindportError(
        tr("{folder} holds no weights, such as {single} or {index}.", folder=folder, single=FILES[0], index=FILES[1]),
        tr("Save the model with save_pretrained(..., safe_serialization=True)."),
    )


def _weight_files(folder: Path) -> list[Path]:
    try:
        files = sorted(folder.iterdir())
    except OSError as error:
        raise unreadable(folder, error) from None
    return [
        file for file in files if file.suffix in _WEIGHT_SUFFIXES and not file.name.startswith(".") and file.is_file()
    ]


def _format_of(path: Path) -> str:
    """The format of a file by its first bytes, or else by its name.

    Raises:
        MindportError: missing, a pointer in place of the file, or of no known format.
    """
    if not os.path.isfile(path):
        raise MindportError(tr("{path} does not exist.", path=path), tr("Check the path."))
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(512)
    except OSError as error:
        raise unreadable(path, error) from None
    if start.startswith(b"version https://git-lfs"):
        raise MindportError(
            tr("{path} is a Git LFS pointer, not the file itself.", path=path),
            tr("Fetch it with `git lfs pull`."),
        )
    if start[8:9] == b"{" and int.from_bytes(start[:8], "little") <= size - 8:
        return "safetensors"
    if start.startswith((b"PK\x03\x04", b"\x80")) or start[257:262] == b"ustar":
        return "torch"
    if path.suffix in _READ_AS:
        return _READ_AS[path.suffix]
    if start.startswith(b"\n"):
        return "ckpt"
    raise MindportError(
        tr("{path} is in none of the formats that can be read.", path=path),
        tr("Give a safetensors file, a file of torch.save, or a .ckpt of MindSpore."),
    )
