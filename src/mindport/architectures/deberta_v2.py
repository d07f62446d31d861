"""DeBERTa v2 and v3: an encoder whose attention scores contents and relative positions apart."""

from mindport.architectures.bert_like import COMPUTED, CONSTANTS, SECOND_BIAS, TENSORS, TIED, UNUSED, masked_lm_head
from mindport.architectures.common import ACTIVATION_NAMES, COMMON, head_width, probability, size
from mindport.architectures.deberta_keys import (
    Convolution,
    RelativePositions,
    classifier_dropout,
    embedding_size,
)
from mindport.architectures.vocabulary import TRAINING, Architecture, Computed, Field, HFClass, Naming, Repeats

NEW_MASKED_LM = {
    "lm_predictions.lm_head.dense.{p}": "head.transform.{p}",
    "lm_predictions.lm_head.LayerNorm.{p}": "head.norm.{p}",
    "lm_predictions.lm_head.bias": "head.output.bias",
}
REPLACED_TOKENS = {
    f"mask_predictions.{name}.{{p}}": "head of replaced-token detection, not read by this class"
    for name in ("dense", "LayerNorm", "classifier")
}
PRETRAINING = {**masked_lm_head(*NEW_MASKED_LM), **REPLACED_TOKENS}

ARCHITECTURE = Architecture(
    model_type="deberta-v2",
    title="DeBERTa v2, v3",
    classes={
        "DebertaV2Model": HFClass({"head": "none"}, unused=PRETRAINING),
        "DebertaV2ForMaskedLM": HFClass({"head": "masked_lm"}, unused={**REPLACED_TOKENS, **SECOND_BIAS}),
        "DebertaV2ForSequenceClassification": HFClass(
            {"head": "sequence_classification", "add_pooler": True}, unused=PRETRAINING
        ),
        "DebertaV2ForTokenClassification": HFClass({"head": "token_classification"}, unused=PRETRAINING),
        "DebertaV2ForQuestionAnswering": HFClass({"head": "question_answering"}, unused=PRETRAINING),
    },
    constants={**CONSTANTS, "embedding_projection_first": True, "mask_padding": True},
    computed=COMPUTED,
    rules=(
        size("vocab_size", "vocab_size"),
        size("hidden_size", "hidden_size"),
        Computed(
            "embedding_size",
            int,
            embedding_size,
            lambda config: config.embedding_width,
            derive=lambda hf: hf["hidden_size"],
        ),
        size("num_hidden_layers", "num_layers"),
        size("num_attention_heads", "num_attention_heads"),
        Repeats("attention_head_size", head_width, "heads of another width do not fit the output projection"),
        size("intermediate_size", "ffn_hidden_size"),
        size("max_position_embeddings", "max_position_embeddings"),
        size("type_vocab_size", "num_token_types", minimum=0),
        Computed(
            "position_biased_input",
            bool,
            lambda on, hf: {"position_embedding_type": "learned_absolute" if on else "none"},
            lambda config: config.position_embedding_type == "learned_absolute",
        ),
        RelativePositions(),
        Convolution(),
        Field("hidden_act", ("activation_func", "head_activation"), ACTIVATION_NAMES),
        Field("layer_norm_eps", "layernorm_epsilon", float, minimum=0),
        Repeats("pooler_hidden_size", lambda hf: hf["hidden_size"], "the pooler reads a hidden state"),
        Field("pooler_hidden_act", "pooler_activation", ACTIVATION_NAMES),
        Naming("legacy", {True: 0, False: 1}),
        # The newer head has no matrix of its own, whatever the key says.
        Computed(
            "tie_word_embeddings",
            bool,
            lambda tied, hf: {"tie_word_embeddings": tied or not hf["legacy"]},
            lambda config: config.tie_word_embeddings,
        ),
        probability("hidden_dropout_prob", ("hidden_dropout", "embedding_dropout")),
        probability("attention_probs_dropout_prob", "attention_dropout"),
        probability("pooler_dropout", "pooler_dropout"),
        Computed(
            "cls_dropout",
            float,
            classifier_dropout,
            lambda config: config.classifier_dropout,
            derive=lambda hf: hf["hidden_dropout_prob"],
            layer=TRAINING,
        ),
        Field("initializer_range", "init_method_std", float, minimum=0),
        *COMMON,
    ),
    bases=("deberta.", ""),
    tensors={
        **TENSORS,
        "{base}embeddings.embed_proj.weight": "embedding.projection.weight",
        "{base}encoder.rel_embeddings.weight": "relative_embedding.weight",
        "{base}encoder.LayerNorm.{p}": "relative_embedding.norm.{p}",
        "{base}encoder.conv.conv.{p}": "convolution.{p}",
        "{base}encoder.conv.LayerNorm.{p}": "convolution.norm.{p}",
        "{base}encoder.layer.{L}.attention.self.query_proj.{p}": "layer.{L}.attention.q.{p}",
        "{base}encoder.layer.{L}.attention.self.key_proj.{p}": "layer.{L}.attention.k.{p}",
        "{base}encoder.layer.{L}.attention.self.value_proj.{p}": "layer.{L}.attention.v.{p}",
        "{base}encoder.layer.{L}.attention.self.pos_key_proj.{p}": "layer.{L}.attention.pos_key.{p}",
        "{base}encoder.layer.{L}.attention.self.pos_query_proj.{p}": "layer.{L}.attention.pos_query.{p}",
        "pooler.dense.{p}": "pooler.{p}",
        "qa_outputs.{p}": "head.span.{p}",
    },
    alternatives=(NEW_MASKED_LM,),
    unused={
        **UNUSED,
        "{base}embeddings.position_embeddings.weight": "not read where position_biased_input is false",
    },
    tied=TIED,
)
