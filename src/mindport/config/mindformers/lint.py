"""What MindFormers would lose in silence: the same checks for a user's YAML and for what this package writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mindport.config.mindformers import losses_experts, losses_model, losses_rope, losses_run
from mindport.config.mindformers.case import Case, Check
from mindport.config.mindformers.read import model_section
from mindport.errors import brief
from mindport.i18n import tr
from mindport.targets.mindformers.versions import LATEST_EXECUTED, version_named

CHECKS: tuple[Check, ...] = tuple(
    sorted(
        (*losses_model.CHECKS, *losses_rope.CHECKS, *losses_experts.CHECKS, *losses_run.CHECKS),
        key=lambda check: check.code,
    )
)
"""Every check, by its code."""

NOT_IN_A_FILE = {
    "2.1": "booleans given with --options on the command line are always false",
    "1.2": "after one failed conversion every other in the same process fails too",
    "4.4": "MindFormers' own converters of weights, where they are wrong: they are commands, not settings",
}
"""Silent losses of the collected facts that no YAML shows, by section."""


OF_THEIR_CONVERSION = ("MF037", "MF038")
"""Codes of losses in MindFormers' own conversion of weights: none where Mindport has written them."""


@dataclass(frozen=True)
class Finding:
    """A silent loss in one YAML.

    Args:
        code: of the check.
        place: path of the key.
        value: what stands there, shortened; "" where the key is missing.
        consequence, fix: in the user's language.
        level: WARNING or NOTE.
    """

    code: str
    place: str
    value: str
    consequence: str
    fix: str
    level: str


def lint(document: Mapping[str, Any], version: str | None = None, hf: Mapping[str, Any] | None = None) -> list[Finding]:
    """What MindFormers would drop or misread of a YAML, by code.

    Args:
        document: the YAML as `config.yaml_file` reads it.
        version: MindFormers version it is for; None = the newest that Mindport has run.
        hf: config.json of its `pretrained_model_dir`.

    Raises:
        MindportError: it has no section on a model.
    """
    generation, section = model_section(document)
    case = Case(document, generation, section, version_named(version or LATEST_EXECUTED), hf or {})
    return [
        Finding(
            check.code,
            place,
            "" if value is None else brief(value),
            tr(check.consequence),
            tr(check.fix),
            check.level,
        )
        for check in applicable(case)
        for place, value in check.find(case)
    ]


def applicable(case: Case) -> Iterator[Check]:
    """The checks that are about the generation, family, version and use of a YAML."""
    for check in CHECKS:
        if case.generation not in check.generations or not _concerns(check, case):
            continue
        if check.since and case.version.order < version_named(check.since).order:
            continue
        if check.until and case.version.order > version_named(check.until).order:
            continue
        if case.trains or not check.training:
            yield check


def _concerns(check: Check, case: Case) -> bool:
    """Whether a check is about the family of a YAML, as it is there."""
    if case.plugged:
        return check.plugin and not check.families
    return not check.families or case.family in check.families
