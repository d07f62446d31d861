"""The native MindSpore transformer: one parameter per slot, under the slot's own name."""

from __future__ import annotations

from mindport.layout import Stored, TensorMap
from mindport.schema import TransformerConfig, slots_of
from mindport.targets.target import Target


def _parameters(config: TransformerConfig) -> TensorMap:
    return {slot: Stored((slot,)) for slot in slots_of(config)}


NATIVE = Target("native", "Mindport's own MindSpore transformer", _parameters)
