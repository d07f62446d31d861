"""One training step: loss, gradients, clipping by global norm, AdamW."""

from __future__ import annotations

from typing import Any, NamedTuple

import mindspore as ms
from mindspore import Tensor, nn

from mindport.models.dtypes import cast
from mindport.train.clip import clip_factor, global_norm
from mindport.train.optimizer import AdamW, AdamWSettings


class StepResult(NamedTuple):
    """What one step reports."""

    loss: float
    """Before the update."""
    grad_norm: float
    """Of all gradients together, before clipping."""


class _Step(nn.Cell):
    """The tensor part of a step, one graph in graph mode."""

    def __init__(self, objective: nn.Cell, optimizer: AdamW, max_grad_norm: float | None) -> None:
        super().__init__(auto_prefix=False)
        self.objective = objective
        self.optimizer = optimizer
        self.max_grad_norm = max_grad_norm
        self.gradients_of = ms.value_and_grad(objective, None, optimizer.parameters)

    def construct(self, lr: Tensor, eps: Tensor, decay: Tensor, *inputs: Any) -> tuple[Tensor, Tensor, Any]:
        loss, gradients = self.gradients_of(*inputs)
        norm = global_norm(gradients)
        if self.max_grad_norm is not None:
            factor = clip_factor(norm, self.max_grad_norm)
            gradients = [gradient * cast(factor, gradient.dtype) for gradient in gradients]
        return loss, norm, self.optimizer(lr, eps, decay, gradients)


class TrainStep:
    """Calling it with the objective's inputs does one step and returns loss and gradient norm.

    Runs as one compiled graph in graph mode and operation by operation in PyNative, with equal results.

    Args:
        objective: inputs -> scalar loss, holding the network.
        settings: of AdamW.
        max_grad_norm: clip the gradients to this global norm; None = do not clip.
        dropout: False switches dropout off, for a comparison with another framework.
    """

    def __init__(
        self,
        objective: nn.Cell,
        settings: AdamWSettings,
        *,
        max_grad_norm: float | None = 1.0,
        dropout: bool = True,
    ) -> None:
        objective.set_train(dropout)
        self.optimizer = AdamW(list(objective.trainable_params()), settings)
        self.steps_done = 0
        self._step = _Step(objective, self.optimizer, max_grad_norm)

    def __call__(self, *inputs: Any) -> StepResult:
        scalars = self.optimizer.scalars(self.steps_done + 1)
        loss, norm, _ = self._step(*scalars, *inputs)
        self.steps_done += 1
        return StepResult(float(loss.asnumpy()), float(norm.asnumpy()))
