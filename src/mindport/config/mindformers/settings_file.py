"""Run settings from files and from single settings on the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mindport.config.yaml_file import parse_yaml, read_yaml
from mindport.errors import MindportError, brief
from mindport.i18n import tr


def gathered(files: Sequence[Path], singles: Sequence[str]) -> dict[str, Any]:
    """Nested mappings for `RunSettings.from_mapping`.

    Args:
        files: YAML or JSON; what a later one says counts. A file need not say everything, so that a parallel plan can
            be a file of its own.
        singles: `section.name=value`, the value as YAML has it; they count more than files.

    Raises:
        MindportError: a file cannot be read, or a single setting is not of this form.
    """
    found: dict[str, Any] = {}
    for path in files:
        found = _joined(found, read_yaml(path).values)
    for single in singles:
        name, sign, value = single.partition("=")
        way = name.strip().split(".")
        if not sign or not all(way):
            raise MindportError(
                tr("{text} is no setting.", text=brief(single)), tr("Write parallel.tensor=4, for example.")
            )
        nested: Any = parse_yaml(f"value: {value}\n", Path(name)).values["value"]
        for part in reversed(way):
            nested = {part: nested}
        found = _joined(found, nested)
    return found


def _joined(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(first)
    for name, value in second.items():
        before = result.get(name)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            value = _joined(before, value)
        result[name] = value
    return result
