"""One additive attention mask from causality and padding."""

from __future__ import annotations

from typing import Any

import mindspore as ms
from mindspore import ops

# Finite, so that a row with nothing to attend to (a padded query) gives a uniform softmax instead of NaN, as
# in PyTorch's eager attention; and far enough from the dtype's limit that adding a score cannot overflow.
_MASKED_HALF, _MASKED = -3.0e4, -1.0e38


def additive_mask(
    attention_mask_BS: Any,
    length: int,
    causal: bool,
    dtype: Any,
    window: int | None = None,
    padded_queries_see: bool = True,
) -> Any:
    """What is added to the attention scores (B, N, T, S).

    Args:
        attention_mask_BS: (B, S), 1 where a token is real and 0 where it is padding, or None.
        length: T = S, positions in the sequence.
        causal: whether a position sees only itself and earlier ones.
        dtype: of the softmax.
        window: a position sees those at a distance less than this; None = all of them.
        padded_queries_see: whether padding sees real tokens; else it sees nothing, and weighs all keys alike.

    Returns:
        (B or 1, 1, T or 1, S) of 0 and a large negative value, or None where everything is visible.
    """
    visible = None
    if causal or window is not None:
        position = ops.arange(length)
        distance = position.expand_dims(-1) - position
        if window is None:
            visible = distance >= 0
        elif causal:
            visible = ops.logical_and(distance >= 0, distance < window)
        else:
            visible = ops.abs(distance) < window
        visible = visible.reshape(1, 1, length, length)
    if attention_mask_BS is not None:
        real_B11S = (attention_mask_BS != 0).expand_dims(1).expand_dims(1)
        visible = real_B11S if visible is None else ops.logical_and(visible, real_B11S)
        if not padded_queries_see:
            visible = ops.logical_and(visible, real_B11S.swapaxes(2, 3))
    if visible is None:
        return None
    masked = _MASKED_HALF if dtype == ms.float16 else _MASKED
    return ops.cast(ops.logical_not(visible), dtype) * masked


def masked(scores_BNTS: Any, mask: Any, *, replaced: bool) -> Any:
    """Attention scores under a mask of `additive_mask`, or as they are without one.

    Args:
        replaced: masked scores make way for the mask, and get no gradient. It is the same for a row that sees
            anything; in one that sees nothing the weights are alike, and would otherwise pass gradients back.
    """
    if mask is None:
        return scores_BNTS
    lowered_BNTS = scores_BNTS + mask
    # Half of the smaller mark: the mask may also hold biases.
    return ops.where(mask < _MASKED_HALF / 2, mask, lowered_BNTS) if replaced else lowered_BNTS
