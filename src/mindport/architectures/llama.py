"""Llama 1 to 3, and the many models published under its class (SmolLM, Yi, Vicuna, TinyLlama ...)."""

from mindport.architectures.llama_like import BASES, COMPUTED, CONSTANTS, TENSORS, TIED, UNUSED, classes, rules
from mindport.architectures.vocabulary import TRAINING, Architecture, Field, HFClass, Ignored, Only

ARCHITECTURE = Architecture(
    model_type="llama",
    title="Llama",
    classes={
        **classes("Llama"),
        "LLaMAForCausalLM": HFClass({"head": "causal_lm"}),  # the first public conversions spelled it so
    },
    constants=CONSTANTS,
    computed=COMPUTED,
    rules=(
        *rules(),
        Field("attention_bias", ("add_qkv_bias", "add_attention_output_bias"), bool),
        Field("mlp_bias", "add_mlp_bias", bool),
        Only("sliding_window", None, "Llama's class has no window, but transformers' key/value cache would apply it"),
        Only("layer_types", None, "Llama's class has full attention in every layer"),
        Ignored(("use_sliding_window", "max_window_layers"), "Llama's class has no window"),
        Ignored(("pretraining_tp",), "slices the same products in PyTorch; the result is equal"),
        Ignored(("max_sequence_length",), "not read by Llama's class; max_position_embeddings rules"),
        Ignored(
            ("sequence_parallel_enabled", "selective_checkpoint_enabled"), "read by neuronx-distributed only", TRAINING
        ),
    ),
    bases=BASES,
    tensors=TENSORS,
    unused=UNUSED,
    tied=TIED,
)
