"""The canonical vocabulary between the two worlds: `TransformerConfig` and the weight slots."""

from mindport.schema.slots import MTP, SLOTS, PlacedSlot, Slot, indices, placed_slots, slots_of
from mindport.schema.transformer_config import TransformerConfig

__all__ = ["MTP", "SLOTS", "PlacedSlot", "Slot", "TransformerConfig", "indices", "placed_slots", "slots_of"]
