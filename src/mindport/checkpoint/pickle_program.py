"""A pickle read as data: a machine for the opcodes that torch.save writes, which imports and calls nothing.

A name that the pickle asks for is looked up in a table of our own; what stands there describes the thing and is never
the thing itself. A name that is not in the table is refused. Lengths are checked before anything is read, and the
number of steps and the bytes taken are limited, so that memory stays bounded whatever a file claims.
The opcodes are described in the standard library's pickletools.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from struct import unpack
from typing import Any, BinaryIO

from mindport.checkpoint.broken import broken
from mindport.errors import MindportError, brief
from mindport.i18n import tr

_MOST_STEPS = 1 << 23
"""A tensor takes about 32: enough for 250,000 tensors in one file."""

_MOST_BYTES = 128 << 20
"""Taken into memory over all steps."""

_LONGEST_TEXT = 1 << 16
"""Bytes of a string that is kept; a longer one names no tensor and is skipped."""

_LONGEST_INTEGER = 256
"""Bytes."""

_LONGEST_NAME = 1 << 10
"""Bytes of a module or of a name in it."""

_PYTHON_2 = {"__builtin__": "builtins", "copy_reg": "copyreg"}
"""Modules as protocol 2 spells them."""

_KEYS = (str, int, float, bool, bytes, type(None))
"""Types of dict keys. Tuples of these too; a deeper one might take exponential time to hash."""


class Opaque:
    """Stands for a value that is of no interest and is not looked into."""

    __slots__ = ()


OPAQUE = Opaque()


@dataclass(frozen=True, eq=False)
class Function:
    """Stands for a class or function.

    Args:
        build: of ours; makes the description of what a call with these arguments would return. It raises ValueError
            for arguments that make no sense.
    """

    build: Callable[[tuple[Any, ...]], Any]


class Source:
    """The bytes of a pickle in an open file: no more than there are, whatever lengths are claimed.

    Args:
        path: of the file, for messages.
        file: at the start of the pickle.
        left: bytes that the pickle may extend over.
    """

    def __init__(self, path: Path, file: BinaryIO, left: int) -> None:
        self.path = path
        self.left = left
        self.most = _MOST_BYTES
        self._file = file

    def take(self, count: int) -> bytes:
        """The next bytes."""
        if count > self.left or count > self.most:  # a step of the machine: kept short
            raise self._beyond(count)
        self.left -= count
        self.most -= count
        content = self._file.read(count)
        if len(content) < count:
            raise broken(self.path, tr("it is truncated"))
        return content

    def skip(self, count: int) -> None:
        """Go over bytes without reading them."""
        if count > self.left:
            raise self._beyond(count)
        self.left -= count
        self._file.seek(count, 1)

    def line(self) -> str:
        """The text before the next line feed."""
        content = self._file.readline(min(_LONGEST_NAME, self.left))
        if not content:
            raise self._beyond(1)
        self.left -= len(content)
        if not content.endswith(b"\n"):
            raise ValueError("a name without an end")
        return content[:-1].decode("utf-8")

    def _beyond(self, count: int) -> MindportError:
        return broken(self.path, tr("it is truncated")) if count > self.left else _too_large(self.path)


def run_program(source: Source, names: Mapping[str, Any], persistent: Callable[[Any], Any]) -> Any:
    """The value that a pickle describes. `source` then stands behind the pickle.

    Args:
        source: the pickle.
        names: what stands for each name that the pickle may ask for, such as "collections.OrderedDict".
        persistent: what stands for a persistent id; raises ValueError for one that makes no sense.

    Raises:
        MindportError: truncated, malformed, too large, or it asks for a name that is not in `names`.
    """
    machine = _Machine(source, names, persistent)
    try:
        for _ in range(_MOST_STEPS):
            code = source.take(1)
            if code == b".":
                return machine.stack.pop()
            _OPCODES[code](machine)
    except (IndexError, KeyError, TypeError, ValueError):
        # An empty stack, an unknown opcode or memo, a value of another type, text that is not UTF-8.
        raise broken(source.path, tr("its pickle is malformed")) from None
    raise _too_large(source.path)


class _Machine:
    """The stack, the marks and the memo. A method is one opcode; errors of Python mean that the pickle is malformed."""

    def __init__(self, source: Source, names: Mapping[str, Any], persistent: Callable[[Any], Any]) -> None:
        self.source = source
        self.names = names
        self.persistent = persistent
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []
        self.memo: dict[int, Any] = {}

    def number(self, size: int) -> int:
        return int.from_bytes(self.source.take(size), "little")

    def text(self, size: int) -> None:
        length = self.number(size)
        self.stack.append(self._kept(length, lambda content: content.decode("utf-8")))

    def old_text(self, size: int) -> None:
        """A string of Python 2: text or bytes."""

        def value(content: bytes) -> str | bytes:
            try:
                return content.decode("utf-8")
            except UnicodeDecodeError:
                return content

        self.stack.append(self._kept(self.number(size), value))

    def binary(self, size: int) -> None:
        self.stack.append(self._kept(self.number(size), bytes))

    def _kept(self, length: int, value: Callable[[bytes], Any]) -> Any:
        if length <= _LONGEST_TEXT:
            return value(self.source.take(length))
        self.source.skip(length)
        return OPAQUE

    def integer(self, size: int) -> None:
        length = self.number(size)
        if length > _LONGEST_INTEGER:
            raise ValueError("an integer that large counts nothing")
        self.stack.append(int.from_bytes(self.source.take(length), "little", signed=True))

    def signed(self) -> None:
        self.stack.append(int.from_bytes(self.source.take(4), "little", signed=True))

    def unsigned(self, size: int) -> None:
        self.stack.append(self.number(size))

    def real(self) -> None:
        self.stack.append(unpack(">d", self.source.take(8))[0])

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def mark(self) -> None:
        self.below.append(self.stack)
        self.stack = []

    def above_mark(self) -> list[Any]:
        items, self.stack = self.stack, self.below.pop()
        return items

    def pop(self) -> None:
        if self.stack:
            self.stack.pop()
        else:  # the mark itself
            self.above_mark()

    def tuple_of(self, count: int) -> None:
        if len(self.stack) < count:
            raise IndexError
        self.stack[-count:] = [tuple(self.stack[-count:])]

    def marked_tuple(self) -> None:
        items = self.above_mark()
        self.stack.append(tuple(items))

    def append(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if isinstance(target, list):
            target.extend(items)
        elif not isinstance(target, Opaque):
            raise TypeError

    def add_items(self) -> None:
        """Members of a set."""
        self.above_mark()
        if not isinstance(self.stack[-1], Opaque):
            raise TypeError

    def frozen_set(self) -> None:
        self.above_mark()
        self.stack.append(OPAQUE)

    def set_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if isinstance(target, Opaque):
            return
        if not isinstance(target, dict):
            raise TypeError
        for key, value in zip(items[::2], items[1::2], strict=True):
            if isinstance(key, Opaque):
                key = Opaque()  # which one it was is not known, so each is a key of its own
            elif not _may_be_key(key) or key in target:
                raise ValueError("a key no dict of a checkpoint has, or one twice")
            target[key] = value

    def set_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self.set_items([key, value])

    def build(self) -> None:
        """State of an object: attributes of a dict, such as the versions of modules, or of something opaque."""
        self.stack.pop()
        if not isinstance(self.stack[-1], dict | Opaque):
            raise TypeError

    def call(self) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        if not isinstance(function, Function) or not isinstance(arguments, tuple):
            raise TypeError
        self.stack.append(function.build(arguments))

    def call_with_names(self) -> None:
        self.stack.pop()
        self.call()

    def look_up(self, module: str, name: str) -> None:
        asked = f"{_PYTHON_2.get(module, module)}.{name}"
        if asked not in self.names:
            raise MindportError(
                tr(
                    "{path} asks for {name}, which no weights need; nothing was run.",
                    path=self.source.path,
                    name=brief(asked),
                ),
                tr("If you trust the file, load it with torch and save only model.state_dict()."),
            )
        self.stack.append(self.names[asked])

    def named_in_lines(self) -> None:
        self.look_up(self.source.line(), self.source.line())

    def named_on_stack(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise TypeError
        self.look_up(module, name)

    def put(self, index: int) -> None:
        self.memo[index] = self.stack[-1]

    def persistent_id(self) -> None:
        self.stack.append(self.persistent(self.stack.pop()))


def _may_be_key(key: Any) -> bool:
    if isinstance(key, tuple):
        return len(key) <= 8 and all(_is_plain(part) for part in key)
    return _is_plain(key)


def _is_plain(key: Any) -> bool:
    # Integers of any size could be made to share one hash value.
    return type(key) in _KEYS and not (type(key) is int and key.bit_length() > 64)


def _too_large(path: Path) -> MindportError:
    return MindportError(
        tr("{path} holds more objects than any model has tensors.", path=path),
        tr("Save only model.state_dict(), in several files if need be."),
    )


_OPCODES: dict[bytes, Callable[[_Machine], None]] = {
    b"\x80": lambda m: m.source.skip(1),  # PROTO
    b"\x95": lambda m: m.source.skip(8),  # FRAME
    b"(": _Machine.mark,
    b"0": _Machine.pop,
    b"1": lambda m: m.above_mark().clear(),
    b"N": lambda m: m.push(None),
    b"\x88": lambda m: m.push(True),
    b"\x89": lambda m: m.push(False),
    b"J": _Machine.signed,
    b"K": lambda m: m.unsigned(1),
    b"M": lambda m: m.unsigned(2),
    b"\x8a": lambda m: m.integer(1),
    b"\x8b": lambda m: m.integer(4),
    b"G": _Machine.real,
    b"X": lambda m: m.text(4),
    b"\x8c": lambda m: m.text(1),
    b"\x8d": lambda m: m.text(8),
    b"U": lambda m: m.old_text(1),
    b"T": lambda m: m.old_text(4),
    b"B": lambda m: m.binary(4),
    b"C": lambda m: m.binary(1),
    b"\x8e": lambda m: m.binary(8),
    b"\x96": lambda m: m.binary(8),  # BYTEARRAY8
    b")": lambda m: m.push(()),
    b"t": _Machine.marked_tuple,
    b"\x85": lambda m: m.tuple_of(1),
    b"\x86": lambda m: m.tuple_of(2),
    b"\x87": lambda m: m.tuple_of(3),
    b"]": lambda m: m.push([]),
    b"a": lambda m: m.append([m.stack.pop()]),
    b"e": lambda m: m.append(m.above_mark()),
    b"}": lambda m: m.push({}),
    b"s": _Machine.set_item,
    b"u": lambda m: m.set_items(m.above_mark()),
    b"\x8f": lambda m: m.push(OPAQUE),  # EMPTY_SET
    b"\x90": _Machine.add_items,
    b"\x91": _Machine.frozen_set,
    b"c": _Machine.named_in_lines,
    b"\x93": _Machine.named_on_stack,
    b"R": _Machine.call,
    b"\x81": _Machine.call,  # NEWOBJ
    b"\x92": _Machine.call_with_names,  # NEWOBJ_EX
    b"b": _Machine.build,
    b"Q": _Machine.persistent_id,
    b"q": lambda m: m.put(m.number(1)),
    b"r": lambda m: m.put(m.number(4)),
    b"\x94": lambda m: m.put(len(m.memo)),
    b"h": lambda m: m.push(m.memo[m.number(1)]),
    b"j": lambda m: m.push(m.memo[m.number(4)]),
}
"""Opcode -> what it does. Those of protocols 0 and 1 alone, and out-of-band buffers, torch.save does not write."""
