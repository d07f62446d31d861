"""A whole YAML to judge, and how rules speak of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mindport.config.mindformers.findings import ConfigFinding
from mindport.config.mindformers.judge import Case, JudgedFor, line_of
from mindport.config.mindformers.plan import plan_of, value_at
from mindport.config.yaml_file import KeyPath, YamlFile
from mindport.targets.mindformers import Version

TRAINING = ("train", "finetune")
"""Values of `run_mode` that train."""


@dataclass(frozen=True)
class YamlCase(JudgedFor):
    """A file, and for what it is judged.

    Args:
        file: as read.
        version: of MindFormers.
        generation: LEGACY, MCORE or PYNATIVE.
        devices: devices there are; None = not known.
    """

    file: YamlFile
    version: Version
    generation: str
    devices: int | None = None

    @property
    def values(self) -> Mapping[str, Any]:
        return self.file.values

    @property
    def mode(self) -> str:
        """`run_mode`; "" where there is none, or no word."""
        mode = self.values.get("run_mode")
        return mode if isinstance(mode, str) else ""

    @property
    def trains(self) -> bool:
        return self.mode in TRAINING

    @cached_property
    def lines(self) -> dict[str, int]:
        """Key, `section.key` -> its line."""
        return {dotted(way): line for way, line in self.file.lines.items()}

    @cached_property
    def plan_case(self) -> Case:
        """The parallel plan of the file, to be judged."""
        name = value_at(self.values, "model.model_config.type") if self.legacy else ""
        config_class = name if isinstance(name, str) else ""
        return Case(plan_of(self.values), self.version, self.generation, self.devices, config_class, self.lines)

    def at(self, path: str) -> Any:
        """What stands at `section.key`; None where nothing does."""
        return value_at(self.values, path)

    def find(self, code: str, level: str, path: str, message: str, reason: str, fix: str = "") -> ConfigFinding:
        """A finding about a key; one that is not there has the line of its section."""
        return ConfigFinding(code, level, path, line_of(path, self.lines), message, reason, fix)


def dotted(way: KeyPath) -> str:
    """`section.key`, with indices of lists as `[2]`."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in way]
    return "".join(parts).lstrip(".")


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value that is no list or mapping, with its key."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from leaves(item, f"{path}[{number}]")
    else:
        yield path, value
