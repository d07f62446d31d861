"""Embeddings: words, learned positions, token types, their norm and dropout, and the projection of narrow ones."""

from __future__ import annotations

from typing import Any

from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import initializer

from mindport.models.dtypes import cast, to_mindspore
from mindport.models.linear import Linear
from mindport.models.norms import norm
from mindport.schema import TransformerConfig


class Embedding(nn.Cell):
    """A row of `weight` (rows, width) for each index: (...) -> (..., width)."""

    def __init__(self, rows: int, width: int, *, params_dtype: Any) -> None:
        super().__init__()
        self.weight = Parameter(initializer("zeros", (rows, width), params_dtype), name="weight")

    def construct(self, index: Tensor) -> Tensor:
        return ops.gather(self.weight, index, 0)


class InputEmbedding(nn.Cell):
    """What enters the first block: (B, T) token ids -> (B, T, H).

    Factorised embeddings are of a width E of their own (Lan et al., 2019, section 3.1), and projected to H.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        params_dtype = to_mindspore(config.params_dtype)
        width = config.embedding_width
        learned = config.position_embedding_type == "learned_absolute"
        self.word = Embedding(config.vocab_size, width, params_dtype=params_dtype)
        self.position = Embedding(config.max_position_embeddings, width, params_dtype=params_dtype) if learned else None
        self.token_type = (
            Embedding(config.num_token_types, width, params_dtype=params_dtype) if config.num_token_types > 0 else None
        )
        self.norm = norm(config, config.embedding_norm_width) if config.embedding_layernorm else None
        self.projection = (
            Linear(
                width,
                config.hidden_size,
                bias=config.add_embedding_projection_bias,
                params_dtype=params_dtype,
                compute_dtype=to_mindspore(config.compute_dtype),
            )
            if config.embedding_size is not None
            else None
        )
        self.projection_first = config.embedding_projection_first
        self.dropout = nn.Dropout(p=config.embedding_dropout)
        self.compute_dtype = to_mindspore(config.compute_dtype)
        self.padding_idx = config.embedding_padding_idx

    def construct(self, input_ids_BT: Tensor, position_ids_BT: Tensor, token_type_ids_BT: Any) -> Tensor:
        x_BTE = cast(self.word(input_ids_BT), self.compute_dtype)
        if self.padding_idx is not None:
            # As torch.nn.Embedding(padding_idx=...): the row is used, but not trained through the input.
            real_BT1 = (input_ids_BT != self.padding_idx).expand_dims(-1)
            x_BTE = ops.select(real_BT1, x_BTE, ops.stop_gradient(x_BTE))
        if self.token_type is not None:
            if token_type_ids_BT is None:
                x_BTE = x_BTE + cast(self.token_type.weight[0], self.compute_dtype)
            else:
                x_BTE = x_BTE + cast(self.token_type(token_type_ids_BT), self.compute_dtype)
        if self.position is not None:
            x_BTE = x_BTE + cast(self.position(position_ids_BT), self.compute_dtype)
        if self.projection is None:
            return self.dropout(self.normed(x_BTE))
        if self.projection_first:
            return self.dropout(self.normed(self.projection(x_BTE)))
        return self.projection(self.dropout(self.normed(x_BTE)))

    def normed(self, x: Tensor) -> Tensor:
        return x if self.norm is None else self.norm(x)
