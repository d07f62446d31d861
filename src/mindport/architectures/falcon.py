"""Falcon 1 and 2, and Falcon-RW: queries, keys and values in one matrix, attention and MLP mostly in parallel.

Compared with transformers' `sdpa` attention, its default: the `eager` one adds ALiBi twice (docs/decisions, 0010).
"""

from mindport.architectures.common import ACTIVATION_NAMES, COMMON, DECODER, QKV, head_width, probability, size
from mindport.architectures.falcon_block import ATTENTION_DROPOUT, BLOCK
from mindport.architectures.rope import Rope
from mindport.architectures.vocabulary import Architecture, Computed, Field, HFClass, Ignored, Only, Repeats
from mindport.layout import Fuse, Stored

BERT4TORCH = (
    "model type_vocab_size p_bias rope_rank apply_residual_post_layernorm intermediate_size multi_query_group_num "
    "skip_init flash_attention"
)

ARCHITECTURE = Architecture(
    model_type="falcon",
    title="Falcon",
    classes={"FalconForCausalLM": HFClass({"head": "causal_lm"}), "FalconModel": HFClass({"head": "none"})},
    constants={"normalization": "LayerNorm"},
    computed={"kv_channels": head_width, "softmax_scale": lambda hf: head_width(hf) ** -0.5},
    rules=(
        size("vocab_size", "vocab_size"),
        size("hidden_size", "hidden_size", aliases=("n_embed",)),
        size("num_hidden_layers", "num_layers"),
        size("num_attention_heads", "num_attention_heads"),
        size("ffn_hidden_size", "ffn_hidden_size", derive=lambda hf: 4 * hf["hidden_size"]),
        size("max_position_embeddings", "max_position_embeddings"),
        BLOCK,
        Field("activation", "activation_func", ACTIVATION_NAMES),
        Field("layer_norm_epsilon", "layernorm_epsilon", float, minimum=0),
        Field("bias", ("add_qkv_bias", "add_attention_output_bias", "add_mlp_bias"), bool),
        Computed(
            "alibi",
            bool,
            lambda on, hf: {"position_embedding_type": "alibi" if on else "rope"},
            lambda config: config.position_embedding_type == "alibi",
        ),
        Rope(),
        Field("tie_word_embeddings", "tie_word_embeddings", bool),
        probability("hidden_dropout", "hidden_dropout"),
        ATTENTION_DROPOUT,
        Field("initializer_range", "init_method_std", float, minimum=0),
        *DECODER,
        Only("apply_residual_connection_post_layernorm", False, "Falcon's class does not read it"),
        Only("ff_factor", 4, "Falcon's class does not read it"),
        Repeats("n_layer", "num_hidden_layers"),
        Repeats("n_head", "num_attention_heads"),
        Repeats("n_head_kv", "num_kv_heads"),
        Repeats("hidden_act", "activation"),
        Repeats("layer_norm_eps", "layer_norm_epsilon"),
        Ignored(tuple(BERT4TORCH.split()), "read by bert4torch only"),
        *COMMON,
    ),
    bases=("transformer.", ""),
    tensors={
        "{base}word_embeddings.weight": "embedding.word.weight",
        "{base}h.{L}.input_layernorm.{p}": "layer.{L}.attention_norm.{p}",
        "{base}h.{L}.self_attention.query_key_value.{p}": Stored(QKV, (Fuse("num_query_groups"),)),
        "{base}h.{L}.self_attention.dense.{p}": "layer.{L}.attention.o.{p}",
        "{base}h.{L}.post_attention_layernorm.{p}": "layer.{L}.mlp_norm.{p}",
        "{base}h.{L}.mlp.dense_h_to_4h.{p}": "layer.{L}.mlp.up.{p}",
        "{base}h.{L}.mlp.dense_4h_to_h.{p}": "layer.{L}.mlp.down.{p}",
        "{base}ln_f.{p}": "final_norm.{p}",
        "lm_head.weight": "head.output.weight",
    },
    conditional=(
        (
            lambda config: config.parallel_block == "two_norms",
            {
                "{base}h.{L}.ln_attn.{p}": "layer.{L}.attention_norm.{p}",
                "{base}h.{L}.ln_mlp.{p}": "layer.{L}.mlp_norm.{p}",
            },
        ),
    ),
    tied={"lm_head.weight": "embedding.word.weight"},
    reference_attention="sdpa",
)
