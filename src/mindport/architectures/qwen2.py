"""Qwen2 and Qwen2.5: Llama with biases on queries, keys and values, which no config key mentions."""

from mindport.architectures.llama_like import BASES, COMPUTED, CONSTANTS, RULES, TENSORS, TIED, UNUSED, classes
from mindport.architectures.vocabulary import Architecture, Ignored, Only
from mindport.architectures.windows import GatedWindow

ARCHITECTURE = Architecture(
    model_type="qwen2",
    title="Qwen2, Qwen2.5",
    classes=classes("Qwen2"),
    constants={**CONSTANTS, "add_qkv_bias": True},
    computed=COMPUTED,
    rules=(
        *RULES,
        GatedWindow(),
        Only("use_mrope", False, "multimodal RoPE belongs to the vision-language models"),
        Ignored(("mask_value",), "a constant of code from the model folder; not read by Qwen2's class"),
    ),
    bases=BASES,
    tensors=TENSORS,
    unused=UNUSED,
    tied=TIED,
)
