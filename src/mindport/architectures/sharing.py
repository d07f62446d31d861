"""Layers that share their weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mindport.architectures.vocabulary import STRUCTURE, HFConfig, checked
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.schema import TransformerConfig


@dataclass(frozen=True)
class LayerGroups:
    """ALBERT's `num_hidden_groups`: the layers are cut into so many runs, each of which uses one set of weights."""

    keys: tuple[str, ...] = ("num_hidden_groups",)
    layer: str = STRUCTURE
    aliases: tuple[str, ...] = ()

    def decode(self, hf: HFConfig) -> dict[str, Any]:
        layers = hf["num_hidden_layers"]
        groups = checked("num_hidden_groups", hf["num_hidden_groups"], int, 1)
        if groups > layers:
            raise MindportError(
                tr("{layers} layers cannot use {groups} groups of weights.", layers=layers, groups=groups),
                tr("Correct it in config.json."),
            )
        # In floating point, as the model's class divides.
        used = [int(layer / (layers / groups)) for layer in range(layers)]
        return {"layer_weights": None if groups == layers else used}

    def encode(self, config: TransformerConfig) -> dict[str, Any]:
        return {"num_hidden_groups": config.num_stored_layers}
