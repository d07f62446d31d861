"""The safetensors format: a length, a JSON header, and the tensors end to end.

Read here rather than through the safetensors package because a conversion copies byte ranges and needs their offsets.
The format is described at https://github.com/huggingface/safetensors.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

from mindport.checkpoint.broken import broken
from mindport.checkpoint.dtypes import ITEM_SIZE
from mindport.checkpoint.source import TensorEntry
from mindport.config.json_file import parse_json, unreadable
from mindport.errors import MindportError, brief
from mindport.i18n import tr

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"

_HEADER_LIMIT = 100 << 20
"""Bytes; the limit of the safetensors package."""

_MOST_AXES = 32
"""The limit of numpy 1; models have up to five."""


def read_header(path: Path) -> dict[str, TensorEntry]:
    """The tensors of one file, checked to lie end to end and to fill it exactly.

    Raises:
        MindportError: missing, truncated, or a header that is not what the format allows.
    """
    if not os.path.isfile(path):
        raise MindportError(tr("{path} does not exist.", path=path), tr("Check the path."))
    size = path.stat().st_size
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > size - 8:
                raise broken(path, tr("it is truncated"))
            if length > _HEADER_LIMIT:
                raise broken(path, tr("its header claims {length} bytes", length=length))
            content = file.read(length)
    except OSError as error:
        raise unreadable(path, error) from None
    try:
        header = parse_json(content, object_pairs_hook=_unique) if content.startswith(b"{") else None
    except ValueError:
        header = None
    if header is None:
        raise broken(path, tr("its header is not valid JSON"))
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise broken(path, tr("its metadata is not an object of strings"))
    start = 8 + length
    entries = {name: _entry(path, name, info, start) for name, info in header.items()}
    end = start
    for entry in sorted(entries.values(), key=lambda e: (e.offset, e.nbytes)):
        if entry.offset != end:
            raise broken(path, tr("tensor {name} overlaps another or leaves a gap", name=brief(entry.name)))
        end += entry.nbytes
    if end > size:
        raise broken(path, tr("it is truncated"))
    if end < size:
        raise broken(path, tr("{count} bytes follow the last tensor", count=size - end))
    return entries


def make_header(
    tensors: Sequence[tuple[str, str, tuple[int, ...]]], metadata: Mapping[str, str]
) -> tuple[bytes, dict[str, int]]:
    """The first bytes of a file that holds these tensors in this order.

    Args:
        tensors: (name, dtype code, shape).
        metadata: free strings.

    Returns:
        header bytes, padded with spaces to a multiple of 8, and name -> first byte of the tensor in the file.
    """
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    position = 0
    for name, dtype, shape in tensors:
        end = position + prod(shape) * ITEM_SIZE[dtype]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [position, end]}
        position = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    text += b" " * (-len(text) % 8)
    start = 8 + len(text)
    offsets = {name: start + header[name]["data_offsets"][0] for name, _, _ in tensors}
    return len(text).to_bytes(8, "little") + text, offsets


def _entry(path: Path, name: str, info: Any, start: int) -> TensorEntry:
    try:
        dtype, shape, (begin, end) = info["dtype"], info["shape"], info["data_offsets"]
        whole = (*shape, begin, end)
        valid = (
            isinstance(dtype, str)
            and isinstance(shape, list)
            and all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= sys.maxsize for n in whole)
            and set(info) == {"dtype", "shape", "data_offsets"}
        )
    except (TypeError, KeyError, ValueError):
        valid = False
    if not valid:
        raise broken(path, tr("tensor {name} is not described as the format demands", name=brief(name)))
    if dtype not in ITEM_SIZE:
        raise MindportError(
            tr(
                "{path}: tensor {name} has dtype {dtype}, which is not supported.",
                path=path,
                name=brief(name),
                dtype=brief(dtype),
            ),
            tr("Dequantise or cast the checkpoint first."),
        )
    if len(shape) > _MOST_AXES or prod(n for n in shape if n) * ITEM_SIZE[dtype] > sys.maxsize:
        raise broken(path, tr("tensor {name} has a shape that no array can have", name=brief(name)))
    if end - begin != prod(shape) * ITEM_SIZE[dtype]:
        raise broken(path, tr("tensor {name} has a size other than its shape says", name=brief(name)))
    return TensorEntry(name, dtype, tuple(shape), path, start + begin)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("duplicate key")
    return result
