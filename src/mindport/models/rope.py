"""Rotary positions: cos and sin of every position, and the rotation of queries and keys."""

from __future__ import annotations

from typing import Any

from mindspore import Tensor, nn, ops

from mindport.models.dtypes import cast, to_mindspore
from mindport.models.rope_frequencies import dynamic, inverse_frequencies, rope_type, steady_length
from mindport.schema import TransformerConfig


@ops.constexpr
def _stretched(base: float, width: int, factor: float, length: int, trained_length: int) -> Tensor:
    # Runs in Python, also while a graph is being compiled: there the length is a constant.
    return Tensor(dynamic(base, width, factor, length, trained_length))


class RotaryTable(nn.Cell):
    """(B, T) positions -> cos and sin, each (B, T, 1, W/2) in `rotary_dtype`, W the part of a head that is turned."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        frequencies, self.factor = inverse_frequencies(config, 1)
        self.frequencies = Tensor(frequencies)
        self.short_length = steady_length(config) if rope_type(config) == "longrope" else None
        if self.short_length is not None:
            self.long_frequencies = Tensor(inverse_frequencies(config, self.short_length + 1)[0])
        self.dynamic_factor = (config.rope_scaling or {})["factor"] if rope_type(config) == "dynamic" else None
        self.base, self.width = config.rotary_base, config.rotary_width
        self.trained_length = config.max_position_embeddings
        self.rotary_dtype = to_mindspore(config.rotary_dtype)

    def construct(self, position_ids_BT: Tensor) -> tuple[Tensor, Tensor]:
        frequencies = self.frequencies
        length = position_ids_BT.shape[1]
        if self.dynamic_factor is not None and length > self.trained_length:
            frequencies = _stretched(self.base, self.width, self.dynamic_factor, length, self.trained_length)
        if self.short_length is not None:
            # One sequence longer than that, padding included, turns all of the batch by the long frequencies.
            is_long = (position_ids_BT.max() >= self.short_length).reshape(1)
            frequencies = ops.select(ops.broadcast_to(is_long, frequencies.shape), self.long_frequencies, frequencies)
        # Angles always in float32 or wider: half precision cannot tell position 2048 from 2049.
        angle_BTD = cast(position_ids_BT, frequencies.dtype).expand_dims(-1) * frequencies
        angle_BT1D = angle_BTD.expand_dims(2)
        cos, sin = ops.cos(angle_BT1D), ops.sin(angle_BT1D)
        if self.factor != 1.0:
            cos, sin = cos * self.factor, sin * self.factor
        return cast(cos, self.rotary_dtype), cast(sin, self.rotary_dtype)


def rotate(x_BTND: Tensor, cos: Any, sin: Any, interleaved: bool = False) -> Tensor:
    """Turn pairs of each head by its position's angle: (i, i + W/2), or (2i, 2i + 1) where interleaved.

    W, twice the width of `cos`, is the part of the head that is turned; the rest stays. Interleaved pairs come out as
    halves: queries and keys alike, so that their products are the same.
    """
    half = cos.shape[-1]
    width = 2 * half
    x = cast(x_BTND, cos.dtype)
    if interleaved:
        first, second = x[..., 0:width:2], x[..., 1:width:2]
    else:
        first, second = x[..., :half], x[..., half:width]
    parts = [first * cos - second * sin, second * cos + first * sin]
    if x.shape[-1] > width:
        parts = [*parts, x[..., width:]]
    return cast(ops.concat(parts, -1), x_BTND.dtype)
