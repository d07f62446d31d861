"""What BERT's descendants share: norms after each residual sum, biases everywhere, and the names of their tensors."""

from __future__ import annotations

from mindport.architectures.common import head_width, padding_row

CONSTANTS = {
    "attention_mask_type": "bidirectional",
    "normalization": "LayerNorm",
    "norm_placement": "post",
    "embedding_layernorm": True,
    "final_layernorm": False,
    "add_qkv_bias": True,
    "add_attention_output_bias": True,
    "add_mlp_bias": True,
}

COMPUTED = {
    "embedding_padding_idx": padding_row,
    "kv_channels": head_width,
    "num_query_groups": lambda hf: hf["num_attention_heads"],
}

MASKED_LM = {
    "cls.predictions.transform.dense.{p}": "head.transform.{p}",
    "cls.predictions.transform.LayerNorm.{p}": "head.norm.{p}",
    "cls.predictions.decoder.weight": "head.output.weight",
    "cls.predictions.bias": "head.output.bias",
}

TENSORS = {
    "{base}embeddings.word_embeddings.weight": "embedding.word.weight",
    "{base}embeddings.position_embeddings.weight": "embedding.position.weight",
    "{base}embeddings.token_type_embeddings.weight": "embedding.token_type.weight",
    "{base}embeddings.LayerNorm.{p}": "embedding.norm.{p}",
    "{base}encoder.layer.{L}.attention.output.dense.{p}": "layer.{L}.attention.o.{p}",
    "{base}encoder.layer.{L}.attention.output.LayerNorm.{p}": "layer.{L}.attention_norm.{p}",
    "{base}encoder.layer.{L}.intermediate.dense.{p}": "layer.{L}.mlp.up.{p}",
    "{base}encoder.layer.{L}.output.dense.{p}": "layer.{L}.mlp.down.{p}",
    "{base}encoder.layer.{L}.output.LayerNorm.{p}": "layer.{L}.mlp_norm.{p}",
    **MASKED_LM,
    "classifier.{p}": "head.classifier.{p}",
}
"""All but queries, keys, values and the pooler."""

UNUSED = {"{base}embeddings.position_ids": "0, 1, 2 ..., recomputed"}

TIED = {
    "cls.predictions.decoder.weight": "embedding.word.weight",
    "cls.predictions.decoder.bias": "head.output.bias",
}

SECOND_BIAS = {"cls.predictions.bias": "where nothing is tied, the decoder's own bias is read instead"}
"""Of the masked-LM head, which has one more where nothing is tied."""


def masked_lm_head(*more: str) -> dict[str, str]:
    """Tensors of masked-LM heads, `more` besides BERT's own, for classes that have none."""
    return dict.fromkeys((*MASKED_LM, "cls.predictions.decoder.bias", *more), "masked-LM head, not read by this class")
