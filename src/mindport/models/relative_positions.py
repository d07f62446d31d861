"""Relative positions of DeBERTa: distances in buckets, and the table that holds a row for each (He et al., 2021)."""

from __future__ import annotations

from typing import Any

import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import initializer

from mindport.models.dtypes import to_mindspore
from mindport.models.norms import norm
from mindport.schema import TransformerConfig

_FLOAT = np.float32


def bucket(distance: np.ndarray, buckets: int | None, reach: int) -> np.ndarray:
    """Distances, of either sign, in buckets that grow with the distance; integers of any shape.

    Up to half of the buckets each distance has its own. From there to `reach` - 1 the other half is divided evenly by
    logarithm; what lies beyond gets ever higher numbers.

    Args:
        buckets: in one direction; None = distances stay as they are.
        reach: the model's `max_relative_positions`.
    """
    if buckets is None:
        return distance
    middle = buckets // 2
    # In float32, as PyTorch: where a logarithm falls on the edge of a bucket the last bit decides.
    far = np.maximum(np.abs(distance), middle).astype(_FLOAT) / _FLOAT(middle)
    share = np.log(far) / np.log(_FLOAT((reach - 1) / middle))
    logarithmic = np.ceil(share * _FLOAT(middle - 1)).astype(np.int64) + middle
    return np.where(np.abs(distance) <= middle, distance, np.sign(distance) * logarithmic)


@ops.constexpr
def _rows(length: int, buckets: int | None, reach: int) -> Tensor:
    # Runs in Python, also while a graph is being compiled: there the length is a constant.
    span = reach if buckets is None else buckets
    rising = np.arange(1 - length, length)
    rows = np.clip(bucket(rising, buckets, reach) + span, 0, 2 * span - 1).astype(np.int32)
    return Tensor(np.stack([rows[::-1], rows]))


class RelativeEmbedding(nn.Cell):
    """length T -> the table (P, H), and its rows for the distances T - 1 ... 1 - T and for 1 - T ... T - 1.

    All blocks share it. Row P / 2 is the distance 0, higher rows are keys before the query; the rows are (2, R) int32
    with R = 2T - 1.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        shape = (2 * config.relative_span, config.hidden_size)
        self.weight = Parameter(initializer("zeros", shape, to_mindspore(config.params_dtype)), name="weight")
        self.norm = norm(config) if config.norm_rel_ebd == "layer_norm" else None
        self.buckets, self.reach = config.position_buckets, config.max_relative_positions

    def construct(self, length: int) -> tuple[Any, Tensor]:
        table_PH = self.weight if self.norm is None else self.norm(self.weight)
        return table_PH, _rows(length, self.buckets, self.reach)
