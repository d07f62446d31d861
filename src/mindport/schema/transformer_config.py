"""`TransformerConfig`: what a Transformer is, in the field's standard terms, with nothing left to be derived.

Names follow Megatron-core and MindFormers' mcore generation where they have one. Every value that PyTorch code
derives silently (head width, number of key/value heads, FFN width, activation ...) is explicit here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from mindport.i18n import tr

NUMERICS, TRAINING, RUN = "numerics", "training", "run"
"""What another value of a field changes: what the model computes in evaluation; how it trains; how it is run, which is
token ids for generation and batching, and precision."""


def _doc(
    meaning: str,
    default: Any = None,
    *,
    required: bool = False,
    effect: str = NUMERICS,
    mcore: str | None = None,
    legacy: str = "",
) -> Any:
    """A dataclass field that carries its own documentation.

    Args:
        meaning: with the unit, or the values it may have. It needs an entry in the catalogue of translations.
        effect: NUMERICS unless it is certain that no evaluation reads the field.
        mcore, legacy: how MindFormers 1.9 calls it, in its TransformerConfig and in its LlamaConfig (with MoEConfig);
            several names with spaces between, "" where there is none. A test asks for `mcore`, so that nobody forgets
            it.
    """
    metadata = {"doc": meaning, "effect": effect, "mcore": mcore, "legacy": legacy}
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
    embedding_size: int | None = _doc(
        "width of the embeddings where they are factorised, which a projection brings to hidden_size; None = neither",
        None,
        mcore="",
    )
    layer_weights: list[int] | None = _doc(
        "for each layer, the set of weights it uses (layers share weights); None = each its own", None, mcore=""
    )
    num_token_types: int = _doc("rows of the token-type (segment) embedding; 0 = none", 0, mcore="")

    # --- block ---------------------------------------------------------------------------------------------
    attention_mask_type: str = _doc("'causal' (decoder) or 'bidirectional' (encoder)", "causal", mcore="")
    normalization: str = _doc("'RMSNorm' or 'LayerNorm'", "RMSNorm", mcore="normalization")
    add_norm_bias: bool = _doc("LayerNorm has a bias", True, mcore="")
    layernorm_epsilon: float = _doc("epsilon inside every norm", 1e-5, mcore="layernorm_epsilon", legacy="rms_norm_eps")
    norm_placement: str = _doc(
        "'pre': norm before attention and MLP; 'post': norm after the residual sum", "pre", mcore=""
    )
    first_attention_layernorm: bool = _doc("the first layer has a norm before its attention too", True, mcore="")
    parallel_block: str = _doc(
        "'none': attention, then MLP; 'one_norm': both read the same normed input and are added together; "
        "'two_norms': likewise, each with a norm of its own",
        "none",
        mcore="",
    )
    embedding_layernorm: bool = _doc("a norm of the embeddings' sum", False, mcore="")
    embedding_projection_first: bool = _doc(
        "factorised embeddings are projected before their norm; else after norm and dropout", False, mcore=""
    )
    add_embedding_projection_bias: bool = _doc("bias on the projection of factorised embeddings", False, mcore="")
    final_layernorm: bool = _doc("a norm after the last block", True, mcore="")
    gated_linear_unit: bool = _doc(
        "MLP is down(act(gate(x)) * up(x)); else down(act(up(x)))", False, mcore="gated_linear_unit"
    )
    activation_func: str = _doc(
        "MLP activation, by its Hugging Face name; see models/activations.py", "silu", mcore="hidden_act"
    )
    activation_func_clamp_value: float | None = _doc(
        "gate is cut off above it, up beyond it on both sides, before the activation; None = neither", None, mcore=""
    )
    glu_linear_offset: float = _doc("added to up(x) before it multiplies the gate", 0.0, mcore="")
    add_qkv_bias: bool = _doc("bias on the q, k and v projections", False, mcore="add_qkv_bias", legacy="qkv_has_bias")
    add_attention_output_bias: bool = _doc(
        "bias on the attention output projection", False, mcore="add_bias_linear", legacy="attn_proj_has_bias"
    )
    add_mlp_bias: bool = _doc("bias on the MLP projections", False, mcore="add_bias_linear")

    # --- attention -----------------------------------------------------------------------------------------
    softmax_scale: float = _doc("factor on q @ k^T, usually kv_channels ** -0.5", required=True, mcore="softmax_scale")
    scale_attention_by_inverse_layer_idx: bool = _doc("also divide by (layer index + 1), as GPT-2 can", False, mcore="")

    window_size: int | None = _doc(
        "a query of a windowed layer sees keys at a distance, in tokens, less than this: causal, those "
        "before it and itself; bidirectional, those on both sides too; None = no windows",
        None,
        mcore="window_size",
    )
    layer_types: list[str] | None = _doc(
        "'full_attention' or 'sliding_attention', per layer; None = all full without a window, all sliding with one",
        None,
        mcore="window_attn_skip_freq",
    )
    qk_layernorm: str = _doc(
        "norm of queries and keys before RoPE: 'none', 'head' (one weight of head width), or 'each_head' (a weight of "
        "its own for each head, no bias)",
        "none",
        mcore="qk_layernorm",
    )
    softmax_type: str = _doc(
        "'vanilla', or 'learnable': one learned logit per head takes part and is dropped", "vanilla", mcore=""
    )

    # --- disentangled attention (DeBERTa) --------------------------------------------------------------------
    pos_att_type: str = _doc(
        "what relative positions add to the scores: 'none', 'c2p' (content asks position), 'p2c' (position asks "
        "content), or 'c2p|p2c'",
        "none",
        mcore="",
    )
    max_relative_positions: int = _doc(
        "distance, in tokens, from which on relative positions are all alike; 0 = there are none", 0, mcore=""
    )
    position_buckets: int | None = _doc(
        "buckets of distances in one direction: one for each small distance, logarithmic from half of them on; "
        "None = a bucket for every distance",
        None,
        mcore="",
    )
    share_att_key: bool = _doc(
        "relative positions go through the projections of queries and keys; else through their own", False, mcore=""
    )
    norm_rel_ebd: str = _doc("norm of the table of relative positions: 'none' or 'layer_norm'", "none", mcore="")
    mask_padding: bool = _doc("embeddings of padding are 0, and a padded query weighs all keys alike", False, mcore="")
    conv_kernel_size: int = _doc(
        "width, in tokens, of a convolution over the embeddings, added to the first block's output; odd; 0 = none",
        0,
        mcore="",
    )
    conv_groups: int = _doc("groups of channels of the convolution that do not mix", 1, mcore="")
    conv_act: str = _doc("activation after the convolution, by its Hugging Face name", "tanh", mcore="")

    # --- latent attention ----------------------------------------------------------------------------------
    multi_latent_attention: bool = _doc(
        "keys and values are made from a compressed latent (DeepSeek's MLA)", False, mcore="multi_latent_attention"
    )
    q_lora_rank: int | None = _doc(
        "width of the query latent, in channels; None = queries are not compressed", None, mcore="q_lora_rank"
    )
    kv_lora_rank: int = _doc("width of the key/value latent, in channels", 0, mcore="kv_lora_rank")
    qk_head_dim: int = _doc("width of the part of a latent head without RoPE, in channels", 0, mcore="qk_head_dim")
    qk_pos_emb_head_dim: int = _doc(
        "width of the part of a latent head with RoPE, in channels; one key for all heads",
        0,
        mcore="qk_pos_emb_head_dim",
    )
    v_head_dim: int = _doc("width of a value head of latent attention, in channels", 0, mcore="v_head_dim")
    latent_layernorm_epsilon: float = _doc("epsilon inside the norms of the latents", 1e-6, mcore="layernorm_epsilon")

    # --- experts -------------------------------------------------------------------------------------------
    num_moe_experts: int = _doc(
        "routed experts in a layer that has them; 0 = none", 0, mcore="num_moe_experts", legacy="expert_num"
    )
    moe_layer_freq: list[int] | None = _doc(
        "1 or 0 per layer: experts or a plain MLP; None = experts in all",
        None,
        mcore="moe_layer_freq first_k_dense_replace",
        legacy="first_k_dense_replace",
    )
    moe_router_topk: int = _doc("experts a token goes to", 0, mcore="moe_router_topk", legacy="num_experts_chosen")
    moe_ffn_hidden_size: int = _doc(
        "width inside one routed expert, in channels", 0, mcore="moe_ffn_hidden_size", legacy="moe_intermediate_size"
    )
    moe_shared_expert_intermediate_size: int = _doc(
        "width of the MLP every token goes through besides, in channels; 0 = none",
        0,
        mcore="moe_shared_expert_intermediate_size",
        legacy="shared_expert_num",
    )
    moe_router_score_function: str = _doc(
        "'softmax' or 'sigmoid' of the router's logits",
        "softmax",
        mcore="moe_router_score_function",
        legacy="use_gating_sigmoid",
    )
    moe_router_pre_softmax: bool = _doc(
        "softmax over all experts before the best are taken; else over the best alone",
        True,
        mcore="moe_router_pre_softmax",
    )
    norm_topk_prob: bool = _doc(
        "the weights of a token's experts are divided by their sum",
        False,
        mcore="norm_topk_prob",
        legacy="norm_topk_prob",
    )
    moe_router_topk_scaling_factor: float = _doc(
        "factor on the weights of a token's experts",
        1.0,
        mcore="moe_router_topk_scaling_factor",
        legacy="routed_scaling_factor",
    )
    moe_router_num_groups: int | None = _doc(
        "groups of experts, of which only some are considered; None = all",
        None,
        mcore="moe_router_num_groups",
        legacy="n_group",
    )
    moe_router_group_topk: int | None = _doc(
        "groups considered for a token", None, mcore="moe_router_group_topk", legacy="topk_group"
    )
    moe_router_enable_expert_bias: bool = _doc(
        "a correction is added to scores for choosing, not for weighting",
        False,
        mcore="moe_router_enable_expert_bias",
        legacy="balance_via_topk_bias",
    )
    add_router_bias: bool = _doc("bias on the router's projection", False, mcore="")
    moe_aux_loss_coeff: float = _doc(
        "factor of the load-balancing loss", 0.0, mcore="moe_aux_loss_coeff", legacy="aux_loss_factor", effect=TRAINING
    )
    mtp_num_layers: int = _doc(
        "multi-token-prediction modules; carried along, not computed", 0, mcore="mtp_num_layers", effect=RUN
    )

    # --- positions -----------------------------------------------------------------------------------------
    position_embedding_type: str = _doc(
        "'rope', 'learned_absolute', 'alibi' (ALiBi as Falcon has it: in bfloat16, scaled as the scores are) or 'none'",
        "rope",
        mcore="position_embedding_type",
    )
    rotary_percent: float = _doc("part of each head's width that RoPE turns", 1.0, mcore="partial_rotary_factor")
    rotary_interleaved: bool = _doc(
        "RoPE turns pairs (2i, 2i + 1), not (i, i + half)", False, mcore="rotary_interleaved"
    )
    sliding_rotary_base: float | None = _doc("RoPE theta of windowed layers; None = rotary_base", None, mcore="")
    rotary_base: float = _doc(
        "RoPE theta, the base of the rotation frequencies", 10000.0, mcore="rotary_base", legacy="theta"
    )
    rope_scaling: dict[str, Any] | None = _doc(
        "RoPE scaling of all layers: its rope_type (linear, dynamic, llama3, yarn or longrope) and the "
        "settings of that type; None = plain",
        None,
        mcore="rope_scaling",
        legacy="extend_method scaling_factor",
    )

    # --- head ----------------------------------------------------------------------------------------------
    head: str = _doc(
        "'none', 'causal_lm', 'masked_lm', 'sequence_classification', 'token_classification' or 'question_answering'",
        "none",
        mcore="",
    )
    tie_word_embeddings: bool = _doc(
        "the LM head multiplies by the word embedding itself",
        False,
        mcore="tie_word_embeddings untie_embeddings_and_output_weights",
        legacy="tie_word_embeddings",
    )
    add_pooler: bool = _doc("dense and activation on the first position (BERT)", False, mcore="")
    pooler_activation: str = _doc("activation inside the pooler, by its Hugging Face name", "tanh", mcore="")
    num_labels: int = _doc("outputs of a classification head", 2, mcore="")
    classifier_pooling: str = _doc(
        "what a sequence classifier reads: the 'pooler', the state of the first position ('cls'), or the "
        "'mean' over all that are not padding",
        "pooler",
        mcore="",
    )
    add_classifier_transform: bool = _doc(
        "a classifier begins with dense, activation and norm as the masked-LM head does", False, mcore=""
    )
    add_head_transform_bias: bool = _doc("bias on the dense layer with which a head begins", True, mcore="")
    head_activation: str = _doc("activation after the dense layer with which a head begins", "gelu", mcore="")
    add_masked_lm_bias: bool = _doc("bias on the masked-LM head's projection to the vocabulary", True, mcore="")

    # --- regularisation and initialisation -----------------------------------------------------------------
    hidden_dropout: float = _doc(
        "dropout probability after attention and MLP, after a convolution, and on relative positions",
        0.0,
        mcore="hidden_dropout",
        effect=TRAINING,
    )
    attention_output_dropout: float | None = _doc(
        "dropout probability after attention; None = hidden_dropout, and in a parallel block one dropout on "
        "the sum of attention and MLP",
        None,
        mcore="",
        effect=TRAINING,
    )
    hidden_dropout_after_mlp: bool = _doc(
        "hidden_dropout acts after the MLP too, not after attention alone", True, mcore="", effect=TRAINING
    )
    mlp_dropout: float = _doc(
        "dropout probability inside the MLP, before its last projection", 0.0, mcore="", effect=TRAINING
    )
    attention_dropout: float = _doc(
        "dropout probability on attention weights", 0.0, mcore="attention_dropout", effect=TRAINING
    )
    embedding_dropout: float = _doc(
        "dropout probability after the embeddings", 0.0, mcore="hidden_dropout", effect=TRAINING
    )
    pooler_dropout: float = _doc("dropout probability on what the pooler reads", 0.0, mcore="", effect=TRAINING)
    classifier_dropout: float = _doc("dropout probability before a classification head", 0.0, mcore="", effect=TRAINING)
    init_method_std: float = _doc(
        "standard deviation of initial weights (initializer_range)",
        0.02,
        mcore="init_method_std",
        legacy="init_method_std",
        effect=TRAINING,
    )
    output_layer_init_method_std: float | None = _doc(
        "likewise of the projections back into the residual stream; None = init_method_std",
        None,
        mcore="output_layer_init_method",
        effect=TRAINING,
    )
    classifier_init_method_std: float | None = _doc(
        "likewise of a classifier; None = init_method_std", None, mcore="", effect=TRAINING
    )
    head_init_method_std: float | None = _doc(
        "likewise of a head's dense layer and projection to the vocabulary; None = init_method_std",
        None,
        mcore="",
        effect=TRAINING,
    )
    zero_init_padding: bool = _doc("the padding row of the word embedding starts as 0", True, mcore="", effect=TRAINING)
    init_method_cutoff: float | None = _doc(
        "initial weights lie within so many standard deviations; None = anywhere", None, mcore="", effect=TRAINING
    )

    # --- token ids -----------------------------------------------------------------------------------------
    bos_token_id: int | None = _doc(
        "id of the token that begins a sequence; None = none", None, mcore="", legacy="bos_token_id", effect=RUN
    )
    eos_token_id: int | list[int] | None = _doc(
        "id, or ids, of the tokens that end a sequence; None = none", None, mcore="", legacy="eos_token_id", effect=RUN
    )
    pad_token_id: int | None = _doc(
        "id of the padding token; None = none", None, mcore="pad_token_id", legacy="pad_token_id", effect=RUN
    )

    embedding_padding_idx: int | None = _doc(
        "row of the word embedding that gets no gradient from the input; None = none", None, mcore="", effect=TRAINING
    )

    # --- precision -----------------------------------------------------------------------------------------
    params_dtype: str = _doc(
        "dtype of the parameters: float32, float16 or bfloat16",
        "float32",
        mcore="params_dtype",
        legacy="param_init_type",
        effect=RUN,
    )
    compute_dtype: str = _doc(
        "dtype of matrix products", "float32", mcore="compute_dtype", legacy="compute_dtype", effect=RUN
    )
    layernorm_compute_dtype: str = _doc(
        "dtype inside norms", "float32", mcore="layernorm_compute_dtype", legacy="layernorm_compute_type", effect=RUN
    )
    softmax_compute_dtype: str = _doc(
        "dtype inside the attention softmax",
        "float32",
        mcore="softmax_compute_dtype",
        legacy="softmax_compute_type",
        effect=RUN,
    )
    rotary_dtype: str = _doc(
        "dtype of the RoPE tables and rotation", "float32", mcore="rotary_dtype", legacy="rotary_dtype", effect=RUN
    )

    @classmethod
    def effects(cls) -> dict[str, str]:
        """Field name -> what another value changes: NUMERICS, TRAINING or RUN."""
        return {f.name: f.metadata["effect"] for f in fields(cls)}

    @property
    def num_stored_layers(self) -> int:
        """Sets of layer weights: fewer than layers where layers share them."""
        return self.num_layers if self.layer_weights is None else max(self.layer_weights) + 1

    @property
    def embedding_width(self) -> int:
        """Width of the embeddings of words, positions and token types, and inside the masked-LM head."""
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

    @property
    def relative_span(self) -> int:
        """Buckets of distances in one direction; relative positions have a row for each in both."""
        return self.max_relative_positions if self.position_buckets is None else self.position_buckets

    @property
    def conv_group_width(self) -> int:
        """Channels of the embeddings that one output of the convolution reads."""
        return self.hidden_size // self.conv_groups

    def has_experts(self, layer: int) -> bool:
        """Whether a layer's MLP is made of experts."""
        return self.num_moe_experts > 0 and (self.moe_layer_freq is None or self.moe_layer_freq[layer] == 1)

    @classmethod
    def describe(cls) -> dict[str, str]:
        """Field name -> meaning in the user's language, in declaration order."""
        return {f.name: tr(f.metadata["doc"]) for f in fields(cls)}

    @property
    def embedding_norm_width(self) -> int:
        """Width of what the norm of the embeddings goes over."""
        return self.hidden_size if self.embedding_projection_first else self.embedding_width
