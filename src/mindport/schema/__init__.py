"""The canonical vocabulary between the two worlds: `TransformerConfig` and the weight slots."""

from mindport.schema.slots import MTP, SLOTS, PlacedSlot, Slot, count_parameters, indices, placed_slots, slots_of
from mindport.schema.transformer_config import NUMERICS, RUN, TRAINING, TransformerConfig
from mindport.schema.vocab_change import MOST_ROWS, VOCAB_RULES, VocabChange

__all__ = [
    "MOST_ROWS",
    "MTP",
    "NUMERICS",
    "RUN",
    "SLOTS",
    "TRAINING",
    "VOCAB_RULES",
    "PlacedSlot",
    "Slot",
    "TransformerConfig",
    "VocabChange",
    "count_parameters",
    "indices",
    "placed_slots",
    "slots_of",
]
