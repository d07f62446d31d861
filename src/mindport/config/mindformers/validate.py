"""Judging a MindFormers YAML before anything runs: all that is wrong at once, with values that would work.

The rules are small functions in the modules `*_rules`; `checks` lists what is run on a file, and is the place to add
more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from mindport.config.mindformers.findings import LEVELS, ConfigFinding
from mindport.config.mindformers.losses import losses
from mindport.config.mindformers.plan import generation_of, value_at
from mindport.config.mindformers.plan_rules import check_plan
from mindport.config.mindformers.pynative_rules import PYNATIVE_RULES
from mindport.config.mindformers.section_rules import SECTION_RULES
from mindport.config.mindformers.value_rules import VALUE_RULES
from mindport.config.mindformers.yaml_case import YamlCase
from mindport.config.yaml_file import YamlFile, read_yaml
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.targets.mindformers import Version, version_named
from mindport.targets.mindformers.versions import LATEST_EXECUTED, PYNATIVE

Check = Callable[[YamlCase], Iterable[ConfigFinding]]


@dataclass(frozen=True)
class Validation:
    """What was found in a YAML.

    Args:
        path: the file.
        version, generation: of MindFormers, for which it was judged.
        evidence: how Mindport knows what this version asks for.
        devices: devices that the plan needs; None where the file does not say.
        global_batch_size: sequences of one step; None where the file does not say.
        findings: the errors first, then as they stand in the file.
    """

    path: Path
    version: str
    generation: str
    evidence: str
    devices: int | None
    global_batch_size: int | None
    findings: list[ConfigFinding]

    def count(self, level: str) -> int:
        """How many findings are of a level."""
        return sum(finding.level == level for finding in self.findings)


def checks(case: YamlCase) -> list[Check]:
    """What is run on a file, by its generation."""
    if case.generation == PYNATIVE:
        return [*PYNATIVE_RULES, losses]
    return [*SECTION_RULES, *VALUE_RULES, lambda case: check_plan(case.plan_case), losses]


def validate(path: Path, version: str | None = None, devices: int | None = None) -> Validation:
    """Judge a file for one version of MindFormers.

    Args:
        version: as `version_named` takes it; None = the newest that Mindport has run.
        devices: devices there are; None = as many as the plan asks for.

    Raises:
        MindportError: the file cannot be read, is no MindFormers YAML, or there is no such version.
    """
    return validate_file(read_yaml(path), version_named(version or LATEST_EXECUTED), devices)


def validate_file(file: YamlFile, version: Version, devices: int | None = None) -> Validation:
    """The same for a file that was read. See `validate`."""
    generation = generation_of(file.values)
    if not looks_like_mindformers(file):
        raise MindportError(
            tr("{path} holds none of the sections of a MindFormers YAML.", path=file.path),
            tr("Give the YAML that run_mindformer.py trains from."),
        )
    case = YamlCase(file, version, generation, devices)
    findings = {finding: None for check in checks(case) for finding in check(case)}
    plan = case.plan_case.plan if generation != PYNATIVE else None
    parallel = plan if plan and value_at(file.values, "parallel_config") is not None else None
    return Validation(
        file.path,
        version.name,
        generation,
        version.evidence_text,
        parallel.devices if parallel else None,
        plan.global_batch_size if plan and value_at(file.values, "runner_config.batch_size") is not None else None,
        sorted(findings, key=lambda finding: (LEVELS.index(finding.level), finding.line or 0)),
    )


def looks_like_mindformers(file: YamlFile) -> bool:
    """Whether a YAML has what every MindFormers YAML has, for training or for inference."""
    values = file.values
    if generation_of(values) == PYNATIVE:
        return "parallelism" in values or bool(value_at(values, "model.model_type"))
    sections = {"runner_config", "parallel_config", "recompute_config"}
    named = ("trainer.type", "model.model_config")  # a trainer, and a model, others have too
    return bool(sections & set(values)) or any(value_at(values, path) is not None for path in named)
