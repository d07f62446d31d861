"""The native MindSpore transformer: one parameter per slot, under the slot's own name.

What a layer has many of (experts, norms of heads) is one parameter, stacked along a new first axis, so that the
products of all experts are one.
"""

from __future__ import annotations

from mindport.layout import Stack, Stored, TensorMap
from mindport.schema import MTP, TransformerConfig, placed_slots, slots_of
from mindport.targets.target import Target

STACKED = ("E", "H", "G")
"""Indices along which slots are stacked: experts, query heads, key/value heads."""


def _parameters(config: TransformerConfig) -> TensorMap:
    parts: dict[str, list[str]] = {}
    stacked: set[str] = set()
    for placed in placed_slots(config):
        template = placed.slot.name
        for key in STACKED:
            template = template.replace(f".{{{key}}}", "")
        parameter = template.format(**placed.index)
        parts.setdefault(parameter, []).append(placed.name)
        if template != placed.slot.name:
            stacked.add(parameter)
    return {name: Stored(tuple(slots), (Stack(),) if name in stacked else ()) for name, slots in parts.items()}


def computed_parameters(config: TransformerConfig) -> dict[str, tuple[int, ...]]:
    """The parameters that the native network has, with their shapes: all but what is only carried along."""
    return {name: shape for name, shape in _shapes(config).items() if not is_carried(name)}


def carried_parameters(config: TransformerConfig) -> dict[str, tuple[int, ...]]:
    """What is only carried along, with its shapes."""
    return {name: shape for name, shape in _shapes(config).items() if is_carried(name)}


def _shapes(config: TransformerConfig) -> dict[str, tuple[int, ...]]:
    slots = slots_of(config)
    return {name: stored.shape([slots[part] for part in stored.parts]) for name, stored in _parameters(config).items()}


def is_carried(parameter: str) -> bool:
    """Whether a parameter is kept in converted weights without a place in the network: multi-token prediction."""
    return parameter.startswith(MTP.split("{")[0])


NATIVE = Target("native", "Mindport's own MindSpore transformer", _parameters)
