"""The Transformer: embeddings, blocks, final norm, pooler and head, decoder or encoder alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mindspore import Tensor, nn, ops

from mindport.models.activations import activation
from mindport.models.alibi import Alibi
from mindport.models.block import Block
from mindport.models.convolution import Convolution
from mindport.models.dtypes import cast, to_mindspore
from mindport.models.embedding import InputEmbedding
from mindport.models.heads import head
from mindport.models.linear import Linear
from mindport.models.masks import additive_mask
from mindport.models.norms import norm
from mindport.models.output import ModelOutput
from mindport.models.relative_positions import RelativeEmbedding
from mindport.models.rope import RotaryTable
from mindport.schema import TransformerConfig


class Transformer(nn.Cell):
    """A model made from a `TransformerConfig` alone.

    The tree of cells mirrors the slot names, so every parameter is named as its slot.
    """

    def __init__(self, config: TransformerConfig, *, keep_hidden_states: bool = False) -> None:
        super().__init__()
        self.config = config
        self.keep_hidden_states = keep_hidden_states
        self.embedding = InputEmbedding(config)
        rope, base = config.position_embedding_type == "rope", config.sliding_rotary_base
        self.rotary = RotaryTable(config) if rope else None
        self.sliding_rotary = (
            RotaryTable(replace(config, rotary_base=base))
            if rope and base is not None and config.window_size is not None
            else None
        )
        self.alibi = Alibi(config) if config.position_embedding_type == "alibi" else None
        self.relative_embedding = RelativeEmbedding(config) if config.pos_att_type != "none" else None
        self.convolution = Convolution(config) if config.conv_kernel_size > 0 else None
        self.layer = nn.CellList([Block(config, index) for index in range(config.num_stored_layers)])
        self.order = tuple(config.layer_weights or range(config.num_layers))
        self.final_norm = norm(config) if config.final_layernorm else None
        self.pooler = (
            Linear(
                config.hidden_size,
                config.hidden_size,
                bias=True,
                params_dtype=to_mindspore(config.params_dtype),
                compute_dtype=to_mindspore(config.compute_dtype),
            )
            if config.add_pooler
            else None
        )
        self.pooler_dropout = nn.Dropout(p=config.pooler_dropout)
        self.pooler_activation = activation(config.pooler_activation)
        self.head = head(config)
        self.mask_padding = config.mask_padding
        self.window = config.window_size
        self.causal = config.attention_mask_type == "causal"
        self.softmax_dtype = to_mindspore(config.softmax_compute_dtype)

    def __call__(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> ModelOutput:
        """Run the model.

        Args:
            input_ids: (B, T) int32 or int64.
            attention_mask: (B, T), 1 for a token and 0 for padding; None = no padding.
            position_ids: (B, T); None = 0 .. T-1 in every row, whatever the padding, as transformers does.
            token_type_ids: (B, T) segment of each token; None = all 0.
        """
        return ModelOutput(*super().__call__(input_ids, attention_mask, position_ids, token_type_ids))

    def construct(
        self, input_ids_BT: Tensor, attention_mask_BT: Any, position_ids_BT: Any, token_type_ids_BT: Any
    ) -> tuple[Any, Any, Any, Any]:
        length = input_ids_BT.shape[1]
        if position_ids_BT is None:
            position_ids_BT = ops.arange(length).expand_dims(0)
        x_BTH = self.embedding(input_ids_BT, position_ids_BT, token_type_ids_BT)
        real_BT1 = None
        if self.mask_padding and attention_mask_BT is not None:
            real_BT1 = cast(attention_mask_BT != 0, x_BTH.dtype).expand_dims(-1)
            x_BTH = x_BTH * real_BT1
        full = additive_mask(
            attention_mask_BT, length, self.causal, self.softmax_dtype, padded_queries_see=not self.mask_padding
        )
        windowed = full
        if self.window is not None:
            windowed = additive_mask(attention_mask_BT, length, self.causal, self.softmax_dtype, self.window)
        if self.alibi is not None:
            bias = self.alibi(attention_mask_BT, length)
            full = bias if full is None else full + bias
            windowed = bias if windowed is None else windowed + bias
        positions = None
        if self.rotary is not None:
            positions = self.rotary(position_ids_BT)
        if self.relative_embedding is not None:
            positions = self.relative_embedding(length)
        sliding_positions = positions
        if self.sliding_rotary is not None:
            sliding_positions = self.sliding_rotary(position_ids_BT)

        embedded_BTH = x_BTH
        hidden_states: tuple[Tensor, ...] = (x_BTH,)
        for depth, index in enumerate(self.order):
            block = self.layer[index]
            if block.windowed:
                x_BTH = block(x_BTH, windowed, sliding_positions)
            else:
                x_BTH = block(x_BTH, full, positions)
            if depth == 0 and self.convolution is not None:
                x_BTH = self.convolution(embedded_BTH, x_BTH, real_BT1)
            if self.keep_hidden_states:
                hidden_states = (*hidden_states, x_BTH)
        if self.final_norm is not None:
            x_BTH = self.final_norm(x_BTH)

        pooled_BH = None
        if self.pooler is not None:
            pooled_BH = self.pooler_activation(self.pooler(self.pooler_dropout(x_BTH[:, 0])))
        logits = None
        if self.head is not None:
            logits = self.head(x_BTH, pooled_BH, attention_mask_BT, self.embedding.word.weight)
        return logits, x_BTH, pooled_BH, hidden_states if self.keep_hidden_states else None
