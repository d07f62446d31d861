"""The MindSpore side of a training alignment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mindspore as ms

from mindport.train import (
    AdamWSettings,
    CausalLMObjective,
    ContrastiveObjective,
    MaskedLMObjective,
    TrainStep,
)
from mindport.verify.alignment import Settings
from mindport.verify.objectives import Arrays

_OBJECTIVES = {
    "causal_lm": CausalLMObjective,
    "labelled": MaskedLMObjective,
    "contrastive": ContrastiveObjective,
}


def train_native(
    network: Any, objective: str, batches: Sequence[Arrays], settings: Settings
) -> tuple[list[float], list[float]]:
    """Train the native model with the same AdamW, dropout off.

    Returns:
        loss and gradient norm before clipping, one per step.
    """
    step = TrainStep(
        _OBJECTIVES[objective](network),
        AdamWSettings(
            lr=settings.learning_rate,
            betas=settings.betas,
            eps=settings.eps,
            weight_decay=settings.weight_decay,
        ),
        max_grad_norm=settings.max_grad_norm,
        dropout=False,
    )
    results = [step(*(ms.Tensor(array) for array in batch)) for batch in batches]
    return [r.loss for r in results], [r.grad_norm for r in results]
