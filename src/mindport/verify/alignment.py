"""Training alignment: the same steps from the same weights on both sides."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from mindport.verify.gates import Gate


@dataclass(frozen=True)
class Settings:
    """What both sides train with.

    Args:
        steps: optimizer steps.
        learning_rate, betas, eps, weight_decay: of AdamW; decay on matrices and embeddings only.
        max_grad_norm: gradients are clipped to this global norm.
        seed: of the batches.
    """

    steps: int = 10
    learning_rate: float = 1e-4
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.01
    max_grad_norm: float = 1.0
    seed: int = 0


@dataclass(frozen=True)
class Alignment:
    """Losses and gradient norms (before clipping), one per step, of both sides.

    Args:
        objective: what was minimised: causal_lm, labelled or contrastive.
        settings: what both sides trained with.
    """

    objective: str
    settings: Settings
    losses: tuple[float, ...]
    reference_losses: tuple[float, ...]
    grad_norms: tuple[float, ...]
    reference_grad_norms: tuple[float, ...]

    @property
    def loss_difference(self) -> float:
        """Largest absolute difference of a step's loss; NaN if any step is."""
        return worst(abs(a - b) for a, b in zip(self.losses, self.reference_losses, strict=True))

    @property
    def grad_norm_difference(self) -> float:
        """Largest difference of a step's gradient norm, relative to the reference; NaN if any step is."""
        pairs = zip(self.grad_norms, self.reference_grad_norms, strict=True)
        return worst(abs(a - b) / abs(b) if b else abs(a) for a, b in pairs)

    def passes(self, gate: Gate) -> bool:
        """Whether every step keeps the bounds, and the weights really moved. A NaN passes nothing."""
        return (
            self.loss_difference <= gate.loss
            and self.grad_norm_difference <= gate.grad_norm
            and len(set(self.losses)) > 1
        )


def worst(errors: Iterable[float]) -> float:
    """The largest error; NaN if any is, where `max` would step over it."""
    found = list(errors)
    return math.nan if not found or any(map(math.isnan, found)) else max(found)
