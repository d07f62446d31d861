"""Reading and writing JSON that people and other tools wrote."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from mindport.errors import MindportError
from mindport.i18n import tr

LIMIT = 64 << 20
"""Bytes. Far above any real config, shard index or tokenizer; a larger file is a mistake or an attack."""


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

    Raises:
        MindportError: missing, not a file, too large, not UTF-8, not JSON, or not an object.
    """
    content = read_limited(path)
    try:
        value = parse_json(content)
    except ValueError as error:
        raise MindportError(
            tr("{path} is not valid JSON: {error}.", path=path, error=error),
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


def unreadable(path: Path, error: OSError) -> MindportError:
    """The error for a file that the operating system does not let us read."""
    return MindportError(
        tr("{path} could not be read: {error}.", path=path, error=error.strerror), tr("Check the path.")
    )


def write_json(path: Path, value: Any) -> None:
    """Indented UTF-8 JSON with a final newline."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
