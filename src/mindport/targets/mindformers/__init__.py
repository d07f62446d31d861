"""MindFormers as a destination: its versions, what each of its graphs can compute, and how it lays out weights."""

from __future__ import annotations

from mindport.targets.mindformers.choice import family_for, ways, why_not
from mindport.targets.mindformers.destination import Destination
from mindport.targets.mindformers.layouts import Layout, default_layout, layout_of, target
from mindport.targets.mindformers.legacy import LegacyLayout
from mindport.targets.mindformers.limits import refusals, within
from mindport.targets.mindformers.mcore import InferenceLayout, McoreLayout, inference
from mindport.targets.mindformers.versions import (
    FAMILIES,
    LEGACY,
    MCORE,
    PYNATIVE,
    VERSIONS,
    Family,
    Version,
    family_named,
    version_named,
)
from mindport.targets.target import Target

__all__ = [
    "FAMILIES",
    "LEGACY",
    "MCORE",
    "PYNATIVE",
    "VERSIONS",
    "Destination",
    "Family",
    "InferenceLayout",
    "Layout",
    "LegacyLayout",
    "McoreLayout",
    "Target",
    "Version",
    "default_layout",
    "family_for",
    "family_named",
    "inference",
    "layout_of",
    "refusals",
    "target",
    "version_named",
    "ways",
    "why_not",
    "within",
]
