"""The page on MindFormers lists every run setting with its default, in both languages."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from mindport.config.mindformers.settings import RunSettings
from mindport.config.yaml_file import parse_yaml

DOCS = Path(__file__).parents[2] / "docs"


def names(settings: Any, before: str = "") -> set[str]:
    """Every setting, `section.name`."""
    found = set()
    for field in fields(settings):
        value = getattr(settings, field.name)
        found |= names(value, f"{field.name}.") if is_dataclass(value) else {f"{before}{field.name}"}
    return found


def said(values: dict[str, Any], before: str = "") -> set[str]:
    found = set()
    for name, value in values.items():
        found |= said(value, f"{name}.") if isinstance(value, dict) else {f"{before}{name}"}
    return found


@pytest.mark.parametrize("page", ["mindformers.md", "mindformers_CN.md"])
def test_every_run_setting_is_documented_with_its_default(page: str) -> None:
    (block,) = re.findall(r"```yaml\n(task:.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    values = parse_yaml(block, Path(page)).values
    assert said(values) == names(RunSettings())
    assert RunSettings.from_mapping(values) == RunSettings()
