"""GPT-2: learned positions, LayerNorm before, biases everywhere, and matrices stored (in, out)."""

from mindport.architectures.common import ACTIVATION_NAMES, COMMON, QKV, head_width, probability, size
from mindport.architectures.vocabulary import Architecture, Computed, Field, HFClass, Ignored
from mindport.layout import Fuse, Stored, Transpose


def conv1d(*slots: str) -> Stored:
    """GPT-2's Conv1D: a linear layer stored transposed; several projections lie side by side."""
    return Stored(slots, (Fuse(), Transpose()))


ARCHITECTURE = Architecture(
    model_type="gpt2",
    title="GPT-2",
    classes={
        "GPT2LMHeadModel": HFClass({"head": "causal_lm"}),
        "GPT2Model": HFClass({"head": "none"}),
    },
    constants={
        "normalization": "LayerNorm",
        "position_embedding_type": "learned_absolute",
        "add_qkv_bias": True,
        "add_attention_output_bias": True,
        "add_mlp_bias": True,
    },
    computed={
        "kv_channels": lambda hf: head_width(hf, "n_embd", "n_head"),
        "num_query_groups": lambda hf: hf["n_head"],
        "output_layer_init_method_std": lambda hf: hf["initializer_range"] * (2 * hf["n_layer"]) ** -0.5,
    },
    rules=(
        size("vocab_size", "vocab_size"),
        size("n_embd", "hidden_size", aliases=("hidden_size",)),
        size("n_layer", "num_layers", aliases=("num_hidden_layers",)),
        size("n_head", "num_attention_heads", aliases=("num_attention_heads",)),
        size("n_inner", "ffn_hidden_size", derive=lambda hf: 4 * hf["n_embd"]),
        size("n_positions", "max_position_embeddings", aliases=("max_position_embeddings",)),
        Field("activation_function", "activation_func", ACTIVATION_NAMES),
        Field("layer_norm_epsilon", "layernorm_epsilon", float, minimum=0),
        Computed(
            "scale_attn_weights",
            bool,
            lambda on, hf: {"softmax_scale": head_width(hf, "n_embd", "n_head") ** -0.5 if on else 1.0},
            lambda config: config.softmax_scale != 1.0 or config.kv_channels == 1,
        ),
        Field("scale_attn_by_inverse_layer_idx", "scale_attention_by_inverse_layer_idx", bool),
        Field("tie_word_embeddings", "tie_word_embeddings", bool),
        probability("resid_pdrop", "hidden_dropout"),
        probability("embd_pdrop", "embedding_dropout"),
        probability("attn_pdrop", "attention_dropout"),
        Field("initializer_range", "init_method_std", float, minimum=0),
        Ignored(("reorder_and_upcast_attn",), "changes fp16 rounding only"),
        Ignored(("n_ctx",), "not read by GPT-2's class; n_positions rules"),
        Ignored(
            (
                "summary_type",
                "summary_use_proj",
                "summary_activation",
                "summary_proj_to_labels",
                "summary_first_dropout",
            ),
            "belongs to GPT-2's double-heads class",
        ),
        Ignored(("n_special", "predict_special_tokens"), "left by the first GPT-2 release; not read"),
        Ignored(
            (
                "hidden_act",
                "intermediate_size",
                "type_vocab_size",
                "hidden_dropout_prob",
                "attention_probs_dropout_prob",
                "is_decoder",
            ),
            "not read by GPT-2's class",
        ),
        *COMMON,
    ),
    bases=("transformer.", ""),
    tensors={
        "{base}wte.weight": "embedding.word.weight",
        "{base}wpe.weight": "embedding.position.weight",
        "{base}h.{L}.ln_1.{p}": "layer.{L}.attention_norm.{p}",
        "{base}h.{L}.attn.c_attn.{p}": conv1d(*QKV),
        "{base}h.{L}.attn.c_proj.{p}": conv1d("layer.{L}.attention.o.{p}"),
        "{base}h.{L}.ln_2.{p}": "layer.{L}.mlp_norm.{p}",
        "{base}h.{L}.mlp.c_fc.{p}": conv1d("layer.{L}.mlp.up.{p}"),
        "{base}h.{L}.mlp.c_proj.{p}": conv1d("layer.{L}.mlp.down.{p}"),
        "{base}ln_f.{p}": "final_norm.{p}",
        "lm_head.weight": "head.output.weight",
    },
    unused={
        "{base}h.{L}.attn.bias": "causal mask, recomputed",
        "{base}h.{L}.attn.masked_bias": "mask value, a constant",
    },
    tied={"lm_head.weight": "embedding.word.weight"},
)
