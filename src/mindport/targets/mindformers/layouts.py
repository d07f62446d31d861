"""How weights lie in a graph of MindFormers: which settings decide it, and what that makes of the parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mindport.errors import MindportError, brief
from mindport.i18n import tr
from mindport.targets.mindformers.legacy import LegacyLayout, llama
from mindport.targets.mindformers.mcore import InferenceLayout, McoreLayout, inference, training
from mindport.targets.mindformers.versions import LEGACY, MCORE, Version
from mindport.targets.target import Target

Layout = McoreLayout | LegacyLayout | InferenceLayout
"""How the weights of a graph lie; in training, by settings of the model config."""


def default_layout(generation: str) -> Layout:
    """The layout of MindFormers' own defaults.

    Raises:
        MindportError: Mindport has no layouts for this generation.
    """
    if generation == MCORE:
        return McoreLayout()
    if generation == LEGACY:
        return LegacyLayout()
    raise MindportError(
        tr("Mindport has no weight layouts for MindFormers' {generation} generation.", generation=generation),
        tr("Choose one of {generations}.", generations=f"{MCORE}, {LEGACY}"),
    )


def layout_of(generation: str, settings: Mapping[str, Any]) -> Layout:
    """The layout that a model config of MindFormers asks for.

    Args:
        settings: of its section `model_config`; what is not given is MindFormers' default.

    Raises:
        MindportError: a setting is neither True nor False, or Mindport has no layouts for this generation.
    """
    layout = default_layout(generation)
    given = {name: settings[name] for name in layout.settings() if name in settings}
    for name, value in given.items():
        if not isinstance(value, bool):
            raise MindportError(
                tr("{name} = {value} says nothing of how weights lie.", name=name, value=brief(value)),
                tr("Write True or False."),
            )
    return replace(layout, **given)


def target(version: Version, layout: Layout) -> Target:
    """The graph of a version whose weights lie so, as a destination of weights.

    Whether a model has a place there, `family_for` says; the layout is alike in all families of a generation.

    Raises:
        MindportError: that version has this layout in a way that Mindport cannot write.
    """
    if isinstance(layout, InferenceLayout):
        return inference()
    if isinstance(layout, McoreLayout):
        return training(layout)
    if layout.qkv_concat and version.order < (1, 6):
        raise MindportError(
            tr("Before MindFormers 1.6, qkv_concat made a file that depends on model_parallel."),
            tr("Leave qkv_concat at False."),
        )
    return llama(layout)
