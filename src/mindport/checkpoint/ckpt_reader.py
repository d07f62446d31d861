"""Reading MindSpore's `.ckpt`: where each parameter lies, its content left unread.

The layout is in `ckpt.py`; it is that of the schema in mindspore.train.checkpoint_pb2. A checksum at the end is
accepted and not verified: it covers every byte, so that checking it would read the whole file once more.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

from mindport.checkpoint.broken import broken
from mindport.checkpoint.ckpt import TYPE_NAMES
from mindport.checkpoint.dtypes import ITEM_SIZE
from mindport.checkpoint.source import TensorEntry
from mindport.config.json_file import unreadable
from mindport.errors import MindportError, brief
from mindport.i18n import tr

_CODES = {name: code for code, name in TYPE_NAMES.items()}

_TEXT = "str"
"""Type of values that `append_dict` added as text."""

_CHECKSUM, _CHECKSUM_BYTES = b"crc_num", 17
"""What precedes a checksum, and the length of both."""

_WINDOW = 1 << 12
"""Bytes read at a time: the descriptions of several small parameters, or of one large one."""

_LONGEST_TEXT = 1 << 16
"""Bytes of a name."""

_MOST_AXES = 32
"""The limit of numpy 1; models have up to five."""


@dataclass(frozen=True, slots=True)
class _Message:
    """One parameter, or a slice of one; `start` and `length` of the content in bytes of the file."""

    name: str
    kind: str
    dims: tuple[int, ...]
    start: int
    length: int


def read_ckpt(path: Path) -> dict[str, TensorEntry]:
    """The tensors of one file. Text beside them is left out; numbers of `append_dict` are tensors without axes.

    Raises:
        MindportError: missing, truncated, encrypted, or anything else than the format allows.
    """
    if not os.path.isfile(path):
        raise MindportError(tr("{path} does not exist.", path=path), tr("Check the path."))
    try:
        with path.open("rb") as file:
            messages = list(_messages(_Cursor(path, file.fileno(), path.stat().st_size)))
    except OSError as error:
        raise unreadable(path, error) from None
    entries: dict[str, TensorEntry] = {}
    seen = set()
    place = 0
    while place < len(messages):
        first = messages[place]
        if first.name in seen:
            raise broken(path, tr("tensor {name} occurs twice", name=brief(first.name)))
        seen.add(first.name)
        slices = [first]
        place += 1
        while place < len(messages) and messages[place].name == first.name:
            slices.append(messages[place])
            place += 1
        if first.kind != _TEXT:
            entries[first.name] = _entry(path, slices)
    return entries


def _entry(path: Path, slices: list[_Message]) -> TensorEntry:
    first = slices[0]
    code = _CODES.get(first.kind)
    if code is None:
        raise MindportError(
            tr(
                "{path}: tensor {name} has dtype {dtype}, which is not supported.",
                path=path,
                name=brief(first.name),
                dtype=brief(first.kind),
            ),
            tr("Dequantise or cast the checkpoint first."),
        )
    shape, total = first.dims, sum(part.length for part in slices)
    if shape == (0,) and total:
        shape = ()  # how older versions wrote a scalar
    if len(shape) > _MOST_AXES or prod(n for n in shape if n) * ITEM_SIZE[code] > sys.maxsize:
        raise broken(path, tr("tensor {name} has a shape that no array can have", name=brief(first.name)))
    if any((part.kind, part.dims) != (first.kind, first.dims) for part in slices):
        raise broken(path, tr("tensor {name} occurs twice", name=brief(first.name)))
    if total != prod(shape) * ITEM_SIZE[code]:
        raise broken(path, tr("tensor {name} has a size other than its shape says", name=brief(first.name)))
    pieces = tuple((part.start, part.length) for part in slices) if len(slices) > 1 else ()
    return TensorEntry(first.name, code, shape, path, first.start, pieces=pieces)


def _messages(cursor: _Cursor) -> Iterator[_Message]:
    while cursor.place < cursor.size:
        if cursor.size - cursor.place == _CHECKSUM_BYTES and cursor.peek(len(_CHECKSUM)) == _CHECKSUM:
            return
        if cursor.varint(cursor.size) != _key(1):
            raise broken(cursor.path, tr("no parameter begins at byte {place}", place=cursor.place))
        yield _value(cursor, cursor.length(cursor.size))


def _value(cursor: _Cursor, end: int) -> _Message:
    """Value: tag (1) and tensor (2)."""
    name: str | None = None
    tensor: tuple[str, tuple[int, ...], int, int] | None = None
    while cursor.place < end:
        field = cursor.varint(end)
        if field == _key(1) and name is None:
            name = cursor.text(end)
        elif field == _key(2) and tensor is None:
            tensor = _tensor(cursor, cursor.length(end))
        elif field == _key(3):
            raise MindportError(
                tr("{path}: {name} is a MapParameter, which is not supported.", path=cursor.path, name=brief(name)),
                tr("Save the checkpoint without it."),
            )
        else:
            raise cursor.malformed()
    if name is None or tensor is None:
        raise cursor.malformed()
    return _Message(name, *tensor)


def _tensor(cursor: _Cursor, end: int) -> tuple[str, tuple[int, ...], int, int]:
    """TensorProto: dims (1), tensor_type (2), tensor_content (3)."""
    dims: list[int] = []
    kind: str | None = None
    content: tuple[int, int] | None = None
    while cursor.place < end:
        field = cursor.varint(end)
        if field == 1 << 3:
            dims.append(cursor.varint(end))
            if len(dims) > _MOST_AXES or dims[-1] > sys.maxsize:
                raise cursor.malformed()
        elif field == _key(2) and kind is None:
            kind = cursor.text(end)
        elif field == _key(3) and content is None:
            stop = cursor.length(end)
            content = cursor.place, stop - cursor.place
            cursor.place = stop
        else:
            raise cursor.malformed()
    if kind is None or content is None:
        raise cursor.malformed()
    return kind, tuple(dims), *content


def _key(number: int) -> int:
    """Key of a length-delimited field."""
    return number << 3 | 2


class _Cursor:
    """A place in the file, and a window of it in memory.

    Args:
        path: of the file, for messages.
        descriptor: the open file.
        size: of the file, in bytes.
    """

    def __init__(self, path: Path, descriptor: int, size: int) -> None:
        self.path = path
        self.size = size
        self.place = 0
        self._descriptor = descriptor
        self._start = 0
        self._window = b""

    def peek(self, count: int) -> bytes:
        """The next bytes; fewer where the file ends."""
        begin = self.place - self._start
        if begin < 0 or begin + count > len(self._window):
            self._start, begin = self.place, 0
            self._window = os.pread(self._descriptor, max(count, _WINDOW), self.place)
        return self._window[begin : begin + count]

    def varint(self, end: int) -> int:
        """An integer of up to 64 bits before `end`."""
        value = shift = 0
        for byte in self.peek(min(10, end - self.place)):
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                if value >> 64:
                    break
                self.place += shift // 7
                return value
        raise self.malformed()

    def length(self, end: int) -> int:
        """Where the field ends whose length comes next."""
        length = self.varint(end)
        if length > end - self.place:
            raise self.truncated() if end == self.size else self.malformed()
        return self.place + length

    def text(self, end: int) -> str:
        """A string of UTF-8."""
        stop = self.length(end)
        length = stop - self.place
        if length > _LONGEST_TEXT:
            raise self.malformed()
        content = self.peek(length)
        if len(content) < length:
            raise self.truncated()
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            raise broken(self.path, tr("the name {name} is not UTF-8", name=brief(content))) from None
        self.place = stop
        return text

    def malformed(self) -> MindportError:
        """The error for a field that has no place here."""
        return broken(self.path, tr("its parameters are malformed at byte {place}", place=self.place))

    def truncated(self) -> MindportError:
        """The error for a file that ends too early."""
        return broken(self.path, tr("it is truncated"))
