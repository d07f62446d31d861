"""Where the members of an uncompressed zip file lie.

Read here rather than through zipfile, which gives no offsets of contents and believes the sizes that a file claims.
The format is described in PKWARE's APPNOTE.TXT.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from struct import unpack_from

from mindport.checkpoint.broken import broken
from mindport.errors import MindportError, brief
from mindport.i18n import tr

_END = b"PK\x05\x06"
_END64 = b"PK\x06\x06"
_LOCATOR64 = b"PK\x06\x07"
_CENTRAL = b"PK\x01\x02"
_LOCAL = b"PK\x03\x04"

_LONGEST_DIRECTORY = 32 << 20
"""Bytes: a few hundred thousand members."""


@dataclass(frozen=True, slots=True)
class Member:
    """Where the content of a member lies in the file, in bytes."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class _Listed:
    """A member as the central directory describes it: the start of its local header, and the size of its content."""

    name: bytes
    header: int
    size: int


def zip_members(path: Path, descriptor: int, size: int) -> dict[str, Member]:
    """The members of a zip file, checked to lie apart from each other and inside the file.

    Args:
        path: of the file, for messages.
        descriptor: the open file.
        size: of the file, in bytes.

    Raises:
        MindportError: truncated, compressed or encrypted members, or a directory that is not what the format allows.
    """
    count, start, length = _directory(path, descriptor, size)
    content = os.pread(descriptor, length, start)
    if len(content) < length:
        raise broken(path, tr("it is truncated"))
    found: dict[str, Member] = {}
    end = 0
    for listed in sorted(_listed(path, content, count), key=lambda entry: entry.header):
        name = _text(path, listed.name)
        head = os.pread(descriptor, 30 + len(listed.name), listed.header)
        if len(head) < 30 + len(listed.name) or not head.startswith(_LOCAL) or head[30:] != listed.name:
            raise broken(path, tr("its directory does not fit member {name}", name=brief(name)))
        method, name_length, extra_length = unpack_from("<8xH16xHH", head)
        if method:
            raise _compressed(path, name)
        offset = listed.header + 30 + name_length + extra_length
        if name_length != len(listed.name) or listed.header < end or offset + listed.size > start:
            raise broken(path, tr("member {name} overlaps another or leaves the file", name=brief(name)))
        end = offset + listed.size
        if name in found:
            raise broken(path, tr("member {name} occurs twice", name=brief(name)))
        found[name] = Member(offset, listed.size)
    return found


def _directory(path: Path, descriptor: int, size: int) -> tuple[int, int, int]:
    """Number of members, and first byte and length of the central directory."""
    tail_start = max(0, size - 22 - 0xFFFF)
    tail = os.pread(descriptor, size - tail_start, tail_start)
    place = tail.rfind(_END)
    if place < 0 or len(tail) - place < 22 or unpack_from("<H", tail, place + 20)[0] != len(tail) - place - 22:
        raise broken(path, tr("it is truncated"))
    count, length, start = values = unpack_from("<HII", tail, place + 10)
    limit = tail_start + place
    locator = os.pread(descriptor, 20, limit - 20) if limit >= 20 else b""
    if locator.startswith(_LOCATOR64):
        limit = unpack_from("<Q", locator, 8)[0]
        record = os.pread(descriptor, 56, limit) if limit <= size else b""
        if len(record) < 56 or not record.startswith(_END64):
            raise broken(path, tr("its directory is malformed"))
        count, length, start = values64 = unpack_from("<QQQ", record, 32)
        if any(
            short not in (long, full)
            for short, long, full in zip(values, values64, (0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF), strict=True)
        ):
            raise broken(path, tr("its directory is malformed"))
    if start + length > limit or count * 46 > length or length > _LONGEST_DIRECTORY:
        raise broken(path, tr("its directory is malformed"))
    return count, start, length


def _listed(path: Path, content: bytes, count: int) -> list[_Listed]:
    found = []
    place = 0
    for _ in range(count):
        if content[place : place + 4] != _CENTRAL or place + 46 > len(content):
            raise broken(path, tr("its directory is malformed"))
        flags, method, packed, size, name_length, extra_length, comment_length, attributes, header = unpack_from(
            "<8xHH8xIIHHH4xII", content, place
        )
        extra_start = place + 46 + name_length
        name = content[place + 46 : extra_start]
        extra = content[extra_start : extra_start + extra_length]
        place = extra_start + extra_length + comment_length
        if place > len(content):
            raise broken(path, tr("its directory is malformed"))
        if method or flags & 1:
            raise _compressed(path, _text(path, name))
        size, packed, header = _wide(extra, size, packed, header)
        folder = attributes & 0x10 and not name.endswith(b"/")  # for which torch returns memory it never filled
        if folder or size != packed or 0xFFFFFFFF in (size, header):
            raise broken(path, tr("its directory is malformed"))
        found.append(_Listed(name, header, size))
    return found


def _wide(extra: bytes, *values: int) -> tuple[int, ...]:
    """The values, with those that did not fit into 32 bits taken from the zip64 field, which lists only them."""
    place = 0
    while place + 4 <= len(extra):
        kind, length = unpack_from("<HH", extra, place)
        if kind == 1:
            field = extra[place + 4 : place + 4 + length]
            wide = iter(unpack_from(f"<{len(field) // 8}Q", field))
            return tuple(next(wide, value) if value == 0xFFFFFFFF else value for value in values)
        place += 4 + length
    return values


def _text(path: Path, name: bytes) -> str:
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        raise broken(path, tr("the name {name} is not UTF-8", name=brief(name))) from None


def _compressed(path: Path, name: str) -> MindportError:
    return MindportError(
        tr(
            "{path}: member {name} is compressed or encrypted, which torch.save never does.",
            path=path,
            name=brief(name),
        ),
        tr("Unpack the archive, or save the file again with torch.save."),
    )
