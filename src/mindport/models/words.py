"""Fields of a `TransformerConfig` that hold a word, and the words the native model knows."""

from __future__ import annotations

from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.schema import TransformerConfig

WORDS: dict[str, tuple[str, ...]] = {
    "attention_mask_type": ("causal", "bidirectional"),
    "normalization": ("RMSNorm", "LayerNorm"),
    "norm_placement": ("pre", "post"),
    "parallel_block": ("none", "one_norm", "two_norms"),
    "position_embedding_type": ("rope", "learned_absolute", "alibi", "none"),
    "qk_layernorm": ("none", "head", "each_head"),
    "softmax_type": ("vanilla", "learnable"),
    "classifier_pooling": ("pooler", "cls", "mean"),
    "pos_att_type": ("none", "c2p", "p2c", "c2p|p2c"),
    "norm_rel_ebd": ("none", "layer_norm"),
    "moe_router_score_function": ("softmax", "sigmoid"),
}


def check_words(config: TransformerConfig) -> None:
    """Nothing is substituted for a word that is not known.

    Raises:
        MindportError: the first field with an unknown word.
    """
    for field, known in WORDS.items():
        if getattr(config, field) not in known:
            raise MindportError(
                tr("The native model does not know {field} = '{value}'.", field=field, value=getattr(config, field)),
                tr("Known values: {known}.", known=", ".join(known)),
            )
