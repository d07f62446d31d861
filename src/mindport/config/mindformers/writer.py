"""YAML text with a comment on every line that has something to say.

Values are written so that MindFormers' own loader, which speaks YAML 1.1, reads what was meant: `1e-06` without a point
would be a string there, and `no` a boolean.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Alias:
    """A reference to what an entry above has under the same name as its anchor."""

    name: str


@dataclass(frozen=True)
class Entry:
    """One key of a mapping.

    Args:
        key: as it is written.
        value: a scalar; a list of scalars or of lists; a dict; a tuple of entries, which is a mapping of its own; a
            list of such tuples; or an `Alias`.
        comment: what stands behind it; "" = nothing.
        anchor: a name under which an `Alias` finds the value; "" = none.
    """

    key: str
    value: Any
    comment: str = ""
    anchor: str = ""


def render(entries: Sequence[Entry]) -> str:
    """The entries as the text of a YAML file, with an empty line between sections."""
    lines: list[str] = []
    for entry in entries:
        section = _is_block(entry.value)
        if section and lines:
            lines.append("")
        lines += _lines(entry, 0)
    return "\n".join(lines) + "\n"


def plain(entries: Sequence[Entry]) -> dict[str, Any]:
    """The entries as the dict that a YAML loader makes of their text."""
    found: dict[str, Any] = {}
    anchors: dict[str, Any] = {}
    for entry in entries:
        found[entry.key] = _plain(entry.value, anchors)
        if entry.anchor:
            anchors[entry.anchor] = found[entry.key]
    return found


def _plain(value: Any, anchors: dict[str, Any]) -> Any:
    if isinstance(value, Alias):
        return anchors[value.name]
    if isinstance(value, tuple):
        return {entry.key: _plain(entry.value, anchors) for entry in value}
    return [_plain(part, anchors) for part in value] if isinstance(value, list) else value


def comment_block(lines: Iterable[str]) -> str:
    """Lines as comments that stand by themselves."""
    return "".join(f"# {line}\n" if line else "#\n" for line in lines)


def scalar(value: Any) -> str:
    """One value on one line: a scalar, or a list or dict in flow style."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        return number(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Alias):
        return f"*{value.name}"
    if isinstance(value, list):
        return "[" + ", ".join(map(scalar, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {scalar(part)}" for key, part in value.items()) + "}"
    return '"' + "".join(map(_character, str(value))) + '"'


def _character(character: str) -> str:
    """A character inside double quotes; one that cannot be seen as its number."""
    if character in '"\\':
        return "\\" + character
    if character.isprintable():
        return character
    return f"\\U{ord(character):08x}"


def number(value: float) -> str:
    """A float with a point in front of its exponent, which YAML 1.1 asks for: 1.e-06, not 1e-06."""
    text = repr(float(value))
    if text in ("inf", "-inf", "nan"):
        return {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}[text]
    mantissa, e, exponent = text.partition("e")
    if e and "." not in mantissa:
        mantissa += "."
    # The exponent needs its sign, too.
    return mantissa + e + (exponent if re.match(r"[+-]", exponent) or not e else f"+{exponent}")


def _is_block(value: Any) -> bool:
    return isinstance(value, tuple) or (isinstance(value, list) and bool(value) and isinstance(value[0], tuple))


def _lines(entry: Entry, depth: int) -> list[str]:
    start = "  " * depth + f"{entry.key}:"
    start += f" &{entry.anchor}" if entry.anchor else ""
    said = f"  # {entry.comment}" if entry.comment else ""
    if not _is_block(entry.value):
        return [f"{start} {scalar(entry.value)}{said}"]
    if isinstance(entry.value, tuple):
        return [start + said, *(line for part in entry.value for line in _lines(part, depth + 1))]
    lines = [start + said]
    for item in entry.value:
        block = [line for part in item for line in _lines(part, depth + 2)]
        lines += ["  " * (depth + 1) + "- " + block[0].lstrip(), *block[1:]]
    return lines
