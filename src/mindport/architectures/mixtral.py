"""Mixtral: Mistral with experts in every layer."""

from mindport.architectures.common import size
from mindport.architectures.experts import ROUTING, STACKED, per_expert
from mindport.architectures.llama_like import BASES, COMPUTED, CONSTANTS, TIED, UNUSED, WITHOUT_MLP, classes, rules
from mindport.architectures.vocabulary import RUNTIME, Architecture, Ignored, Only
from mindport.architectures.windows import Window

ARCHITECTURE = Architecture(
    model_type="mixtral",
    title="Mixtral",
    classes=classes("Mixtral"),
    constants={**CONSTANTS, "norm_topk_prob": True},
    computed=COMPUTED,
    rules=(
        *rules(
            size("num_key_value_heads", "num_query_groups"),
            size("intermediate_size", ("ffn_hidden_size", "moe_ffn_hidden_size")),
        ),
        Window(),
        size("num_local_experts", "num_moe_experts", aliases=("num_experts",)),
        *ROUTING,
        Ignored(
            ("moe_frequency", "pretraining_tp", "use_flash_attention", "world_size"),
            "not read by Mixtral's class",
            RUNTIME,
        ),
        Only("router_jitter_noise", 0.0, "noise on the router's input, in training, is not supported"),
    ),
    bases=BASES,
    tensors={
        **WITHOUT_MLP,
        "{base}layers.{L}.block_sparse_moe.gate.weight": "layer.{L}.mlp.router.weight",
        **per_expert("block_sparse_moe.experts", "w1", "w3", "w2"),
    },
    alternatives=(STACKED,),
    unused=UNUSED,
    tied=TIED,
)
