"""`TransformerConfig`: what a Transformer is, in the field's standard terms, with nothing left to be derived.

Names follow Megatron-core and MindFormers' mcore generation where they have one. Every value that PyTorch code
derives silently (head width, number of key/value heads, FFN width, activation ...) is explicit here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

NUMERICS, TRAINING, RUN = "numerics", "training", "run"
"""What another value of a field changes: what the model computes in evaluation; how it trains; how it is run, which is
token ids for generation and batching, and precision."""


def _doc(meaning: str, default: Any = None, *, required: bool = False, effect: str = NUMERICS) -> Any:
    """A dataclass field that carries its own documentation.

    Args:
        effect: NUMERICS unless it is certain that no evaluation reads the field.
    """
    metadata = {"doc": meaning, "effect": effect}
    return field(metadata=metadata) if required else field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Structure and numerics of one Transformer, decoder or encoder.

    Immutable; `dataclasses.replace` makes a changed copy. Each field's meaning is in its metadata
    (`TransformerConfig.describe()`).
    """

    # --- sizes ---------------------------------------------------------------------------------------------
    vocab_size: int = _doc("rows of the word embedding", required=True)
    hidden_size: int = _doc("width of the residual stream", required=True)
    num_layers: int = _doc("number of Transformer blocks", required=True)
    num_attention_heads: int = _doc("query heads", required=True)
    num_query_groups: int = _doc("key/value heads; equal to the query heads without GQA", required=True)
    kv_channels: int = _doc("width of one attention head", required=True)
    ffn_hidden_size: int = _doc("width inside the MLP (of each of gate and up where gated)", required=True)
    max_position_embeddings: int = _doc("positions the model was made for", required=True)
    num_token_types: int = _doc("rows of the token-type (segment) embedding; 0 = none", 0)

    # --- block ---------------------------------------------------------------------------------------------
    attention_mask_type: str = _doc("'causal' (decoder) or 'bidirectional' (encoder)", "causal")
    normalization: str = _doc("'RMSNorm' or 'LayerNorm'", "RMSNorm")
    layernorm_epsilon: float = _doc("epsilon inside every norm", 1e-5)
    norm_placement: str = _doc("'pre': norm before attention and MLP; 'post': norm after the residual sum", "pre")
    embedding_layernorm: bool = _doc("a norm directly after the embeddings", False)
    final_layernorm: bool = _doc("a norm after the last block", True)
    gated_linear_unit: bool = _doc("MLP is down(act(gate(x)) * up(x)); else down(act(up(x)))", False)
    activation_func: str = _doc("MLP activation, by its Hugging Face name; see models/activations.py", "silu")
    add_qkv_bias: bool = _doc("bias on the q, k and v projections", False)
    add_attention_output_bias: bool = _doc("bias on the attention output projection", False)
    add_mlp_bias: bool = _doc("bias on the MLP projections", False)

    # --- attention -----------------------------------------------------------------------------------------
    softmax_scale: float = _doc("factor on q @ k^T, usually kv_channels ** -0.5", required=True)
    scale_attention_by_inverse_layer_idx: bool = _doc("also divide by (layer index + 1), as GPT-2 can", False)

    window_size: int | None = _doc("keys a query sees in a windowed layer, itself included; None = no windows", None)
    layer_types: list[str] | None = _doc(
        "'full_attention' or 'sliding_attention', per layer; None = all full without a window, all sliding with one",
        None,
    )
    qk_layernorm: str = _doc(
        "norm of queries and keys before RoPE: 'none', or 'head' (one weight per head width)", "none"
    )

    # --- positions -----------------------------------------------------------------------------------------
    position_embedding_type: str = _doc("'rope', 'learned_absolute' or 'none'", "rope")
    rotary_base: float = _doc("RoPE theta", 10000.0)
    rope_scaling: dict[str, Any] | None = _doc("{'rope_type': linear|dynamic|llama3|yarn, ...}; None = plain", None)

    # --- head ----------------------------------------------------------------------------------------------
    head: str = _doc("'none', 'causal_lm', 'masked_lm', 'sequence_classification' or 'token_classification'", "none")
    tie_word_embeddings: bool = _doc("the LM head multiplies by the word embedding itself", False)
    add_pooler: bool = _doc("dense + tanh on the first position (BERT)", False)
    num_labels: int = _doc("outputs of a classification head", 2)
    head_activation: str = _doc("activation inside the masked-LM head", "gelu")

    # --- regularisation and initialisation -----------------------------------------------------------------
    hidden_dropout: float = _doc("dropout probability after attention and MLP", 0.0, effect=TRAINING)
    attention_dropout: float = _doc("dropout probability on attention weights", 0.0, effect=TRAINING)
    embedding_dropout: float = _doc("dropout probability after the embeddings", 0.0, effect=TRAINING)
    classifier_dropout: float = _doc("dropout probability before a classification head", 0.0, effect=TRAINING)
    init_method_std: float = _doc("standard deviation of initial weights (initializer_range)", 0.02, effect=TRAINING)

    # --- token ids -----------------------------------------------------------------------------------------
    bos_token_id: int | None = _doc("begin of sequence", None, effect=RUN)
    eos_token_id: int | list[int] | None = _doc("end of sequence; several are possible", None, effect=RUN)
    pad_token_id: int | None = _doc("padding", None, effect=RUN)

    embedding_padding_idx: int | None = _doc(
        "row of the word embedding that gets no gradient from the input", None, effect=TRAINING
    )

    # --- precision -----------------------------------------------------------------------------------------
    params_dtype: str = _doc("dtype of the parameters: float32, float16 or bfloat16", "float32", effect=RUN)
    compute_dtype: str = _doc("dtype of matrix products", "float32", effect=RUN)
    layernorm_compute_dtype: str = _doc("dtype inside norms", "float32", effect=RUN)
    softmax_compute_dtype: str = _doc("dtype inside the attention softmax", "float32", effect=RUN)
    rotary_dtype: str = _doc("dtype of the RoPE tables and rotation", "float32", effect=RUN)

    @classmethod
    def describe(cls) -> dict[str, str]:
        """Field name -> meaning, in declaration order."""
        return {f.name: f.metadata["doc"] for f in fields(cls)}

    @classmethod
    def effects(cls) -> dict[str, str]:
        """Field name -> what a change of it changes: NUMERICS, TRAINING or RUN."""
        return {f.name: f.metadata["effect"] for f in fields(cls)}
