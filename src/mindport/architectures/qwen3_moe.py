"""Qwen3 with experts: the layers' MLPs replaced by a softmax router and experts, in all or some layers."""

from mindport.architectures.common import size
from mindport.architectures.experts import ROUTING, STACKED, SparseLayers, per_expert
from mindport.architectures.llama_like import BASES, COMPUTED, CONSTANTS, QK_NORM, TENSORS, TIED, UNUSED, classes, rules
from mindport.architectures.vocabulary import Architecture, Field, Ignored, Only
from mindport.architectures.windows import Window

ARCHITECTURE = Architecture(
    model_type="qwen3_moe",
    title="Qwen3-MoE",
    classes=classes("Qwen3Moe"),
    constants={**CONSTANTS, "qk_layernorm": "head"},
    computed=COMPUTED,
    rules=(
        *rules(size("num_key_value_heads", "num_query_groups")),
        Field("attention_bias", ("add_qkv_bias", "add_attention_output_bias"), bool),
        Window("use_sliding_window"),
        size("num_local_experts", "num_moe_experts", aliases=("num_experts",)),
        size("moe_intermediate_size", "moe_ffn_hidden_size"),
        Field("norm_topk_prob", "norm_topk_prob", bool),
        SparseLayers(),
        *ROUTING,
        Ignored(("max_window_layers",), "not read by Qwen3-MoE's class: a window is for all layers"),
        Only("shared_expert_intermediate_size", 0, "Qwen3-MoE's class has no shared expert"),
        Only("qkv_bias", False, "Qwen3-MoE's class reads attention_bias"),
        Only("use_qk_norm", True, "Qwen3-MoE's class always has it"),
    ),
    bases=BASES,
    tensors={
        **TENSORS,
        **QK_NORM,
        "{base}layers.{L}.mlp.gate.weight": "layer.{L}.mlp.router.weight",
        **per_expert("mlp.experts", "gate_proj", "up_proj", "down_proj"),
    },
    alternatives=(STACKED,),
    unused=UNUSED,
    tied=TIED,
)
