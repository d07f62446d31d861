"""A graph of one version of MindFormers with the layout of its weights: where a conversion goes, or comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mindport.targets.mindformers.layouts import Layout, default_layout, layout_of, target
from mindport.targets.mindformers.mcore import InferenceLayout
from mindport.targets.mindformers.versions import MCORE, PYNATIVE, Family, Version, family_named, version_named
from mindport.targets.target import Target

INFERENCE = "inference"
"""In place of the settings of a training graph."""


@dataclass(frozen=True)
class Destination:
    """Which graph, and how its weights lie.

    Args:
        version: of MindFormers.
        family: whose graph it is, in one generation.
        layout: of the weights; None: of the pynative generation, whose weights Mindport does not write.
    """

    version: Version
    family: Family
    layout: Layout | None

    @property
    def trains(self) -> bool:
        """Whether it is a training graph."""
        return not isinstance(self.layout, InferenceLayout)

    @cached_property
    def target(self) -> Target:
        """Its parameters.

        Raises:
            MindportError: Mindport cannot write the weights of this version and generation.
        """
        return target(self.version, self.layout or default_layout(self.family.generation))

    def to_json(self) -> dict[str, Any]:
        """For `ms_config.json`."""
        return {
            "name": "mindformers",
            "version": self.version.name,
            "generation": self.family.generation,
            "graph": self.family.name,
            "layout": (self.layout and self.layout.settings()) if self.trains else INFERENCE,
        }

    @staticmethod
    def from_json(record: Mapping[str, Any]) -> Destination:
        """Back from `to_json`.

        Raises:
            KeyError, TypeError, ValueError, MindportError: it is not one.
        """
        version, generation, layout = version_named(record["version"]), record["generation"], record["layout"]
        family = family_named(record["graph"], generation)
        if record["name"] != "mindformers" or family is None or version.name != record["version"]:
            raise ValueError(record)
        if layout == INFERENCE and generation == MCORE:
            return Destination(version, family, InferenceLayout())
        if layout is None and generation == PYNATIVE:
            return Destination(version, family, None)
        if set(layout) != set(default_layout(generation).settings()):
            raise ValueError(record)
        return Destination(version, family, layout_of(generation, layout))
