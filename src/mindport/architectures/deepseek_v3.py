"""DeepSeek-V3 and R1, Moonlight: latent attention, experts in groups beside a shared one, multi-token prediction."""

from mindport.architectures.common import padding_row, size
from mindport.architectures.experts import STACKED, DenseFirst, mlp, per_expert
from mindport.architectures.latent import RULES, SAME_HEADS, TENSORS, TURNED_WIDTH, head_width, softmax_scale
from mindport.architectures.llama_like import BASES, CONSTANTS, ENDS, MLP, NORMS, TIED, UNUSED, rules
from mindport.architectures.multi_token import OPTIONAL, OWN, module_layers
from mindport.architectures.vocabulary import TRAINING, Architecture, Computed, Field, HFClass, Ignored, Only, checked

LAYER = {
    **NORMS,
    **TENSORS,
    "{base}layers.{L}.mlp.gate.weight": "layer.{L}.mlp.router.weight",
    "{base}layers.{L}.mlp.gate.e_score_correction_bias": "layer.{L}.mlp.router.score_correction",
    **per_expert("mlp.experts", "gate_proj", "up_proj", "down_proj"),
    **mlp("mlp.shared_experts", "mlp.shared"),
}
"""A layer with experts, as each module for multi-token prediction has one too."""

ARCHITECTURE = Architecture(
    model_type="deepseek_v3",
    title="DeepSeek-V3, DeepSeek-R1",
    classes={
        "DeepseekV3ForCausalLM": HFClass({"head": "causal_lm"}, OPTIONAL),
        "DeepseekV3Model": HFClass({"head": "none"}, OPTIONAL),
    },
    constants={
        **CONSTANTS,
        "multi_latent_attention": True,
        "latent_layernorm_epsilon": 1e-6,  # the norms' own default: rms_norm_eps is not handed to them
        "moe_router_score_function": "sigmoid",
        "moe_router_enable_expert_bias": True,
    },
    computed={
        "embedding_padding_idx": padding_row,
        "kv_channels": head_width,
        "num_query_groups": lambda hf: hf["num_attention_heads"],
        "softmax_scale": softmax_scale,
    },
    rules=(
        *rules(SAME_HEADS, TURNED_WIDTH),
        *RULES,
        size("n_routed_experts", "num_moe_experts", aliases=("num_local_experts",)),
        size("num_experts_per_tok", "moe_router_topk"),
        size("moe_intermediate_size", "moe_ffn_hidden_size"),
        Computed(
            "n_shared_experts",
            int,
            lambda count, hf: {
                "moe_shared_expert_intermediate_size": checked("n_shared_experts", count, int, 1)
                * hf["moe_intermediate_size"]
            },
            lambda config: config.moe_shared_expert_intermediate_size // config.moe_ffn_hidden_size,
        ),
        DenseFirst(),
        size("n_group", "moe_router_num_groups"),
        size("topk_group", "moe_router_group_topk"),
        Field("norm_topk_prob", "norm_topk_prob", bool),
        Field("routed_scaling_factor", "moe_router_topk_scaling_factor", float),
        size("num_nextn_predict_layers", "mtp_num_layers", minimum=0, aliases=("num_mtp_layers",)),
        Only("scoring_func", "sigmoid", "the model's class has no other router"),
        Only("topk_method", "noaux_tc", "the model's class has no other router"),
        Only("moe_layer_freq", 1, "the model's class has experts in every layer after the first dense ones"),
        Ignored(("aux_loss_alpha", "seq_aux"), "for a loss that the model's class does not have", TRAINING),
        Ignored(("ep_size",), "how experts are spread over devices; the result is equal"),
        Ignored(("output_router_logits",), "how the PyTorch class is called or returns"),
        Ignored(("pretraining_tp",), "slices the same products in PyTorch; the result is equal"),
    ),
    bases=BASES,
    tensors={**ENDS, **MLP, **LAYER, **OWN, **module_layers(LAYER)},
    alternatives=({**STACKED, **module_layers(STACKED)},),
    unused=UNUSED,
    tied=TIED,
)
