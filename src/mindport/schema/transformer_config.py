"""`TransformerConfig`: what a Transformer is, in the field's standard terms, with nothing left to be derived.

Names follow Megatron-core and MindFormers' mcore generation where they have one. Every value that PyTorch code
derives silently (head width, number of key/value heads, FFN width, activation ...) is explicit here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any


def _doc(meaning: str, default: Any = None, *, required: bool = False) -> Any:
    """A dataclass field that carries its own documentation."""
    if required:
        return field(metadata={"doc": meaning})
    return field(default=default, metadata={"doc": meaning})


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
    embedding_size: int | None = _doc("width of the word embedding where it is factorised; None = hidden_size", None)
    layer_weights: list[int] | None = _doc(
        "for each layer, the set of weights it uses (layers share weights); None = each its own", None
    )
    num_token_types: int = _doc("rows of the token-type (segment) embedding; 0 = none", 0)

    # --- block ---------------------------------------------------------------------------------------------
    attention_mask_type: str = _doc("'causal' (decoder) or 'bidirectional' (encoder)", "causal")
    normalization: str = _doc("'RMSNorm' or 'LayerNorm'", "RMSNorm")
    add_norm_bias: bool = _doc("LayerNorm has a bias", True)
    layernorm_epsilon: float = _doc("epsilon inside every norm", 1e-5)
    norm_placement: str = _doc("'pre': norm before attention and MLP; 'post': norm after the residual sum", "pre")
    parallel_block: str = _doc(
        "'none': attention, then MLP; 'one_norm': both read the same normed input and are added together; "
        "'two_norms': likewise, each with a norm of its own",
        "none",
    )
    embedding_layernorm: bool = _doc("a norm directly after the embeddings", False)
    final_layernorm: bool = _doc("a norm after the last block", True)
    gated_linear_unit: bool = _doc("MLP is down(act(gate(x)) * up(x)); else down(act(up(x)))", False)
    activation_func: str = _doc("MLP activation, by its Hugging Face name; see models/activations.py", "silu")
    activation_func_clamp_value: float | None = _doc(
        "gate is cut off above it, up beyond it on both sides, before the activation; None = neither", None
    )
    glu_linear_offset: float = _doc("added to up(x) before it multiplies the gate", 0.0)
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
        "norm of queries and keys before RoPE: 'none', 'head' (one weight of head width), or 'each_head' (a weight of "
        "its own for each head, no bias)",
        "none",
    )
    softmax_type: str = _doc(
        "'vanilla', or 'learnable': one learned logit per head takes part and is dropped", "vanilla"
    )

    # --- latent attention ----------------------------------------------------------------------------------
    multi_latent_attention: bool = _doc("keys and values are made from a compressed latent (DeepSeek's MLA)", False)
    q_lora_rank: int | None = _doc("width of the query latent; None = queries are not compressed", None)
    kv_lora_rank: int = _doc("width of the key/value latent", 0)
    qk_head_dim: int = _doc("width of the part of a latent head without RoPE", 0)
    qk_pos_emb_head_dim: int = _doc("width of the part of a latent head with RoPE; one key for all heads", 0)
    v_head_dim: int = _doc("width of a value head of latent attention", 0)
    latent_layernorm_epsilon: float = _doc("epsilon inside the norms of the latents", 1e-6)

    # --- experts -------------------------------------------------------------------------------------------
    num_moe_experts: int = _doc("routed experts in a layer that has them; 0 = none", 0)
    moe_layer_freq: list[int] | None = _doc("1 or 0 per layer: experts or a plain MLP; None = experts in all", None)
    moe_router_topk: int = _doc("experts a token goes to", 0)
    moe_ffn_hidden_size: int = _doc("width inside one routed expert", 0)
    moe_shared_expert_intermediate_size: int = _doc("width of the MLP every token goes through besides; 0 = none", 0)
    moe_router_score_function: str = _doc("'softmax' or 'sigmoid' of the router's logits", "softmax")
    moe_router_pre_softmax: bool = _doc(
        "softmax over all experts before the best are taken; else over the best alone", True
    )
    norm_topk_prob: bool = _doc("the weights of a token's experts are divided by their sum", False)
    moe_router_topk_scaling_factor: float = _doc("factor on the weights of a token's experts", 1.0)
    moe_router_num_groups: int | None = _doc("groups of experts, of which only some are considered; None = all", None)
    moe_router_group_topk: int | None = _doc("groups considered for a token", None)
    moe_router_enable_expert_bias: bool = _doc("a correction is added to scores for choosing, not for weighting", False)
    add_router_bias: bool = _doc("bias on the router's projection", False)
    moe_aux_loss_coeff: float = _doc("factor of the load-balancing loss", 0.0)
    mtp_num_layers: int = _doc("multi-token-prediction modules; carried along, not computed", 0)

    # --- positions -----------------------------------------------------------------------------------------
    position_embedding_type: str = _doc(
        "'rope', 'learned_absolute', 'alibi' (ALiBi as Falcon has it: in bfloat16, scaled as the scores are) or 'none'",
        "rope",
    )
    rotary_percent: float = _doc("part of each head's width that RoPE turns", 1.0)
    rotary_interleaved: bool = _doc("RoPE turns pairs (2i, 2i + 1), not (i, i + half)", False)
    sliding_rotary_base: float | None = _doc("RoPE theta of windowed layers; None = rotary_base", None)
    rotary_base: float = _doc("RoPE theta", 10000.0)
    rope_scaling: dict[str, Any] | None = _doc(
        "{'rope_type': linear|dynamic|llama3|yarn|longrope, ...}; None = plain", None
    )

    # --- head ----------------------------------------------------------------------------------------------
    head: str = _doc("'none', 'causal_lm', 'masked_lm', 'sequence_classification' or 'token_classification'", "none")
    tie_word_embeddings: bool = _doc("the LM head multiplies by the word embedding itself", False)
    add_pooler: bool = _doc("dense + tanh on the first position (BERT)", False)
    num_labels: int = _doc("outputs of a classification head", 2)
    head_activation: str = _doc("activation inside the masked-LM head", "gelu")

    # --- regularisation and initialisation -----------------------------------------------------------------
    hidden_dropout: float = _doc("dropout probability after attention and MLP", 0.0)
    attention_output_dropout: float | None = _doc(
        "dropout probability after attention; None = hidden_dropout, and in a parallel block one dropout on the sum of "
        "attention and MLP",
        None,
    )
    attention_dropout: float = _doc("dropout probability on attention weights", 0.0)
    embedding_dropout: float = _doc("dropout probability after the embeddings", 0.0)
    classifier_dropout: float = _doc("dropout probability before a classification head", 0.0)
    init_method_std: float = _doc("standard deviation of initial weights (initializer_range)", 0.02)

    # --- token ids -----------------------------------------------------------------------------------------
    bos_token_id: int | None = _doc("begin of sequence", None)
    eos_token_id: int | list[int] | None = _doc("end of sequence; several are possible", None)
    pad_token_id: int | None = _doc("padding", None)

    embedding_padding_idx: int | None = _doc("row of the word embedding that gets no gradient from the input", None)

    # --- precision -----------------------------------------------------------------------------------------
    params_dtype: str = _doc("dtype of the parameters: float32, float16 or bfloat16", "float32")
    compute_dtype: str = _doc("dtype of matrix products", "float32")
    layernorm_compute_dtype: str = _doc("dtype inside norms", "float32")
    softmax_compute_dtype: str = _doc("dtype inside the attention softmax", "float32")
    rotary_dtype: str = _doc("dtype of the RoPE tables and rotation", "float32")

    @property
    def num_stored_layers(self) -> int:
        """Sets of layer weights: fewer than layers where layers share them."""
        return self.num_layers if self.layer_weights is None else max(self.layer_weights) + 1

    @property
    def embedding_width(self) -> int:
        """Width of the word embedding."""
        return self.hidden_size if self.embedding_size is None else self.embedding_size

    @property
    def attention_width(self) -> int:
        """Width of what all heads give together, which the output projection reads."""
        return self.num_attention_heads * (self.v_head_dim if self.multi_latent_attention else self.kv_channels)

    @property
    def rotary_width(self) -> int:
        """Width of the part of each head that RoPE turns; even."""
        if self.multi_latent_attention:
            return self.qk_pos_emb_head_dim
        return int(self.kv_channels * self.rotary_percent)

    def has_experts(self, layer: int) -> bool:
        """Whether a layer's MLP is made of experts."""
        return self.num_moe_experts > 0 and (self.moe_layer_freq is None or self.moe_layer_freq[layer] == 1)

    @classmethod
    def describe(cls) -> dict[str, str]:
        """Field name -> meaning, in declaration order."""
        return {f.name: f.metadata["doc"] for f in fields(cls)}
