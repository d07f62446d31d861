"""MindSpore's `.ckpt`: a concatenation of protobuf messages, one (or a slice) for each parameter.

Layout found by reading files that `mindspore.save_checkpoint` 2.10 wrote: message Checkpoint { value (1): { tag (1):
name, tensor (2): { dims (1): repeated varint, tensor_type (2): string, tensor_content (3): bytes } } }.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from mindport.checkpoint.dtypes import ITEM_SIZE

SLICE_BYTES = 512 << 20
"""Content above this is split into consecutive messages with the same tag and dims, as MindSpore does."""

TYPE_NAMES: dict[str, str] = {
    "F64": "Float64", "F32": "Float32", "F16": "Float16", "BF16": "BFloat16",
    "I64": "Int64", "I32": "Int32", "I16": "Int16", "I8": "Int8",
    "U64": "UInt64", "U32": "UInt32", "U16": "UInt16", "U8": "UInt8",
    "BOOL": "Bool",
}  # fmt: skip
"""safetensors code -> MindSpore's name of the type in a file."""


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, length: int) -> bytes:
    """Key and length of a length-delimited field."""
    return _varint(number << 3 | 2) + _varint(length)


def slices(name: str, dtype: str, shape: tuple[int, ...], limit: int = SLICE_BYTES) -> Iterator[tuple[bytes, int, int]]:
    """The messages of one parameter.

    Yields:
        the bytes before the content, and the content's first byte and length within the parameter.
    """
    total = prod(shape) * ITEM_SIZE[dtype]
    tag = name.encode("utf-8")
    kind = TYPE_NAMES[dtype].encode("ascii")
    described = b"".join(_varint(1 << 3) + _varint(n) for n in shape) + _field(2, len(kind)) + kind
    for start in range(0, max(total, 1), limit):
        length = min(limit, total - start)
        tensor_head = described + _field(3, length)
        value_head = _field(1, len(tag)) + tag + _field(2, len(tensor_head) + length) + tensor_head
        yield _field(1, len(value_head) + length) + value_head, start, length
