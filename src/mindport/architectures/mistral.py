"""Mistral: Llama with a sliding window in every layer, and no biases."""

from mindport.architectures.common import size
from mindport.architectures.llama_like import BASES, COMPUTED, CONSTANTS, TENSORS, TIED, UNUSED, classes, rules
from mindport.architectures.vocabulary import Architecture
from mindport.architectures.windows import Window

ARCHITECTURE = Architecture(
    model_type="mistral",
    title="Mistral",
    classes=classes("Mistral"),
    constants=CONSTANTS,
    computed=COMPUTED,
    rules=(*rules(size("num_key_value_heads", "num_query_groups")), Window()),
    bases=BASES,
    tensors=TENSORS,
    unused=UNUSED,
    tied=TIED,
)
