"""The canonical vocabulary between the two worlds: `TransformerConfig` and the weight slots."""

from mindport.schema.slots import SLOTS, Slot, slots_of
from mindport.schema.transformer_config import NUMERICS, RUN, TRAINING, TransformerConfig

__all__ = ["NUMERICS", "RUN", "SLOTS", "TRAINING", "Slot", "TransformerConfig", "slots_of"]
