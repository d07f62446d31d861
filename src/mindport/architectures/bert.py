"""BERT: bidirectional, norms after each residual sum, three embeddings; the family of sentence encoders."""

from mindport.architectures.bert_like import COMPUTED, CONSTANTS, SECOND_BIAS, TENSORS, TIED, UNUSED, masked_lm_head
from mindport.architectures.common import ACTIVATION_NAMES, COMMON, head_width, probability, size
from mindport.architectures.vocabulary import Architecture, Field, HFClass, Ignored, Only

POOLER = {"{base}pooler.dense.{p}": "pooler of the bare model, not read by this class"}
NEXT_SENTENCE = {"cls.seq_relationship.{p}": "next-sentence head, not read by this class"}
PRETRAINING = {**masked_lm_head(), **NEXT_SENTENCE}

ARCHITECTURE = Architecture(
    model_type="bert",
    title="BERT",
    classes={
        "BertModel": HFClass({"head": "none", "add_pooler": True}, {"add_pooler": "pooler.weight"}, PRETRAINING),
        "BertForMaskedLM": HFClass({"head": "masked_lm"}, unused={**POOLER, **NEXT_SENTENCE, **SECOND_BIAS}),
        "BertForSequenceClassification": HFClass(
            {"head": "sequence_classification", "add_pooler": True}, unused=PRETRAINING
        ),
        "BertForTokenClassification": HFClass({"head": "token_classification"}, unused={**POOLER, **PRETRAINING}),
    },
    constants={**CONSTANTS, "position_embedding_type": "learned_absolute"},
    computed={**COMPUTED, "softmax_scale": lambda hf: head_width(hf) ** -0.5},
    rules=(
        size("vocab_size", "vocab_size"),
        size("hidden_size", "hidden_size"),
        size("num_hidden_layers", "num_layers"),
        size("num_attention_heads", "num_attention_heads"),
        size("intermediate_size", "ffn_hidden_size"),
        size("max_position_embeddings", "max_position_embeddings"),
        size("type_vocab_size", "num_token_types", minimum=0),
        Field("hidden_act", ("activation_func", "head_activation"), ACTIVATION_NAMES),
        Field("layer_norm_eps", "layernorm_epsilon", float, minimum=0),
        Only(
            "position_embedding_type",
            "absolute",
            "relative positions in BERT were removed from transformers 5",
        ),
        Only("is_decoder", False, "BERT as a decoder is not supported"),
        Field("tie_word_embeddings", "tie_word_embeddings", bool),
        probability("hidden_dropout_prob", ("hidden_dropout", "embedding_dropout")),
        probability("attention_probs_dropout_prob", "attention_dropout"),
        probability("classifier_dropout", "classifier_dropout", derive=lambda hf: hf["hidden_dropout_prob"]),
        Field("initializer_range", "init_method_std", float, minimum=0),
        Ignored(
            (
                "directionality",
                "pooler_fc_size",
                "pooler_num_attention_heads",
                "pooler_num_fc_layers",
                "pooler_size_per_head",
                "pooler_type",
            ),
            "left by Google's TensorFlow release; not read",
        ),
        Ignored(("biaffine_size",), "belongs to a biaffine head, which BERT's class does not have"),
        *COMMON,
    ),
    bases=("bert.", ""),
    spellings=((), ((".LayerNorm.weight", ".LayerNorm.gamma"), (".LayerNorm.bias", ".LayerNorm.beta"))),
    tensors={
        **TENSORS,
        "{base}encoder.layer.{L}.attention.self.query.{p}": "layer.{L}.attention.q.{p}",
        "{base}encoder.layer.{L}.attention.self.key.{p}": "layer.{L}.attention.k.{p}",
        "{base}encoder.layer.{L}.attention.self.value.{p}": "layer.{L}.attention.v.{p}",
        "{base}pooler.dense.{p}": "pooler.{p}",
    },
    unused=UNUSED,
    tied=TIED,
)
