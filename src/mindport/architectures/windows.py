"""Sliding attention windows of a Hugging Face config: a width, a switch, and which layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mindport.architectures.vocabulary import STRUCTURE, HFConfig, checked
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.schema import TransformerConfig

FULL, SLIDING = "full_attention", "sliding_attention"


@dataclass(frozen=True)
class GatedWindow:
    """Qwen's window: on with `use_sliding_window`, from layer `max_window_layers` unless `layer_types` say which."""

    keys: tuple[str, ...] = ("use_sliding_window", "sliding_window", "max_window_layers", "layer_types")
    layer: str = STRUCTURE
    aliases: tuple[str, ...] = ()

    def decode(self, hf: HFConfig) -> dict[str, Any]:
        width = window_width(hf) if checked("use_sliding_window", hf["use_sliding_window"], bool) else None
        types = listed_types(hf)
        if types is None:
            first = checked("max_window_layers", hf["max_window_layers"], int, 0)
            sliding = (width is not None and layer >= first for layer in range(hf["num_hidden_layers"]))
            types = [SLIDING if slides else FULL for slides in sliding]
        return windowed(types, width)

    def encode(self, config: TransformerConfig) -> dict[str, Any]:
        if config.window_size is None:
            return {"use_sliding_window": False, "sliding_window": None}
        return {
            "use_sliding_window": True,
            "sliding_window": config.window_size,
            "layer_types": config.layer_types or [SLIDING] * config.num_layers,
        }


@dataclass(frozen=True)
class AlternatingWindow:
    """GPT-OSS's window: in every other layer, the first among them, unless `layer_types` say which."""

    keys: tuple[str, ...] = ("sliding_window", "layer_types")
    layer: str = STRUCTURE
    aliases: tuple[str, ...] = ()

    def decode(self, hf: HFConfig) -> dict[str, Any]:
        types = listed_types(hf)
        if types is None:
            types = [FULL if layer % 2 else SLIDING for layer in range(hf["num_hidden_layers"])]
        return windowed(types, window_width(hf))

    def encode(self, config: TransformerConfig) -> dict[str, Any]:
        kind = FULL if config.window_size is None else SLIDING
        # Without a windowed layer the width says nothing, but transformers wants one: the class's own is left.
        width = {} if config.window_size is None else {"sliding_window": config.window_size}
        return {**width, "layer_types": config.layer_types or [kind] * config.num_layers}


@dataclass(frozen=True)
class Window:
    """Mistral's window: every layer has it, unless it is null, or off by a switch where there is one."""

    switch: str | None = None
    layer: str = STRUCTURE
    aliases: tuple[str, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        return ("sliding_window",) if self.switch is None else (self.switch, "sliding_window")

    def decode(self, hf: HFConfig) -> dict[str, Any]:
        on = self.switch is None or checked(self.switch, hf[self.switch], bool)
        return {"window_size": window_width(hf) if on else None}

    def encode(self, config: TransformerConfig) -> dict[str, Any]:
        switch = {} if self.switch is None else {self.switch: config.window_size is not None}
        return {**switch, "sliding_window": config.window_size}


def listed_types(hf: HFConfig) -> list[str] | None:
    """`layer_types`, or None where the config does not list them.

    Raises:
        MindportError: not one of the two types for each layer.
    """
    types: Any = hf.get("layer_types")
    count = hf["num_hidden_layers"]
    if types is not None and (
        not isinstance(types, list) or len(types) != count or any(kind not in (FULL, SLIDING) for kind in types)
    ):
        raise MindportError(
            tr(
                "layer_types must name {full} or {sliding} for each of the {count} layers.",
                full=FULL,
                sliding=SLIDING,
                count=count,
            ),
            tr("Correct it in config.json."),
        )
    return types


def window_width(hf: HFConfig) -> int | None:
    """`sliding_window` as a positive width, or None."""
    width = hf["sliding_window"]
    return None if width is None else checked("sliding_window", width, int, 1)


def windowed(types: list[str], width: int | None) -> dict[str, Any]:
    """The canonical fields of a window in the layers that `types` name.

    Raises:
        MindportError: `types` asks for a window without a width.
    """
    if SLIDING not in types:
        return {"window_size": None, "layer_types": None}
    if width is None:
        raise MindportError(
            tr("layer_types asks for sliding attention, but no window is set."),
            tr("Set sliding_window and use_sliding_window, or make every layer full."),
        )
    return {"window_size": width, "layer_types": types if FULL in types else None}
