"""Reading and writing JSON that people and other tools wrote."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from mindport.errors import MindportError, brief
from mindport.i18n import tr

LIMIT = 64 << 20
"""Bytes. Far above any real config, shard index or tokenizer; a larger file is a mistake or an attack."""


_KEY = re.compile(r'"((?:[^"\\]|\\.)*)"\s*:\s*\Z')
"""A key at the end of a text, its value still to come."""


class _RepeatedKeyError(ValueError):
    """An object gives one key two values."""


_DEEPEST = 64
"""Levels of nesting. Far above any real file, and far below where Python's own recursion ends."""


def parse_json(content: bytes, **options: Any) -> Any:
    """The value of a JSON text: UTF-8 with or without BOM, bare NaN and Infinity as Python writes them.

    Args:
        options: of `json.loads`.

    Raises:
        ValueError: not UTF-8, not JSON, nested too deeply, or with half a surrogate pair, which no file can hold.
    """
    text = content.decode("utf-8-sig")
    try:
        value = json.loads(text, **options)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except RecursionError:
        raise ValueError(tr("nested too deeply")) from None
    return value


def read_json_object(path: Path) -> dict[str, Any]:
    """A JSON object from a file. See `parse_json`.

    A key may be repeated with the same value. With another one it is refused: Python would take the last, other
    readers the first, and nobody would be told.

    Raises:
        MindportError: missing, not a file, too large, not UTF-8, not JSON, not an object, or with a key that has two
            values.
    """
    content = read_limited(path)
    try:
        value = parse_json(content, object_pairs_hook=_one_value_each)
        if _deeper_than(_DEEPEST, value):
            raise ValueError(tr("nested too deeply"))
    except _RepeatedKeyError as error:
        raise MindportError(
            tr("{path} gives {key} more than once, with different values.", path=path, key=brief(error.args[0])),
            tr("Keep the value that is meant."),
        ) from None
    except ValueError as error:
        raise MindportError(
            tr("{path} is not valid JSON: {error}.", path=path, error=_described(error)),
            tr("Restore or re-download the file."),
        ) from None
    if not isinstance(value, dict):
        raise MindportError(
            tr("{path} does not hold a JSON object.", path=path), tr("Restore or re-download the file.")
        )
    return value


def read_limited(path: Path) -> bytes:
    """A file of a size that configs and tokenizers have.

    Raises:
        MindportError: missing, not a file, too large, or unreadable.
    """
    if not os.path.isfile(path):
        raise MindportError(tr("{path} does not exist.", path=path), tr("Check the path."))
    try:
        if path.stat().st_size > LIMIT:
            raise MindportError(
                tr("{path} is too large: more than {limit} MiB.", path=path, limit=LIMIT >> 20), tr("Check the path.")
            )
        return path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from None


def _one_value_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        for key, other in pairs:
            if repr(other) != repr(value[key]):  # which tells 1 from true, and a NaN is like another
                raise _RepeatedKeyError(key)
    return value


def _deeper_than(most: int, value: Any) -> bool:
    level = [value]
    for _ in range(most + 1):
        level = [item for item in level if isinstance(item, dict | list)]
        if not level:
            return False
        level = [item for outer in level for item in (outer.values() if isinstance(outer, dict) else outer)]
    return True


def _described(error: ValueError) -> str:
    """What is wrong and where, with the key whose value it is."""
    if isinstance(error, json.JSONDecodeError):
        key = _KEY.search(error.doc[max(0, error.pos - 200) : error.pos])
        if key:
            return tr("the value of {key}: {error}", key=key[1], error=error)
    return str(error)


def unreadable(path: Path, error: OSError) -> MindportError:
    """The error for a file that the operating system does not let us read."""
    return MindportError(
        tr("{path} could not be read: {error}.", path=path, error=error.strerror), tr("Check the path.")
    )


def write_json(path: Path, value: Any) -> None:
    """Indented UTF-8 JSON with a final newline."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
