"""StableLM 3B and 2: RoPE on a quarter of each head, LayerNorm; the 12B with a parallel block and a norm per head."""

from mindport.architectures.common import head_width, padding_row, probability, size
from mindport.architectures.llama_like import BASES, CONSTANTS, TENSORS, TIED, UNUSED, classes, rules
from mindport.architectures.partial_rope import PartialRope
from mindport.architectures.vocabulary import Architecture, Computed, Field, Repeats

ARCHITECTURE = Architecture(
    model_type="stablelm",
    title="StableLM",
    classes=classes("StableLm"),
    # Nothing drops what attention gives.
    constants={**CONSTANTS, "normalization": "LayerNorm", "attention_output_dropout": 0.0},
    computed={
        "embedding_padding_idx": padding_row,
        "kv_channels": head_width,
        "softmax_scale": lambda hf: head_width(hf) ** -0.5,
    },
    rules=(
        *rules(
            size("num_key_value_heads", "num_query_groups"),
            Repeats("head_dim", head_width, "heads share the hidden size evenly"),
            PartialRope(default=0.25),
            without=("rms_norm_eps",),
        ),
        Field("layer_norm_eps", "layernorm_epsilon", float, minimum=0),
        Field("use_qkv_bias", "add_qkv_bias", bool),
        Computed(
            "qk_layernorm",
            bool,
            lambda on, hf: {"qk_layernorm": "each_head" if on else "none"},
            lambda config: config.qk_layernorm == "each_head",
        ),
        Computed(
            "use_parallel_residual",
            bool,
            lambda on, hf: {"parallel_block": "one_norm" if on else "none"},
            lambda config: config.parallel_block == "one_norm",
        ),
        probability("hidden_dropout", "hidden_dropout"),
    ),
    bases=BASES,
    tensors={
        **TENSORS,
        "{base}layers.{L}.self_attn.q_layernorm.norms.{H}.weight": "layer.{L}.attention.q_norm.{H}.weight",
        "{base}layers.{L}.self_attn.k_layernorm.norms.{G}.weight": "layer.{L}.attention.k_norm.{G}.weight",
    },
    unused=UNUSED,
    tied=TIED,
)
