"""Clipping by the norm of all gradients together."""

from __future__ import annotations

from typing import Any

import mindspore as ms
from mindspore import Tensor, ops

from mindport.models.dtypes import cast


def global_norm(gradients: Any) -> Tensor:
    """sqrt of the sum of squares over all gradients, in float32."""
    squares = []
    for gradient in gradients:
        wide = cast(gradient, ms.float32)
        squares.append((wide * wide).sum())
    return ops.sqrt(ops.stack(squares).sum())


def clip_factor(norm: Tensor, limit: float) -> Tensor:
    """min(1, limit / (norm + 1e-6)): what torch.nn.utils.clip_grad_norm_ multiplies every gradient by."""
    return ops.minimum(limit / (norm + 1e-6), 1.0)
