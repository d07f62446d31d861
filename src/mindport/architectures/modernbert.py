"""ModernBERT: an encoder in Llama's manner, with RoPE, gated MLPs and windows in two of three layers."""

from mindport.architectures.common import ACTIVATION_NAMES, COMMON, QKV, head_width, padding_row, probability, size
from mindport.architectures.local_windows import LocalWindow
from mindport.architectures.rope_by_layer import RopeByLayer
from mindport.architectures.vocabulary import RECORD, TRAINING, Architecture, Field, HFClass, HFConfig, Ignored, Only
from mindport.layout import Fuse, Stored

DECODER = {"decoder.{p}": "masked-LM head, not read by this class"}
HEAD = {
    **DECODER,
    "head.dense.{p}": "head, not read by the bare model",
    "head.norm.{p}": "head, not read by the bare model",
}


def _output_std(hf: HFConfig) -> float:
    """Of what is added to the residual stream, which grows with each layer."""
    std: float = hf["initializer_range"] * (2 * hf["num_hidden_layers"]) ** -0.5
    return std


ARCHITECTURE = Architecture(
    model_type="modernbert",
    title="ModernBERT",
    classes={
        "ModernBertModel": HFClass({"head": "none"}, unused=HEAD),
        "ModernBertForMaskedLM": HFClass({"head": "masked_lm"}),
        "ModernBertForSequenceClassification": HFClass({"head": "sequence_classification"}, unused=DECODER),
        "ModernBertForTokenClassification": HFClass({"head": "token_classification"}, unused=DECODER),
    },
    constants={
        "attention_mask_type": "bidirectional",
        "normalization": "LayerNorm",
        "embedding_layernorm": True,
        "first_attention_layernorm": False,
        "gated_linear_unit": True,
        "position_embedding_type": "rope",
        "hidden_dropout_after_mlp": False,
        "add_classifier_transform": True,
        "zero_init_padding": False,
    },
    computed={
        "embedding_padding_idx": padding_row,
        "kv_channels": head_width,
        "num_query_groups": lambda hf: hf["num_attention_heads"],
        "softmax_scale": lambda hf: head_width(hf) ** -0.5,
        "output_layer_init_method_std": _output_std,
        "head_init_method_std": _output_std,
        "classifier_init_method_std": lambda hf: hf["hidden_size"] ** -0.5,
    },
    rules=(
        size("vocab_size", "vocab_size"),
        size("hidden_size", "hidden_size"),
        size("intermediate_size", "ffn_hidden_size"),
        size("num_hidden_layers", "num_layers"),
        size("num_attention_heads", "num_attention_heads"),
        size("max_position_embeddings", "max_position_embeddings"),
        Field("hidden_activation", "activation_func", ACTIVATION_NAMES),
        Field("classifier_activation", "head_activation", ACTIVATION_NAMES),
        Field("norm_eps", "layernorm_epsilon", float, minimum=0),
        Field("norm_bias", "add_norm_bias", bool),
        Field("attention_bias", ("add_qkv_bias", "add_attention_output_bias"), bool),
        Field("mlp_bias", "add_mlp_bias", bool),
        Field("classifier_bias", "add_head_transform_bias", bool),
        Field("decoder_bias", "add_masked_lm_bias", bool),
        Field("classifier_pooling", "classifier_pooling", ("cls", "mean")),
        LocalWindow(every=3),
        RopeByLayer(full_base=160000.0, sliding_base=10000.0),
        Field("tie_word_embeddings", "tie_word_embeddings", bool),
        probability("attention_dropout", ("attention_dropout", "hidden_dropout")),
        probability("embedding_dropout", "embedding_dropout"),
        probability("mlp_dropout", "mlp_dropout"),
        probability("classifier_dropout", "classifier_dropout"),
        Field("initializer_range", "init_method_std", float, minimum=0),
        Only("partial_rotary_factor", 1.0, "the model's class rotates whole heads"),
        Field("initializer_cutoff_factor", "init_method_cutoff", float, layer=TRAINING, minimum=0.1),
        Ignored(("sparse_prediction", "sparse_pred_ignore_index"), "spares logits that no label asks for", TRAINING),
        Ignored(("deterministic_flash_attn", "reference_compile", "repad_logits_with_grad"), "how PyTorch runs it"),
        Ignored(("rope_theta",), "not read by ModernBERT's class; global_rope_theta and local_rope_theta rule"),
        Ignored(("layer_norm_eps",), "not read by ModernBERT's class; norm_eps rules"),
        Ignored(("position_embedding_type",), "not read by ModernBERT's class, which has RoPE"),
        Ignored(("cls_token_id", "mask_token_id"), "belongs to the tokenizer", RECORD),
        *COMMON,
    ),
    bases=("model.", ""),
    tensors={
        "{base}embeddings.tok_embeddings.weight": "embedding.word.weight",
        "{base}embeddings.norm.{p}": "embedding.norm.{p}",
        "{base}layers.{L}.attn_norm.{p}": "layer.{L}.attention_norm.{p}",
        "{base}layers.{L}.attn.Wqkv.{p}": Stored(QKV, (Fuse(),)),
        "{base}layers.{L}.attn.Wo.{p}": "layer.{L}.attention.o.{p}",
        "{base}layers.{L}.mlp_norm.{p}": "layer.{L}.mlp_norm.{p}",
        # The first half is what the activation is on.
        "{base}layers.{L}.mlp.Wi.{p}": Stored(("layer.{L}.mlp.gate.{p}", "layer.{L}.mlp.up.{p}"), (Fuse(),)),
        "{base}layers.{L}.mlp.Wo.{p}": "layer.{L}.mlp.down.{p}",
        "{base}final_norm.{p}": "final_norm.{p}",
        "head.dense.{p}": "head.transform.{p}",
        "head.norm.{p}": "head.norm.{p}",
        "decoder.weight": "head.output.weight",
        "decoder.bias": "head.output.bias",
        "classifier.{p}": "head.classifier.{p}",
    },
    tied={"decoder.weight": "embedding.word.weight"},
)
