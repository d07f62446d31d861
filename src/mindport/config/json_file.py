"""Reading and writing JSON that people and other tools wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mindport.errors import MindportError
from mindport.i18n import tr

_LIMIT = 64 << 20
"""Bytes. Far above any real config or shard index; a larger file is a mistake or an attack."""


def read_json_object(path: Path) -> dict[str, Any]:
    """A JSON object from a file: UTF-8 with or without BOM; bare NaN and Infinity are accepted, as Python writes them.

    Raises:
        MindportError: missing, not a file, too large, not UTF-8, not JSON, or not an object.
    """
    if not path.is_file():
        raise MindportError(tr("{path} does not exist.", path=path), tr("Check the path."))
    if path.stat().st_size > _LIMIT:
        raise MindportError(tr("{path} is too large for a JSON file.", path=path), tr("Check the path."))
    try:
        value = json.loads(path.read_text(encoding="utf-8-sig"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise MindportError(
            tr("{path} is not valid JSON: {error}.", path=path, error=error),
            tr("Restore or re-download the file."),
        ) from None
    except RecursionError:
        raise MindportError(
            tr("{path} is not valid JSON: {error}.", path=path, error=tr("nested too deeply")),
            tr("Restore or re-download the file."),
        ) from None
    if not isinstance(value, dict):
        raise MindportError(
            tr("{path} does not hold a JSON object.", path=path), tr("Restore or re-download the file.")
        )
    return value


def write_json(path: Path, value: Any) -> None:
    """Indented UTF-8 JSON with a final newline."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
