"""Attention to the keys on either side of a query, in all layers but every n-th."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mindport.architectures.vocabulary import STRUCTURE, HFConfig, checked
from mindport.architectures.windows import FULL, SLIDING, listed_types, windowed
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.schema import TransformerConfig


@dataclass(frozen=True)
class LocalWindow:
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
        return windowed(types, reach + 1)

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
