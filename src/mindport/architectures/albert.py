"""ALBERT: BERT whose layers share their weights, with narrow embeddings that are projected."""

from mindport.architectures.bert_like import COMPUTED, CONSTANTS
from mindport.architectures.common import ACTIVATION_NAMES, COMMON, head_width, probability, size
from mindport.architectures.sharing import LayerGroups
from mindport.architectures.vocabulary import Architecture, Field, HFClass, Ignored, Only

POOLER = {"{base}pooler.{p}": "pooler of the bare model, not read by this class"}
SENTENCE_ORDER = {"sop_classifier.classifier.{p}": "sentence-order head, not read by this class"}
SECOND_BIAS = {"predictions.bias": "where nothing is tied, the decoder's own bias is read instead"}
PRETRAINING = {
    "predictions.bias": "masked-LM head, not read by this class",
    "predictions.decoder.{p}": "masked-LM head, not read by this class",
    "predictions.dense.{p}": "masked-LM head, not read by this class",
    "predictions.LayerNorm.{p}": "masked-LM head, not read by this class",
    **SENTENCE_ORDER,
}

LAYER = "{base}encoder.albert_layer_groups.{L}.albert_layers.0"

ARCHITECTURE = Architecture(
    model_type="albert",
    title="ALBERT",
    classes={
        "AlbertModel": HFClass({"head": "none", "add_pooler": True}, {"add_pooler": "pooler.weight"}, PRETRAINING),
        "AlbertForMaskedLM": HFClass({"head": "masked_lm"}, unused={**POOLER, **SENTENCE_ORDER, **SECOND_BIAS}),
        "AlbertForSequenceClassification": HFClass(
            {"head": "sequence_classification", "add_pooler": True}, unused=PRETRAINING
        ),
        "AlbertForTokenClassification": HFClass({"head": "token_classification"}, unused={**POOLER, **PRETRAINING}),
    },
    constants={
        **CONSTANTS,
        "add_embedding_projection_bias": True,
        "position_embedding_type": "learned_absolute",
        "hidden_dropout_after_mlp": False,
    },
    computed={**COMPUTED, "softmax_scale": lambda hf: head_width(hf) ** -0.5},
    rules=(
        size("vocab_size", "vocab_size"),
        size("hidden_size", "hidden_size"),
        size("embedding_size", "embedding_size"),
        size("num_hidden_layers", "num_layers"),
        LayerGroups(),
        Only("inner_group_num", 1, "groups of several layers are not supported"),
        size("num_attention_heads", "num_attention_heads"),
        size("intermediate_size", "ffn_hidden_size"),
        size("max_position_embeddings", "max_position_embeddings"),
        size("type_vocab_size", "num_token_types"),
        Field("hidden_act", ("activation_func", "head_activation"), ACTIVATION_NAMES),
        Field("layer_norm_eps", "layernorm_epsilon", float, minimum=0),
        Only("position_embedding_type", "absolute", "relative positions in ALBERT were removed from transformers 5"),
        Field("tie_word_embeddings", "tie_word_embeddings", bool),
        probability("hidden_dropout_prob", ("hidden_dropout", "embedding_dropout")),
        probability("attention_probs_dropout_prob", "attention_dropout"),
        probability("classifier_dropout_prob", "classifier_dropout"),
        Field("initializer_range", "init_method_std", float, minimum=0),
        Ignored(
            ("down_scale_factor", "gap_size", "net_structure_type", "num_memory_blocks", "layers_to_keep"),
            "left by Google's TensorFlow release; not read",
        ),
        *COMMON,
    ),
    bases=("albert.", ""),
    tensors={
        "{base}embeddings.word_embeddings.weight": "embedding.word.weight",
        "{base}embeddings.position_embeddings.weight": "embedding.position.weight",
        "{base}embeddings.token_type_embeddings.weight": "embedding.token_type.weight",
        "{base}embeddings.LayerNorm.{p}": "embedding.norm.{p}",
        "{base}encoder.embedding_hidden_mapping_in.{p}": "embedding.projection.{p}",
        f"{LAYER}.attention.query.{{p}}": "layer.{L}.attention.q.{p}",
        f"{LAYER}.attention.key.{{p}}": "layer.{L}.attention.k.{p}",
        f"{LAYER}.attention.value.{{p}}": "layer.{L}.attention.v.{p}",
        f"{LAYER}.attention.dense.{{p}}": "layer.{L}.attention.o.{p}",
        f"{LAYER}.attention.LayerNorm.{{p}}": "layer.{L}.attention_norm.{p}",
        f"{LAYER}.ffn.{{p}}": "layer.{L}.mlp.up.{p}",
        f"{LAYER}.ffn_output.{{p}}": "layer.{L}.mlp.down.{p}",
        f"{LAYER}.full_layer_layer_norm.{{p}}": "layer.{L}.mlp_norm.{p}",
        "{base}pooler.{p}": "pooler.{p}",
        "predictions.dense.{p}": "head.transform.{p}",
        "predictions.LayerNorm.{p}": "head.norm.{p}",
        "predictions.decoder.weight": "head.output.weight",
        "predictions.bias": "head.output.bias",
        "classifier.{p}": "head.classifier.{p}",
    },
    unused={"{base}embeddings.position_ids": "0, 1, 2 ..., recomputed"},
    tied={
        "predictions.decoder.weight": "embedding.word.weight",
        "predictions.decoder.bias": "head.output.bias",
    },
)
