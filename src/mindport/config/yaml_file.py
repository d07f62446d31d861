"""Reading YAML that people wrote, as PyYAML's safe loader understands it, and with the place of every value.

MindFormers reads its files with PyYAML, which follows YAML 1.1: `1e-3` is a string, `on` is true, `010` is 8. What
another reader makes of a file is of no use here, so plain words are told apart by the rules of that version, and by
nothing else. No object is ever made from a tag.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mindport.config.json_file import read_limited
from mindport.errors import MindportError, brief
from mindport.i18n import tr

Event = Any
"""Of ruamel.yaml's parser, which declares neither tags nor anchors."""

LIMIT = 512 << 10
"""Bytes; training files have some ten thousand."""

DEEPEST = 32
"""Levels of nesting; training files have about six."""

MOST_VALUES = 20_000
"""Values in a file, counting what an alias stands for each time: some hundred in training files."""

KeyPath = tuple[str | int, ...]
"""The way to a value: keys of mappings, indices of lists."""


@dataclass(eq=False)
class Node:
    """A value in a file.

    Args:
        kind: "scalar", "list", "map" or "alias".
        value: the text of a scalar; a list of nodes; a list of (key, value) pairs of nodes; what an alias stands for.
        start, end: where its text begins and ends, in characters; of a block, `end` is where its last value ends.
        line: the line it starts on, from 1.
        plain: a scalar without quotes.
        flow: a list or mapping in brackets.
        tag: as written, or None.
        anchor: its name, where it has one.
    """

    kind: str
    value: Any
    start: int
    end: int
    line: int
    plain: bool = False
    flow: bool = False
    tag: str | None = None
    anchor: str | None = None


@dataclass(frozen=True)
class YamlFile:
    """A file that was read.

    Args:
        path: where it lies.
        text: its content, without a BOM.
        root: its node, a mapping.
        values: what it says, in plain Python.
        lines: where each value stands, by its way.
    """

    path: Path
    text: str
    root: Node
    values: dict[str, Any]
    lines: dict[KeyPath, int] = field(default_factory=dict)


def read_yaml(path: Path) -> YamlFile:
    """A mapping from a YAML file.

    Raises:
        MindportError: missing, too large, not UTF-8, not YAML, not one mapping; with a key that has two values, with a
            tag of an application, nested too deeply, or with aliases that grow beyond all bounds.
    """
    content = read_limited(path)
    if len(content) > LIMIT:
        raise MindportError(
            tr("{path} is too large: more than {limit} KiB.", path=path, limit=LIMIT >> 10), tr("Check the path.")
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _invalid(path, tr("it is not UTF-8 (byte {place})", place=error.start)) from None
    return parse_yaml(text, path)


def parse_yaml(text: str, path: Path) -> YamlFile:
    """The same from a text; `path` is only what messages call it. See `read_yaml`."""
    root = compose(text, path)
    if root is None:
        raise _invalid(path, tr("it is empty"))
    if root.kind != "map":
        raise _invalid(path, tr("it does not hold a mapping of keys to values"))
    reader = _Values(path)
    return YamlFile(path, text, root, reader.value_of(root, ()), reader.lines)


def compose(text: str, path: Path) -> Node | None:
    """The node of the only document in a text; None where there is nothing.

    Raises:
        MindportError: as `read_yaml`, where the text alone tells.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    if _open_brackets(text) > _MOST_OPEN:
        raise _invalid(path, tr("nested too deeply"))
    events = iter(YAML(typ="safe", pure=True).parse(text))
    try:
        return _Composer(events, path).document()
    except YAMLError as error:
        raise _invalid(path, _described(error)) from None
    except (ValueError, OverflowError):  # which the scanner lets through
        raise _invalid(path, tr("an escape in quotes names no character")) from None


_MOST_OPEN = 1000
"""Brackets open at once, those in strings included. The scanner's time grows with their square."""


def _open_brackets(text: str) -> int:
    most = now = 0
    for bracket in re.findall(r"[\[{\]}]", text):
        now += 1 if bracket in "[{" else -1
        most = max(most, now)
    return most


def write_text(path: Path, text: str, *, overwrite: bool) -> None:
    """A text file that appears complete or not at all.

    Raises:
        MindportError: there is something under this name already, and it may not be replaced; or it cannot be written.
    """
    if path.is_dir() or (path.exists() and not overwrite):
        raise MindportError(tr("{path} already exists.", path=path), tr("Give another path, or --overwrite."))
    draft = path.with_name(f".{path.name}.partial")
    try:
        draft.write_bytes(text.encode("utf-8"))
        os.replace(draft, path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise MindportError(
            tr("{path} could not be written: {error}.", path=path, error=error.strerror), tr("Check the path.")
        ) from None


class _Composer:
    """Nodes from the events of a parser."""

    def __init__(self, events: Iterator[Event], path: Path) -> None:
        self.events = events
        self.path = path
        self.anchors: dict[str, Node] = {}
        self.count = 0

    def document(self) -> Node | None:
        root = None
        for event in self.events:
            kind = type(event).__name__
            if kind == "DocumentStartEvent":
                if root is not None:
                    raise _invalid(self.path, tr("it holds several documents (line {line})", line=_line(event)))
                root = self.node(next(self.events), 0)
        return None if root is None or (root.kind == "scalar" and root.plain and root.value == "") else root

    def node(self, event: Event, depth: int) -> Node:
        kind = type(event).__name__
        self.count += 1
        if depth > DEEPEST or self.count > MOST_VALUES:
            why = tr("nested too deeply") if depth > DEEPEST else tr("it holds too many values")
            raise _invalid(self.path, tr("{why} (line {line})", why=why, line=_line(event)))
        if kind == "AliasEvent":
            return self._aliased(event)
        tag = str(event.tag) if event.tag is not None else None
        if tag is not None and tag not in _TAGS:
            raise MindportError(
                tr(
                    "{path} asks for an object by the tag {tag} (line {line}); nothing is made from tags.",
                    path=self.path,
                    tag=brief(tag),
                    line=_line(event),
                ),
                tr("Write the value without a tag."),
            )
        node = Node("scalar", "", event.start_mark.index, event.end_mark.index, _line(event), tag=tag)
        if kind == "ScalarEvent":
            node.value, node.plain = event.value, not event.style
            self._name(node, event)
        else:
            node.kind, node.flow = ("list" if kind == "SequenceStartEvent" else "map"), bool(event.flow_style)
            node.value = []
            self._fill(node, depth)
            self._name(node, event)
        return node

    def _fill(self, node: Node, depth: int) -> None:
        closing = "SequenceEndEvent" if node.kind == "list" else "MappingEndEvent"
        while type(event := next(self.events)).__name__ != closing:
            first = self.node(event, depth + 1)
            if node.kind == "list":
                node.value.append(first)
            else:
                if first.kind != "scalar":
                    raise _invalid(self.path, tr("a list or a mapping is used as a key (line {line})", line=first.line))
                node.value.append((first, self.node(next(self.events), depth + 1)))
        if node.flow:
            node.end = event.end_mark.index
        elif node.value:
            last = node.value[-1]
            node.end = (last[1] if node.kind == "map" else last).end

    def _name(self, node: Node, event: Event) -> None:
        """An anchor counts from where its node is complete: a node cannot hold itself."""
        if event.anchor:
            node.anchor = str(event.anchor)
            self.anchors[node.anchor] = node

    def _aliased(self, event: Event) -> Node:
        name = str(event.anchor)
        if name not in self.anchors:
            raise _invalid(
                self.path,
                tr("the alias {name} stands for nothing before it (line {line})", name=name, line=_line(event)),
            )
        meant = self.anchors[name]
        return Node(
            "alias", meant, event.start_mark.index, event.end_mark.index, _line(event), plain=False, flow=meant.flow
        )


class _Values:
    """Plain values from nodes, and the line of each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: dict[KeyPath, int] = {}
        self.left = MOST_VALUES

    def value_of(self, node: Node, way: KeyPath) -> Any:
        self.left -= 1
        if self.left < 0:
            raise MindportError(
                tr("The aliases in {path} stand for too many values.", path=self.path),
                tr("Write the values out where they are meant."),
            )
        self.lines.setdefault(way, node.line)
        while node.kind == "alias":
            node = node.value
        if node.kind == "scalar":
            return self._scalar(node)
        if node.kind == "list":
            return [self.value_of(item, (*way, number)) for number, item in enumerate(node.value)]
        return self._mapping(node, way)

    def _mapping(self, node: Node, way: KeyPath) -> dict[Any, Any]:
        merged: dict[Any, Any] = {}
        own: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            if key_node.plain and key_node.value == "<<":
                for part in self._merged(value_node, way):
                    merged = {**part, **merged}
                continue
            key = self._scalar(key_node)
            key = key if isinstance(key, str | int) and not isinstance(key, bool) else key_node.value
            self.lines[(*way, key)] = key_node.line
            value = self.value_of(value_node, (*way, key))
            if key in own and repr(own[key]) != repr(value):
                raise MindportError(
                    tr("{path} gives {key} more than once, with different values.", path=self.path, key=brief(key)),
                    tr("Keep the value that is meant."),
                )
            own[key] = value
        return {**merged, **own}

    def _merged(self, node: Node, way: KeyPath) -> list[dict[Any, Any]]:
        value = self.value_of(node, (*way, "<<"))
        parts = value if isinstance(value, list) else [value]
        if not all(isinstance(part, dict) for part in parts):
            raise _invalid(self.path, tr("<< takes in something that is not a mapping (line {line})", line=node.line))
        return parts

    def _scalar(self, node: Node) -> Any:
        kind = _TAGS.get(node.tag or "")
        if kind == "str" or (kind is None and not node.plain):
            return node.value
        try:
            return resolved(node.value)
        except ValueError:
            raise _invalid(self.path, tr("a number has too many digits (line {line})", line=node.line)) from None


_CORE = "tag:yaml.org,2002:"
_TAGS = {f"{_CORE}{name}": name for name in ("str", "int", "float", "bool", "null", "seq", "map")} | {"!": "str"}
"""The tags that name no object of any application."""

_BOOLS = {
    **{word: True for base in ("yes", "true", "on") for word in (base, base.capitalize(), base.upper())},
    **{word: False for base in ("no", "false", "off") for word in (base, base.capitalize(), base.upper())},
}
_NULLS = ("", "~", "null", "Null", "NULL")
_INT = re.compile(r"[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]+|0|[1-9][0-9_]*)")
_SIXTIES = re.compile(r"[-+]?[1-9][0-9_]*(:[0-5]?[0-9])+")
_FLOAT = re.compile(r"([-+]?[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)([eE][-+][0-9]+)?")
_INFINITE = re.compile(r"([-+]?)\.(?:inf|Inf|INF)")
_NAN = re.compile(r"\.(?:nan|NaN|NAN)")


def resolved(word: str) -> Any:
    """What a word without quotes means, by the rules of YAML 1.1 as PyYAML has them.

    Raises:
        ValueError: an integer of thousands of digits.
    """
    if word in _NULLS:
        return None
    if word in _BOOLS:
        return _BOOLS[word]
    if _INT.fullmatch(word):
        return _integer(word.replace("_", ""))
    if _FLOAT.fullmatch(word):
        return float(word.replace("_", ""))
    if _SIXTIES.fullmatch(word):
        sign = -1 if word[0] == "-" else 1
        value = 0
        for part in word.lstrip("+-").replace("_", "").split(":"):
            value = value * 60 + int(part)
        return sign * value
    if found := _INFINITE.fullmatch(word):
        return float(f"{found[1]}inf")
    return float("nan") if _NAN.fullmatch(word) else word


def _integer(word: str) -> int:
    sign, digits = (-1 if word[0] == "-" else 1), word.lstrip("+-")
    if len(digits) > 1 and digits[0] == "0" and digits[1] not in "bx":
        return sign * int(digits, 8)
    return sign * int(digits, 0)


def _line(event: Event) -> int:
    return int(event.start_mark.line) + 1


def _described(error: Any) -> str:
    """What the parser stumbled over, in one clause."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    return tr("{problem} (line {line})", problem=problem, line=mark.line + 1) if mark else str(problem)


def _invalid(path: Path, why: str) -> MindportError:
    return MindportError(
        tr("{path} is not a YAML file that can be read: {why}.", path=path, why=why), tr("Correct it.")
    )
