"""What each version of MindFormers knows by name: components, keys of strict sections, fields.

The tables in `schema/` were taken from the published packages (1.1, 1.2, 1.3.2, 1.6 to 2.1: the classes of the YAML
template, the constructors they are handed to, the registry); for 1.0 and 1.5 from the files shipped with them. A span
says since when and until when: `1.2-`, `-1.5`, `1.7-1.7`, or `-` for all versions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from mindport.targets.mindformers import VERSIONS, Version

_TABLES = Path(__file__).parent / "schema"

COMPONENTS = {
    "trainer": "trainer",
    "lr_schedule": "lr_schedule",
    "optimizer": "optimizer",
    "runner_wrapper": "runner_wrapper",
    "callbacks": "callbacks",
    "train_dataset_task": "train_dataset_task",
    "eval_dataset_task": "train_dataset_task",
    "train_dataset.data_loader": "data_loader",
    "eval_dataset.data_loader": "data_loader",
    "metric": "metric",
    "model.arch": "model",
    "model.model_config": "model_config",
}
"""Section whose `type` names a class -> the table that lists it."""

TEMPLATE_SINCE = "1.5"
"""The first version that checks a YAML against a template."""


@cache
def table(name: str) -> dict[str, Any]:
    """A table of the folder `schema`."""
    content: dict[str, Any] = json.loads((_TABLES / f"{name}.json").read_text(encoding="utf-8"))
    return content


def in_span(version: Version, span: str) -> bool:
    """Whether a version lies in a span."""
    since, until = span.split("-")
    return not (since and version.order < VERSIONS[since].order) and not (
        until and version.order > VERSIONS[until].order
    )


def since(version: Version, name: str) -> bool:
    """Whether a version is this one or a later one."""
    return version.order >= VERSIONS[name].order


def versions_in(span: str) -> str:
    """A span as people write it: "1.2 and later"; the caller names what it is about."""
    names = [name for name, version in VERSIONS.items() if in_span(version, span)]
    return names[0] if len(names) == 1 else f"{names[0]} - {names[-1]}"


def components(kind: str) -> dict[str, str]:
    """The classes of a kind, with the span of each."""
    spans: dict[str, str] = table("components")[kind]
    return spans


def respelt(name: str, spans: Mapping[str, str]) -> str | None:
    """The class that is meant where a monitor is spelled as MindFormers itself did in 1.0; None where there is none."""
    right = name.replace("Mointor", "Monitor")
    return right if name not in spans and right in spans else None


def section_keys(section: str) -> dict[str, str] | None:
    """The keys of a section that takes no others, with the span of each; None where any key is let through."""
    spans: dict[str, str] | None = table("sections").get(section)
    return spans


def strict_sections() -> tuple[str, ...]:
    """Sections of the top level that take no other keys than theirs."""
    return tuple(name for name in table("sections") if name not in ("general_config", "stable_rank_config"))
