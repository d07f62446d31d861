"""`TransformerConfig`: what a Transformer is, in the field's standard terms, with nothing left to be derived.

Names follow Megatron-core and MindFormers' mcore generation where they have one. Every value that PyTorch code
derives silently (head width, number of key/value heads, FFN width, activation ...) is explicit here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from mindport.i18n import tr


def _doc(
    meaning: str, default: Any = None, *, required: bool = False, mcore: str | None = None, legacy: str = ""
) -> Any:
    """A dataclass field that carries its own documentation.

    Args:
        meaning: with the unit, or the values it may have. It needs an entry in the catalogue of translations.
        mcore, legacy: how MindFormers 1.9 calls it, in its TransformerConfig and in its LlamaConfig (with MoEConfig);
            several names with spaces between, "" where there is none. A test asks for `mcore`, so that nobody forgets
            it.
    """
    metadata = {"doc": meaning, "mcore": mcore, "legacy": legacy}
    return field(metadata=metadata) if required else field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Structure and numerics of one Transformer, decoder or encoder.

    Immutable; `dataclasses.replace` makes a changed copy. Each field's meaning is in its metadata
    (`TransformerConfig.describe()`).
    """

    # --- sizes ---------------------------------------------------------------------------------------------
    vocab_size: int = _doc("rows of the word embedding", required=True, mcore="vocab_size", legacy="vocab_size")
    hidden_size: int = _doc(
        "width of the residual stream, in channels", required=True, mcore="hidden_size", legacy="hidden_size"
    )
    num_layers: int = _doc("number of Transformer blocks", required=True, mcore="num_layers", legacy="num_layers")
    num_attention_heads: int = _doc("query heads", required=True, mcore="num_attention_heads", legacy="num_heads")
    num_query_groups: int = _doc(
        "key/value heads; equal to the query heads without GQA",
        required=True,
        mcore="num_query_groups",
        legacy="n_kv_heads",
    )
    kv_channels: int = _doc("width of one attention head, in channels", required=True, mcore="kv_channels")
    ffn_hidden_size: int = _doc(
        "width inside the MLP, in channels (of each of gate and up where gated)",
        required=True,
        mcore="ffn_hidden_size",
        legacy="intermediate_size",
    )
    max_position_embeddings: int = _doc(
        "positions the model was made for, in tokens",
        required=True,
        mcore="max_position_embeddings",
        legacy="max_position_embedding",
    )
    num_token_types: int = _doc("rows of the token-type (segment) embedding; 0 = none", 0, mcore="")

    # --- block ---------------------------------------------------------------------------------------------
    attention_mask_type: str = _doc("'causal' (decoder) or 'bidirectional' (encoder)", "causal", mcore="")
    normalization: str = _doc("'RMSNorm' or 'LayerNorm'", "RMSNorm", mcore="normalization")
    layernorm_epsilon: float = _doc("epsilon inside every norm", 1e-5, mcore="layernorm_epsilon", legacy="rms_norm_eps")
    norm_placement: str = _doc(
        "'pre': norm before attention and MLP; 'post': norm after the residual sum", "pre", mcore=""
    )
    embedding_layernorm: bool = _doc("a norm directly after the embeddings", False, mcore="")
    final_layernorm: bool = _doc("a norm after the last block", True, mcore="")
    gated_linear_unit: bool = _doc(
        "MLP is down(act(gate(x)) * up(x)); else down(act(up(x)))", False, mcore="gated_linear_unit"
    )
    activation_func: str = _doc(
        "MLP activation, by its Hugging Face name; see models/activations.py", "silu", mcore="hidden_act"
    )
    add_qkv_bias: bool = _doc("bias on the q, k and v projections", False, mcore="add_qkv_bias", legacy="qkv_has_bias")
    add_attention_output_bias: bool = _doc(
        "bias on the attention output projection", False, mcore="add_bias_linear", legacy="attn_proj_has_bias"
    )
    add_mlp_bias: bool = _doc("bias on the MLP projections", False, mcore="add_bias_linear")

    # --- attention -----------------------------------------------------------------------------------------
    softmax_scale: float = _doc("factor on q @ k^T, usually kv_channels ** -0.5", required=True, mcore="softmax_scale")
    scale_attention_by_inverse_layer_idx: bool = _doc("also divide by (layer index + 1), as GPT-2 can", False, mcore="")

    window_size: int | None = _doc(
        "keys a query sees in a windowed layer, in tokens, itself included; None = no windows",
        None,
        mcore="window_size",
    )
    layer_types: list[str] | None = _doc(
        "'full_attention' or 'sliding_attention', per layer; None = all full without a window, all sliding with one",
        None,
        mcore="window_attn_skip_freq",
    )
    qk_layernorm: str = _doc(
        "norm of queries and keys before RoPE: 'none', or 'head' (one weight per head width)",
        "none",
        mcore="qk_layernorm",
    )

    # --- positions -----------------------------------------------------------------------------------------
    position_embedding_type: str = _doc("'rope', 'learned_absolute' or 'none'", "rope", mcore="position_embedding_type")
    rotary_base: float = _doc(
        "RoPE theta, the base of the rotation frequencies", 10000.0, mcore="rotary_base", legacy="theta"
    )
    rope_scaling: dict[str, Any] | None = _doc(
        "RoPE scaling: its rope_type (linear, dynamic, llama3 or yarn) and the settings of that type; None = plain",
        None,
        mcore="rope_scaling",
        legacy="extend_method scaling_factor",
    )

    # --- head ----------------------------------------------------------------------------------------------
    head: str = _doc(
        "'none', 'causal_lm', 'masked_lm', 'sequence_classification' or 'token_classification'", "none", mcore=""
    )
    tie_word_embeddings: bool = _doc(
        "the LM head multiplies by the word embedding itself",
        False,
        mcore="tie_word_embeddings untie_embeddings_and_output_weights",
        legacy="tie_word_embeddings",
    )
    add_pooler: bool = _doc("dense + tanh on the first position (BERT)", False, mcore="")
    num_labels: int = _doc("outputs of a classification head", 2, mcore="")
    head_activation: str = _doc("activation inside the masked-LM head", "gelu", mcore="")

    # --- regularisation and initialisation -----------------------------------------------------------------
    hidden_dropout: float = _doc("dropout probability after attention and MLP", 0.0, mcore="hidden_dropout")
    attention_dropout: float = _doc("dropout probability on attention weights", 0.0, mcore="attention_dropout")
    embedding_dropout: float = _doc("dropout probability after the embeddings", 0.0, mcore="hidden_dropout")
    classifier_dropout: float = _doc("dropout probability before a classification head", 0.0, mcore="")
    init_method_std: float = _doc(
        "standard deviation of initial weights (initializer_range)",
        0.02,
        mcore="init_method_std",
        legacy="init_method_std",
    )

    # --- token ids -----------------------------------------------------------------------------------------
    bos_token_id: int | None = _doc(
        "id of the token that begins a sequence; None = none", None, mcore="", legacy="bos_token_id"
    )
    eos_token_id: int | list[int] | None = _doc(
        "id, or ids, of the tokens that end a sequence; None = none", None, mcore="", legacy="eos_token_id"
    )
    pad_token_id: int | None = _doc(
        "id of the padding token; None = none", None, mcore="pad_token_id", legacy="pad_token_id"
    )

    embedding_padding_idx: int | None = _doc(
        "row of the word embedding that gets no gradient from the input; None = none", None, mcore=""
    )

    # --- precision -----------------------------------------------------------------------------------------
    params_dtype: str = _doc(
        "dtype of the parameters: float32, float16 or bfloat16",
        "float32",
        mcore="params_dtype",
        legacy="param_init_type",
    )
    compute_dtype: str = _doc("dtype of matrix products", "float32", mcore="compute_dtype", legacy="compute_dtype")
    layernorm_compute_dtype: str = _doc(
        "dtype inside norms", "float32", mcore="layernorm_compute_dtype", legacy="layernorm_compute_type"
    )
    softmax_compute_dtype: str = _doc(
        "dtype inside the attention softmax", "float32", mcore="softmax_compute_dtype", legacy="softmax_compute_type"
    )
    rotary_dtype: str = _doc(
        "dtype of the RoPE tables and rotation", "float32", mcore="rotary_dtype", legacy="rotary_dtype"
    )

    @classmethod
    def describe(cls) -> dict[str, str]:
        """Field name -> meaning in the user's language, in declaration order."""
        return {f.name: tr(f.metadata["doc"]) for f in fields(cls)}
