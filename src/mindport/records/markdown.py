"""A document as GitHub-flavoured Markdown that foreign text cannot break."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mindport.records.blocks import Block, Bullets, Cell, Curves, Document, Grouped, Note, Quote, Table
from mindport.records.formats import printable

_MARKS = {"good": "✅ ", "bad": "❌ ", "warn": "⚠️ "}

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;", "`": "&#96;", "\\": "&#92;"}
"""Entities rather than backslashes: renderers disagree about a backslash before a pipe."""

_SPECIAL = re.compile(r"[&<>|`\\]|[*~\[\]]|(?<![^\W_])_|_(?![^\W_])")
_STARTS_BLOCK = re.compile(r"^(\d*)(?=[.)#+=-](?:\W|$))")


def render(document: Document) -> str:
    """The document as Markdown; curves stay with the HTML report."""
    mark = _MARKS["good" if document.passed else "bad"]
    lines = [f"# {_text(document.title)}", "", f"**{mark}{_text(document.verdict)}**", ""]
    for figure in document.figures:
        detail = f" ({_text(figure.detail)})" if figure.detail else ""
        lines.append(f"- {_MARKS.get(figure.tone, '')}{_text(figure.label)}: **{_text(figure.value)}**{detail}")
    for warning in document.warnings:
        lines += ["", f"> {_MARKS['warn']}{_text(warning)}"]
    for section in document.sections:
        lines += ["", f"## {_text(section.title)}"]
        for block in section.blocks:
            lines += _block(block)
    lines += ["", "---", "", _text(document.footer), ""]
    return "\n".join(lines)


def _block(block: Block) -> list[str]:
    match block:
        case Curves():
            return []
        case Note():
            return ["", f"{'> ' if block.tone else ''}{_MARKS.get(block.tone, '')}{_text(block.text)}"]
        case Bullets():
            return ["", *(f"- {_text(item)}" for item in block.items)]
        case Grouped():
            return [
                "",
                *(f"- {f'{_text(reason)}: ' if reason else ''}{_codes(names)}" for reason, names in block.groups),
            ]
        case Quote():
            return ["", f"{_text(block.label)}:", "", *_fenced(block.text)]
        case Table():
            rule = ["---:" if block.is_numeric(i) else "---" for i in range(len(block.head))]
            rows = (map(_text, block.head), rule, *(map(_cell, row) for row in block.rows))
            caption = ["", _text(block.caption)] if block.caption else []
            return [*caption, "", *(f"| {' | '.join(row)} |" for row in rows)]


def _cell(cell: Cell) -> str:
    if cell.kind == "code":
        return _codes(cell.parts)
    return _MARKS.get(cell.kind, "") + ", ".join(map(_text, cell.parts))


def _codes(names: Iterable[str]) -> str:
    return ", ".join(map(_code, names))


def _code(text: str) -> str:
    """A code span, or plain text with entities where the span would need escapes that only some renderers know."""
    if not text or text != text.strip() or text != printable(text) or any(c in text for c in _ENTITIES):
        return _text(text)
    return f"`{text}`"


def _text(text: str) -> str:
    def escaped(match: re.Match[str]) -> str:
        return _ENTITIES.get(match[0], f"\\{match[0]}")

    return _STARTS_BLOCK.sub(r"\1\\", _SPECIAL.sub(escaped, printable(text).strip()))


def _fenced(text: str) -> list[str]:
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", *printable(text, lines=True).split("\n"), fence]
