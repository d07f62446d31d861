"""What the rules are given, and how they speak."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from mindport.config.mindformers.findings import ERROR, NOTE, WARNING, ConfigFinding
from mindport.config.mindformers.known import since
from mindport.config.mindformers.plan import PlacedPlan
from mindport.schema.parallel_plan import ParallelPlan
from mindport.targets.mindformers import Version
from mindport.targets.mindformers.versions import LEGACY, MCORE

Findings = Iterator[ConfigFinding]


class JudgedFor:
    """What is judged for one version and generation."""

    version: Version
    generation: str

    @property
    def legacy(self) -> bool:
        return self.generation == LEGACY

    @property
    def mcore(self) -> bool:
        return self.generation == MCORE

    def since(self, name: str) -> bool:
        """Whether the version is this one or later."""
        return since(self.version, name)


@dataclass(frozen=True)
class Case(JudgedFor):
    """A plan to judge.

    Args:
        placed: the plan, and where its numbers stand.
        version: of MindFormers.
        generation: LEGACY or MCORE.
        devices: devices there are; None = not known.
        config_class: the legacy class that reads the model's section; "" = not known, or another generation.
        lines: key -> its line.
    """

    placed: PlacedPlan
    version: Version
    generation: str
    devices: int | None = None
    config_class: str = ""
    lines: Mapping[str, int] = field(default_factory=dict)

    @property
    def plan(self) -> ParallelPlan:
        return self.placed.plan

    def error(self, code: str, name: str, message: str, reason: str, fix: str = "") -> ConfigFinding:
        return self._finding(code, ERROR, name, message, reason, fix)

    def warning(self, code: str, name: str, message: str, reason: str, fix: str = "") -> ConfigFinding:
        return self._finding(code, WARNING, name, message, reason, fix)

    def note(self, code: str, name: str, message: str, reason: str, fix: str = "") -> ConfigFinding:
        return self._finding(code, NOTE, name, message, reason, fix)

    def _finding(self, code: str, level: str, name: str, message: str, reason: str, fix: str) -> ConfigFinding:
        place = self.placed.place(name)
        return ConfigFinding(code, level, place, line_of(place, self.lines), message, reason, fix)


def line_of(path: str, lines: Mapping[str, int]) -> int | None:
    """The line of a key; of one that is not there, that of its section."""
    while path and path not in lines:
        path = path.rpartition(".")[0]
    return lines.get(path) if path else None


def listed(numbers: list[int]) -> str:
    """Numbers with commas between them."""
    return ", ".join(map(str, numbers))
