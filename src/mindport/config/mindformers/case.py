"""A YAML as the checks for silent losses see it, and what such a check is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from mindport.config.mindformers.findings import WARNING
from mindport.targets.mindformers.plugin import AUTO_REGISTER, is_plugin
from mindport.targets.mindformers.versions import LEGACY, MCORE, PYNATIVE, Version

Hit = tuple[str, Any]
"""Where something is lost (a path of keys), and the value there; None where a key is missing."""

STATIC, ALL = (LEGACY, MCORE), (LEGACY, MCORE, PYNATIVE)
CONVERTED = (MCORE, PYNATIVE)
"""Generations whose configuration is converted to MindFormers' TransformerConfig."""

QWEN = ("qwen3", "qwen3_moe")
TELECHAT = ("telechat3", "telechat3_moe")
LATENT = ("deepseek_v3", "telechat3_moe")
INFERRED = ("qwen2", "glm4", "glm4_moe", "telechat2")
"""Families that have a graph for inference alone."""


@dataclass(frozen=True)
class Case:
    """One YAML.

    Args:
        document: the whole file.
        generation: LEGACY, MCORE or PYNATIVE.
        section: what it says of the model.
        version: the MindFormers version it is for.
        hf: config.json of its `pretrained_model_dir`; {} = none is known.
    """

    document: Mapping[str, Any]
    generation: str
    section: Mapping[str, Any]
    version: Version
    hf: Mapping[str, Any] = field(default_factory=dict)

    @property
    def family(self) -> str:
        """The model_type; in the legacy generation the name of the configuration class."""
        if self.generation == LEGACY:
            return str(self.section.get("type", ""))
        return str(self.get("model_type", ""))

    @property
    def plugged(self) -> bool:
        """Whether the model's graph is one of Mindport's plug-in."""
        return self.generation == MCORE and is_plugin(self.section.get(AUTO_REGISTER))

    @property
    def trains(self) -> bool:
        """Whether it is for training."""
        return str(self.document.get("run_mode", "train")) in ("train", "finetune")

    @property
    def complete(self) -> bool:
        """Whether all that is said of the model is known here: there is no config.json beside it, or it was given."""
        return bool(self.hf) or not self.document.get("pretrained_model_dir")

    @cached_property
    def whole(self) -> dict[str, Any]:
        """config.json, overruled by the YAML, as MindFormers does it."""
        return {**self.hf, **self.section}

    def get(self, key: str, default: Any = None) -> Any:
        """A value of the model; `default` where there is none, or null."""
        value = self.whole.get(key)
        return default if value is None else value

    def first(self, *keys: str) -> tuple[str, Any]:
        """The first of several spellings that is there, with its value; the first and None where none is."""
        return next(((key, self.whole[key]) for key in keys if self.whole.get(key) is not None), (keys[0], None))

    def place(self, key: str) -> str:
        """The path of a key of the model."""
        if key in self.section or key not in self.hf:
            return f"model.{key}" if self.generation == PYNATIVE else f"model.model_config.{key}"
        return f"config.json: {key}"

    def run(self, *path: str) -> Any:
        """A value outside the model's section, or None."""
        value: Any = self.document
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

    def whole_number(self, *path: str, default: int = 1) -> int:
        """A count outside the model's section; `default` where there is none that is one."""
        value = self.run(*path)
        return value if isinstance(value, int) and not isinstance(value, bool) else default


@dataclass(frozen=True)
class Check:
    """Something that MindFormers drops or misreads without an error, or with one that hides the cause.

    Args:
        code: MF and three digits; it stays the same for good.
        consequence: what happens, a template for `tr` without placeholders.
        fix: what to do about it, likewise.
        find: the places where it happens in a YAML.
        generations: in which it can happen.
        families: in which it can happen, as MindFormers itself has them; () = all.
        plugin: whether it happens in the graphs of Mindport's plug-in too; of a check for `families` it never does.
        since, until: first and last version in which it is known to happen; None = the first or the last there is.
        training: only in YAMLs for training.
        source: section of the collected facts on MindFormers in which it is described, or "code" for what reading
            MindFormers' code brought to light.
        level: how grave it is to `validate`: WARNING, or NOTE where nothing but an unused number is lost.
    """

    code: str
    consequence: str
    fix: str
    find: Callable[[Case], Iterator[Hit]]
    generations: tuple[str, ...] = ALL
    families: tuple[str, ...] = ()
    plugin: bool = True
    since: str | None = None
    until: str | None = None
    training: bool = True
    source: str = "code"
    level: str = WARNING
