"""Llama 1 to 3, and the many models published under its class (SmolLM, Yi, Vicuna, TinyLlama ...)."""

from mindport.architectures.common import ACTIVATION_NAMES, COMMON, head_width, padding_row, probability, size
from mindport.architectures.rope import Rope
from mindport.architectures.vocabulary import TRAINING, Architecture, Field, HFClass, Ignored, Only

ARCHITECTURE = Architecture(
    model_type="llama",
    title="Llama",
    classes={
        "LlamaForCausalLM": HFClass({"head": "causal_lm"}),
        "LLaMAForCausalLM": HFClass({"head": "causal_lm"}),  # the first public conversions spelled it so
        "LlamaModel": HFClass({"head": "none"}),
    },
    constants={"normalization": "RMSNorm", "gated_linear_unit": True, "position_embedding_type": "rope"},
    computed={"embedding_padding_idx": padding_row, "softmax_scale": lambda hf: hf["head_dim"] ** -0.5},
    rules=(
        size("vocab_size", "vocab_size"),
        size("hidden_size", "hidden_size"),
        size("intermediate_size", "ffn_hidden_size"),
        size("num_hidden_layers", "num_layers"),
        size("num_attention_heads", "num_attention_heads"),
        size("num_key_value_heads", "num_query_groups", derive=lambda hf: hf["num_attention_heads"]),
        size("head_dim", "kv_channels", derive=head_width),
        size("max_position_embeddings", "max_position_embeddings"),
        Field("hidden_act", "activation_func", ACTIVATION_NAMES),
        Field("rms_norm_eps", "layernorm_epsilon", float, minimum=0),
        Rope(),
        Field("attention_bias", ("add_qkv_bias", "add_attention_output_bias"), bool),
        Field("mlp_bias", "add_mlp_bias", bool),
        Field("tie_word_embeddings", "tie_word_embeddings", bool),
        probability("attention_dropout", "attention_dropout"),
        Field("initializer_range", "init_method_std", float, minimum=0),
        Ignored(("pretraining_tp",), "slices the same products in PyTorch; the result is equal"),
        Only("sliding_window", None, "Llama's class has no window, but transformers' key/value cache would apply it"),
        Only("layer_types", None, "Llama's class has full attention in every layer"),
        Only("is_causal", True, "Llama as an encoder is not supported"),
        Only("partial_rotary_factor", 1.0, "Llama's class rotates whole heads"),
        Only("original_max_position_embeddings", None, "it would override the one inside the RoPE settings"),
        Only("per_layer_config", None, "layers that differ in shape are not supported"),
        Ignored(("use_sliding_window", "max_window_layers"), "Llama's class has no window"),
        Ignored(("max_sequence_length",), "not read by Llama's class; max_position_embeddings rules"),
        Ignored(
            ("sequence_parallel_enabled", "selective_checkpoint_enabled"), "read by neuronx-distributed only", TRAINING
        ),
        Ignored(("draft_vocab_size",), "belongs to EAGLE's draft head, which Llama's class does not have"),
        *COMMON,
    ),
    bases=("model.", ""),
    tensors={
        "{base}embed_tokens.weight": "embedding.word.weight",
        "{base}layers.{L}.input_layernorm.{p}": "layer.{L}.attention_norm.{p}",
        "{base}layers.{L}.self_attn.q_proj.{p}": "layer.{L}.attention.q.{p}",
        "{base}layers.{L}.self_attn.k_proj.{p}": "layer.{L}.attention.k.{p}",
        "{base}layers.{L}.self_attn.v_proj.{p}": "layer.{L}.attention.v.{p}",
        "{base}layers.{L}.self_attn.o_proj.{p}": "layer.{L}.attention.o.{p}",
        "{base}layers.{L}.post_attention_layernorm.{p}": "layer.{L}.mlp_norm.{p}",
        "{base}layers.{L}.mlp.gate_proj.{p}": "layer.{L}.mlp.gate.{p}",
        "{base}layers.{L}.mlp.up_proj.{p}": "layer.{L}.mlp.up.{p}",
        "{base}layers.{L}.mlp.down_proj.{p}": "layer.{L}.mlp.down.{p}",
        "{base}norm.{p}": "final_norm.{p}",
        "lm_head.weight": "head.output.weight",
    },
    unused={"{base}layers.{L}.self_attn.rotary_emb.inv_freq": "RoPE frequencies, recomputed"},
    tied={"lm_head.weight": "embedding.word.weight"},
)
