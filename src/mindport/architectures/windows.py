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


@dataclass(frozen=True)
class AlternatingWindow:
    """ModernBERT's window: `local_attention` keys around a query, in all layers but every n-th from the first on, or
    in those that `layer_types` name.

    Args:
        every: the n that the config class assumes.
    """

    every: int
    keys: tuple[str, ...] = ("local_attention", "global_attn_every_n_layers", "layer_types", "sliding_window")
    layer: str = STRUCTURE
    aliases: tuple[str, ...] = ()

    def decode(self, hf: HFConfig) -> dict[str, Any]:
        # The keys on either side: an odd width is rounded down.
        reach = checked("local_attention", hf["local_attention"], int, 0) // 2
        self._agree("sliding_window, local_attention", hf.get("sliding_window"), reach)
        every = checked("global_attn_every_n_layers", hf.get("global_attn_every_n_layers", self.every), int, 1)
        types, regular = listed_types(hf), _every(every, hf["num_hidden_layers"])
        if "global_attn_every_n_layers" in hf:
            self._agree("global_attn_every_n_layers, layer_types", types, regular)
        types = types or regular
        if SLIDING not in types:
            return {"window_size": None, "layer_types": None}
        return {"window_size": reach + 1, "layer_types": types if FULL in types else None}

    def encode(self, config: TransformerConfig) -> dict[str, Any]:
        width = {} if config.window_size is None else {"local_attention": 2 * (config.window_size - 1)}
        kind = FULL if config.window_size is None else SLIDING
        types = config.layer_types or [kind] * config.num_layers
        every = types.index(FULL, 1) if FULL in types[1:] else len(types)
        if types != _every(every, len(types)):
            return {**width, "layer_types": types}
        # Both generations of transformers read the older spelling.
        return {**width, "global_attn_every_n_layers": every}

    def _agree(self, keys: str, value: Any, wanted: Any) -> None:
        if value is not None and value != wanted:
            raise MindportError(
                tr("{keys} are the same setting and disagree.", keys=keys), tr("Correct it in config.json.")
            )


def _every(every: int, count: int) -> list[str]:
    """Full attention in every n-th layer, the first among them."""
    return [SLIDING if layer % every else FULL for layer in range(count)]


def listed_types(hf: HFConfig) -> list[str] | None:
    """`layer_types`, or None where the config does not list them.

    Raises:
        MindportError: not one of the two types for each layer.
    """
    types: Any = hf.get("layer_types")
    count = hf["num_hidden_layers"]
    if types is not None and (not isinstance(types, list) or len(types) != count or set(types) - {FULL, SLIDING}):
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
