"""Attention with linear biases (ALiBi): a penalty that grows with a key's distance, in place of position embeddings."""

from __future__ import annotations

import math
from typing import Any

import mindspore as ms
import ml_dtypes
import numpy as np
from mindspore import Tensor, nn, ops

from mindport.models.dtypes import cast, to_mindspore
from mindport.schema import TransformerConfig


def slopes(heads: int) -> np.ndarray:
    """The slope of each head (Press et al., 2022): powers of 2 ** (-8 / heads) for a power of two, and for the other
    heads the odd powers for twice as many; (heads,) float32."""
    whole = 2 ** math.floor(math.log2(heads))

    def powers(of: int, numbers: np.ndarray) -> np.ndarray:
        return np.power(np.float32(2 ** -(8 / of)), numbers.astype(np.float32))

    rest = np.arange(1, 2 * (heads - whole), 2)
    return np.concatenate([powers(whole, np.arange(1, whole + 1)), powers(2 * whole, rest)])


def biases(heads: int, scale: float, length: int) -> np.ndarray:
    """What is added to the scores of a key, by its position; (length, heads) float32.

    Falcon takes slope, position and product in bfloat16, in which positions above 256 are rounded, and scales the
    product as the scores are. A bias of the key's position alone does: softmax ignores what a query adds to all keys.
    """
    narrow = np.dtype(ml_dtypes.bfloat16)
    product = np.arange(length)[:, None].astype(narrow) * slopes(heads).astype(narrow)
    return product.astype(np.float32) / np.float32(1 / scale)


@ops.constexpr
def _table(heads: int, scale: float, length: int) -> Tensor:
    # Runs in Python, also while a graph is being compiled: no device has to round to bfloat16 as torch does.
    return Tensor(biases(heads, scale, length))


class Alibi(nn.Cell):
    """(B, S) attention mask or None -> (B or 1, N, 1, S), to be added to the scores. Padding has no position."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.heads, self.scale = config.num_attention_heads, config.softmax_scale
        self.dtype = to_mindspore(config.softmax_compute_dtype)

    def construct(self, attention_mask_BS: Any, length: int) -> Tensor:
        table_SN = cast(_table(self.heads, self.scale, length), self.dtype)
        if attention_mask_BS is None:
            return table_SN.transpose(1, 0).reshape(1, self.heads, 1, length)
        real_BS = ops.cast(attention_mask_BS != 0, ms.int32)
        position_BS = (ops.cumsum(real_BS, 1) - 1) * real_BS
        return ops.gather(table_SN, position_BS, 0).transpose(0, 2, 1).expand_dims(2)
