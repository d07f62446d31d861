"""Files of torch.save, zip or legacy, read without torch and without running their pickle.

The layout of both is that of torch/serialization.py: a zip of uncompressed members, `data.pkl` and one for each
storage; or five pickles (magic number, protocol, system, object, storage keys) and then the storages, each after the
number of its elements.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

from mindport.checkpoint.broken import broken
from mindport.checkpoint.pickle_program import Source, run_program
from mindport.checkpoint.source import TensorEntry
from mindport.checkpoint.state_dict import weights_of
from mindport.checkpoint.torch_pickle import CODES, TORCH_NAMES, Special, Storages, Tensor, item_size
from mindport.checkpoint.zip_members import Member, zip_members
from mindport.config.json_file import unreadable
from mindport.errors import MindportError, brief
from mindport.i18n import tr

_MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001

_MOST_AXES = 32
"""The limit of numpy 1; models have up to five."""

_MOST_REPEATED = 256 << 20
"""Bytes of a tensor that has more elements than its storage (an expanded one)."""


def read_torch(path: Path) -> dict[str, TensorEntry]:
    """The weights in a file of torch.save (`.bin`, `.pt`, `.pth`): where each lies in the file.

    A checkpoint that keeps them under "state_dict", "model" or the like is unwrapped; nested dicts are joined by dots.

    Raises:
        MindportError: missing, damaged, in a form that is not supported, or its pickle asks for anything but tensors.
    """
    if not os.path.isfile(path):
        raise MindportError(tr("{path} does not exist.", path=path), tr("Check the path."))
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(512)
            file.seek(0)
            if start.startswith(b"PK\x03\x04"):
                value, extents = _zip(path, file, size)
            elif start.startswith(b"\x80"):
                value, extents = _legacy(path, file, size)
            elif start[257:262] == b"ustar" or start.startswith(b"storages\0"):
                raise _save_again(path, tr("it is a tar archive, as torch wrote them before 0.1.10"))
            else:
                raise broken(path, tr("it is not a file of torch.save"))
    except OSError as error:
        raise unreadable(path, error) from None
    return {name: _entry(path, name, tensor, extents) for name, tensor in weights_of(path, value).items()}


Extents = Mapping[str, Member]
"""Storage key -> where the storage lies in the file; checked to be as long as the pickle says."""


def _zip(path: Path, file: BinaryIO, size: int) -> tuple[Any, Extents]:
    members = zip_members(path, file.fileno(), size)
    top = next(iter(members), "").partition("/")[0]
    if f"{top}/constants.pkl" in members or any(name.startswith(f"{top}/code/") for name in members):
        raise _save_again(path, tr("it is a TorchScript archive"))
    program = members.get(f"{top}/data.pkl")
    if program is None:
        raise broken(path, tr("it is not a file of torch.save"))
    order = members.get(f"{top}/byteorder")
    if order is not None:
        file.seek(order.offset)
        if file.read(min(order.size, 16)) != b"little":
            raise _save_again(path, tr("its numbers are big-endian"))
    file.seek(program.offset)
    storages = Storages()
    value = run_program(Source(path, file, program.size), TORCH_NAMES, storages)
    extents = {}
    for key, (dtype, count) in storages.whole.items():
        member = members.get(f"{top}/data/{key}")
        if member is None or count * item_size(dtype) > member.size:
            raise broken(path, tr("storage {key} is missing or shorter than its tensors", key=brief(key)))
        extents[key] = member
    return value, extents


def _legacy(path: Path, file: BinaryIO, size: int) -> tuple[Any, Extents]:
    storages = Storages()
    source = Source(path, file, size)

    def load() -> Any:
        return run_program(source, TORCH_NAMES, storages)

    if load() != _MAGIC:
        raise broken(path, tr("it is not a file of torch.save"))
    protocol, system = load(), load()
    if protocol != _PROTOCOL or not isinstance(system, dict):
        raise broken(path, tr("its pickle is malformed"))
    if system.get("little_endian") is not True:
        raise _save_again(path, tr("its numbers are big-endian"))
    value, keys = load(), load()
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise broken(path, tr("its pickle is malformed"))
    extents: dict[str, Member] = {}
    offset = size - source.left
    for key in keys:
        dtype, count = storages.whole.get(key, ("", -1))
        file.seek(offset)
        head = file.read(8)
        if len(head) < 8:
            raise broken(path, tr("it is truncated"))
        if key in extents or int.from_bytes(head, "little", signed=True) != count:
            raise broken(path, tr("storage {key} is missing or shorter than its tensors", key=brief(key)))
        extents[key] = Member(offset + 8, count * item_size(dtype))
        offset += 8 + extents[key].size
        if offset > size:
            raise broken(path, tr("it is truncated"))
    missing = storages.whole.keys() - extents.keys()
    if missing:
        raise broken(path, tr("storage {key} is missing or shorter than its tensors", key=brief(min(missing))))
    return value, extents


def _entry(path: Path, name: str, tensor: Tensor | Special, extents: Extents) -> TensorEntry:
    """A tensor that lies inside its storage."""
    if isinstance(tensor, Special):
        raise MindportError(
            tr("{path}: tensor {name} is not a plain array: {kind}.", path=path, name=brief(name), kind=tensor.kind),
            tr("Dequantise or cast the checkpoint first."),
        )
    code = CODES.get(tensor.dtype)
    if code is None:
        raise MindportError(
            tr(
                "{path}: tensor {name} has dtype {dtype}, which is not supported.",
                path=path,
                name=brief(name),
                dtype=brief(tensor.dtype),
            ),
            tr("Dequantise or cast the checkpoint first."),
        )
    storage, shape, strides = tensor.storage, tensor.shape, tensor.strides
    width, unit = item_size(tensor.dtype), item_size(storage.dtype)
    if len(shape) > _MOST_AXES or prod(n for n in shape if n) * width > sys.maxsize:
        raise broken(path, tr("tensor {name} has a shape that no array can have", name=brief(name)))
    offset = extents[storage.key].offset + storage.start * unit
    if 0 in shape:
        return TensorEntry(name, code, shape, path, offset)
    room = storage.count * unit // width
    if tensor.offset + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True)) >= room:
        raise broken(path, tr("tensor {name} reaches beyond its storage", name=brief(name)))
    if prod(shape) > room and prod(shape) * width > _MOST_REPEATED:
        raise broken(path, tr("tensor {name} has a shape that no array can have", name=brief(name)))
    kept = None if _follow_each_other(shape, strides) else strides
    return TensorEntry(name, code, shape, path, offset + tensor.offset * width, kept)


def _follow_each_other(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether elements lie in C order without gaps. The stride of an axis with one element says nothing."""
    step = 1
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1 and stride != step:
            return False
        step *= n
    return True


def _save_again(path: Path, reason: str) -> MindportError:
    return MindportError(
        tr("{path} is not supported: {reason}.", path=path, reason=reason),
        tr("Load it with torch and save model.state_dict() again."),
    )
