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
        count = hf["num_hidden_layers"]
        types = hf["layer_types"]
        if types is None:
            first = checked("max_window_layers", hf["max_window_layers"], int, 0)
            types = [SLIDING if width is not None and layer >= first else FULL for layer in range(count)]
        elif not isinstance(types, list) or len(types) != count or set(types) - {FULL, SLIDING}:
            raise MindportError(
                tr(
                    "layer_types must name {full} or {sliding} for each of the {count} layers.",
                    full=FULL,
                    sliding=SLIDING,
                    count=count,
                ),
                tr("Correct it in config.json."),
            )
        if SLIDING not in types:
            return {"window_size": None, "layer_types": None}
        if width is None:
            raise MindportError(
                tr("layer_types asks for sliding attention, but no window is set."),
                tr("Set sliding_window and use_sliding_window, or make every layer full."),
            )
        return {"window_size": width, "layer_types": types if FULL in types else None}

    def encode(self, config: TransformerConfig) -> dict[str, Any]:
        if config.window_size is None:
            return {"use_sliding_window": False, "sliding_window": None}
        return {
            "use_sliding_window": True,
            "sliding_window": config.window_size,
            "layer_types": config.layer_types or [SLIDING] * config.num_layers,
        }


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


def window_width(hf: HFConfig) -> int | None:
    """`sliding_window` as a positive width, or None."""
    width = hf["sliding_window"]
    return None if width is None else checked("sliding_window", width, int, 1)
