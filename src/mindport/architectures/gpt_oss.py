"""GPT-OSS: experts with biases and a clamped gate, attention sinks, a window in every other layer."""

from mindport.architectures.common import size
from mindport.architectures.experts import ROUTING
from mindport.architectures.llama_like import (
    BASES,
    COMPUTED,
    CONSTANTS,
    TIED,
    UNUSED,
    WITHOUT_MLP,
    classes,
    rules,
)
from mindport.architectures.rope import Rope
from mindport.architectures.vocabulary import Architecture, Field, Ignored, Only
from mindport.architectures.windows import AlternatingWindow
from mindport.layout import Fuse, Stack, Stored, Transpose

SCALING = {
    "rope_type": "yarn",
    "factor": 32.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": False,
    "original_max_position_embeddings": 4096,
}
"""What the config class assumes."""

PAIRS = Fuse("moe_ffn_hidden_size", of=2)
"""Rows of gate and up in turn, expert by expert."""

GATE_UP = "layer.{L}.mlp.experts.{E}.gate", "layer.{L}.mlp.experts.{E}.up"

ARCHITECTURE = Architecture(
    model_type="gpt_oss",
    title="GPT-OSS",
    classes=classes("GptOss"),
    constants={
        **CONSTANTS,
        "softmax_type": "learnable",
        "activation_func": "quick_gelu",
        "glu_linear_offset": 1.0,
        "add_mlp_bias": True,
        "add_router_bias": True,
        "moe_router_pre_softmax": False,
    },
    computed=COMPUTED,
    rules=(
        *rules(
            size("intermediate_size", ("ffn_hidden_size", "moe_ffn_hidden_size")),
            size("num_key_value_heads", "num_query_groups"),
            size("head_dim", "kv_channels"),
            Rope(assumed=SCALING),
            Ignored(("hidden_act",), "not read by GPT-OSS's class, whose experts have an activation of their own"),
        ),
        Field("attention_bias", ("add_qkv_bias", "add_attention_output_bias"), bool),
        AlternatingWindow(),
        size("num_local_experts", "num_moe_experts", aliases=("num_experts",)),
        *ROUTING,
        Field("swiglu_limit", "activation_func_clamp_value", float, minimum=0),
        Only("swiglu_alpha", 1.702, "the native model has this gate, x * sigmoid(1.702 x), under the name quick_gelu"),
        Ignored(("experts_per_token", "initial_context_length"), "not read by GPT-OSS's class; other keys say it"),
    ),
    bases=BASES,
    tensors={
        **WITHOUT_MLP,
        "{base}layers.{L}.self_attn.sinks": "layer.{L}.attention.sinks",
        "{base}layers.{L}.mlp.router.{p}": "layer.{L}.mlp.router.{p}",
        "{base}layers.{L}.mlp.experts.gate_up_proj": Stored(
            tuple(f"{part}.weight" for part in GATE_UP), (PAIRS, Transpose(), Stack())
        ),
        "{base}layers.{L}.mlp.experts.gate_up_proj_bias": Stored(
            tuple(f"{part}.bias" for part in GATE_UP), (PAIRS, Stack())
        ),
        "{base}layers.{L}.mlp.experts.down_proj": Stored(
            ("layer.{L}.mlp.experts.{E}.down.weight",), (Transpose(), Stack())
        ),
        "{base}layers.{L}.mlp.experts.down_proj_bias": Stored(("layer.{L}.mlp.experts.{E}.down.bias",), (Stack(),)),
    },
    unused=UNUSED,
    tied=TIED,
)
