"""Qwen3 (dense): Llama with a norm on each head's queries and keys before RoPE."""

from mindport.architectures.common import size
from mindport.architectures.llama_like import BASES, COMPUTED, CONSTANTS, QK_NORM, TENSORS, TIED, UNUSED, classes, rules
from mindport.architectures.vocabulary import Architecture, Field
from mindport.architectures.windows import GatedWindow

ARCHITECTURE = Architecture(
    model_type="qwen3",
    title="Qwen3",
    classes=classes("Qwen3"),
    constants={**CONSTANTS, "qk_layernorm": "head"},
    computed=COMPUTED,
    rules=(
        *rules(size("head_dim", "kv_channels")),
        Field("attention_bias", ("add_qkv_bias", "add_attention_output_bias"), bool),
        GatedWindow(),
    ),
    bases=BASES,
    tensors={**TENSORS, **QK_NORM},
    unused=UNUSED,
    tied=TIED,
)
