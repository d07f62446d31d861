"""Changing a YAML file in its text: everything that is not meant stays as it is, byte for byte.

A key in a block is a run of whole lines: its own, and those of its value. Changes take, put and mark such lines; the
file is parsed again after each. What cannot be done so, because it is written in brackets or other places refer to it,
raises `CannotEditError`, and nothing has changed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from mindport.config.yaml_file import Node, YamlFile, parse_yaml
from mindport.errors import MindportError
from mindport.i18n import tr

Way = tuple[str, ...]
"""Keys from the top level down; an index of a list is its number as a text."""


class CannotEditError(Exception):
    """A change that the text does not allow; holds the reason, in the user's language."""


@dataclass(frozen=True)
class Entry:
    """A key and its value, in the mapping they stand in."""

    key: Node
    value: Node
    parent: Node


class Editor:
    """A file being changed.

    Args:
        file: as read.
    """

    def __init__(self, file: YamlFile) -> None:
        self.file = file

    @property
    def text(self) -> str:
        return self.file.text

    @property
    def path(self) -> Path:
        return self.file.path

    def entry(self, way: Way) -> Entry | None:
        """Where a key stands; None where it does not."""
        node, found = self.file.root, None
        for part in way:
            found = None
            if node.kind == "list" and part.isdigit() and int(part) < len(node.value):
                node = node.value[int(part)]
                continue
            if node.kind != "map":
                return None
            found = next((Entry(key, value, node) for key, value in node.value if key.value == part), None)
            if found is None:
                return None
            node = found.value
        return found

    def line_of(self, way: Way) -> int | None:
        entry = self.entry(way)
        return entry.key.line if entry else None

    def source_of(self, way: Way) -> str:
        """The text of a value, as it is written."""
        entry = self._there(way)
        return self.text[entry.value.start : entry.value.end]

    def rename(self, way: Way, name: str) -> None:
        """Another name for a key, in its place."""
        entry = self._there(way)
        if self.entry((*way[:-1], name)):
            raise CannotEditError(tr("{key} is there already", key=name))
        self._splice(entry.key.start, entry.key.end, name)

    def replace(self, way: Way, word: str) -> None:
        """Another word for a value of one word, in its place and its quotes."""
        value = self._there(way).value
        if value.kind != "scalar" or value.anchor:
            raise CannotEditError(tr("it is not written as one word"))
        old = self.text[value.start : value.end]
        quote = old[0] if old[:1] in ("'", '"') else ""
        self._splice(value.start, value.end, f"{quote}{word}{quote}")

    def take(self, way: Way) -> list[str]:
        """Take a key out, with the comments on its lines.

        Returns:
            its lines, without the indentation and line ends, to be put elsewhere.
        """
        start, end, indent = self._lines_of(way)
        lines = [
            line[indent:] if not line[:indent].strip() else line.lstrip() for line in self.text[start:end].splitlines()
        ]
        self._remove(start, end)
        return lines

    def put(self, section: Way, lines: list[str]) -> None:
        """Put lines at the end of a section, which is made where it is missing."""
        if not section:
            self._insert(len(self.text), lines)
            return
        entry = self.entry(section)
        if entry is None:
            if len(section) > 1:
                raise CannotEditError(tr("there is no section {section}", section=".".join(section)))
            self._insert(len(self.text), [f"{section[0]}:", *(f"  {line}" for line in lines)])
            return
        value = entry.value
        if value.kind == "map" and value.value and not value.flow:
            first = value.value[0][0]
            self._insert(self._line_end(value.end, first.start), _indented(lines, self._column(first.start)))
        elif value.kind == "scalar" and value.plain and value.value == "" and not value.anchor:
            self._insert(
                self._line_end(value.end, entry.key.start), _indented(lines, self._column(entry.key.start) + 2)
            )
        elif value.kind == "map" and value.flow and len(lines) == 1 and "#" not in lines[0]:
            separator = ", " if value.value else ""
            last = value.value[-1][1].end if value.value else value.start + 1
            self._splice(last, last, separator + lines[0])
        else:
            raise CannotEditError(tr("the section {section} is not written as a block", section=".".join(section)))

    def put_after(self, way: Way, lines: list[str]) -> None:
        """Put lines right below those of a key."""
        _, end, indent = self._lines_of(way)
        self._insert(end, _indented(lines, indent))

    def comment_out(self, way: Way, mark: str) -> None:
        """Turn the lines of a key into comments that begin with a mark; `uncomment` is the way back."""
        start, end, indent = self._lines_of(way)
        lines = []
        for line in self.text[start:end].splitlines(keepends=True):
            at = min(indent, len(line) - len(line.lstrip()))
            lines.append(line[:at] + mark + line[at:] if line.strip() else line)
        self._splice(start, end, "".join(lines))

    def uncomment(self, mark: str) -> None:
        """Turn all comments with this mark back into lines."""
        self._changed(re.sub(rf"^([ \t]*){re.escape(mark)}", r"\1", self.text, flags=re.MULTILINE))

    def drop_lines(self, mark: str) -> None:
        """Remove the lines that end with this mark."""
        while found := re.search(rf"^[^\n]*{re.escape(mark)}\r?(\n|\Z)", self.text, re.MULTILINE):
            self._remove(found.start(), found.end())

    def append(self, lines: list[str]) -> None:
        """Put lines, comments for example, at the end of the file."""
        self._insert(len(self.text), lines)

    def undone_on_failure(self) -> _Undone:
        """A block of several changes that belong together: if one cannot be made, none is."""
        return _Undone(self)

    def _there(self, way: Way) -> Entry:
        entry = self.entry(way)
        if entry is None:
            raise CannotEditError(tr("it is not there"))
        return entry

    def _lines_of(self, way: Way) -> tuple[int, int, int]:
        """Where the lines of a key, or of an item of a list, begin and end, and how far they are indented."""
        if way and way[-1].isdigit():
            return self._lines_of_item(way)
        entry = self._there(way)
        start = self.text.rfind("\n", 0, entry.key.start) + 1
        if entry.parent.flow or self.text[start : entry.key.start].strip():
            raise CannotEditError(tr("it does not stand on lines of its own"))
        self._refuse_if_referred_to(entry.value)
        return start, self._line_end(entry.value.end, entry.key.start), entry.key.start - start

    def _lines_of_item(self, way: Way) -> tuple[int, int, int]:
        items = self._there(way[:-1]).value
        number = int(way[-1])
        if items.kind != "list" or items.flow or number >= len(items.value):
            raise CannotEditError(tr("it does not stand on lines of its own"))
        item = items.value[number]
        start = self.text.rfind("\n", 0, item.start) + 1
        dash = re.fullmatch(r"([ \t]*)-[ \t]+", self.text[start : item.start])
        if dash is None:
            raise CannotEditError(tr("it does not stand on lines of its own"))
        self._refuse_if_referred_to(item)
        return start, self._line_end(item.end, item.start), len(dash[1])

    def _refuse_if_referred_to(self, node: Node) -> None:
        for name in _anchors(node):
            inside = sum(alias == name for alias in _aliases(node))
            if sum(alias == name for alias in _aliases(self.file.root)) > inside:
                raise CannotEditError(tr("other places refer to it by *{name}", name=name))

    def _line_end(self, end: int, least: int) -> int:
        """The place after the line in which something ends."""
        end = max(end, least)
        if end > least and self.text[end - 1] == "\n":  # a block scalar ends with its last line
            return end
        newline = self.text.find("\n", end)
        return len(self.text) if newline < 0 else newline + 1

    def _column(self, place: int) -> int:
        return place - (self.text.rfind("\n", 0, place) + 1)

    def _insert(self, place: int, lines: list[str]) -> None:
        newline = "\r\n" if "\r\n" in self.text else "\n"
        block = "".join(line + newline for line in lines)
        if place and self.text[place - 1] != "\n":  # the last line of the file has no end
            block = newline + block.removesuffix(newline)
        self._splice(place, place, block)

    def _remove(self, start: int, end: int) -> None:
        if end == len(self.text) and end > start and self.text[end - 1] != "\n":
            start = len(self.text[:start].removesuffix("\n").removesuffix("\r"))
        self._splice(start, end, "")

    def _splice(self, start: int, end: int, new: str) -> None:
        self._changed(self.text[:start] + new + self.text[end:])

    def _changed(self, text: str) -> None:
        try:
            self.file = parse_yaml(text, self.path)
        except MindportError as error:
            raise CannotEditError(tr("the file could not be read afterwards: {error}", error=error.message)) from None


class _Undone:
    def __init__(self, editor: Editor) -> None:
        self.editor, self.before = editor, editor.file

    def __enter__(self) -> Editor:
        return self.editor

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.editor.file = self.before


def _indented(lines: list[str], columns: int) -> list[str]:
    return [" " * columns + line if line else line for line in lines]


def _anchors(node: Node) -> list[str]:
    return [found.anchor for found in _nodes(node) if found.anchor]


def _aliases(node: Node) -> list[str]:
    return [found.value.anchor for found in _nodes(node) if found.kind == "alias"]


def _nodes(node: Node) -> list[Node]:
    """A node and all that stand in it, as written: what an alias means is not looked into."""
    found, left = [], [node]
    while left:
        here = left.pop()
        found.append(here)
        if here.kind == "list":
            left += here.value
        elif here.kind == "map":
            left += [part for pair in here.value for part in pair]
    return found
