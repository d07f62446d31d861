"""AdamW with torch.optim.AdamW's arithmetic.

MindSpore's own `nn.AdamWeightDecay` has no bias correction, and `nn.Adam` couples the decay with the gradient.
The fused kernel behind the first is right and fast once the corrections are folded into its scalars.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, ParameterTuple, Tensor, nn, ops

from mindport.schema.slots import is_norm


def decays(slot: str) -> bool:
    """Whether weight decay applies to a parameter by default: not to biases and norms."""
    return not slot.endswith(".bias") and not is_norm(slot)


@dataclass(frozen=True)
class AdamWSettings:
    """Hyperparameters with torch.optim.AdamW's names and defaults.

    Args:
        decays: slot name -> whether weight decay applies to that parameter.
    """

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.01
    decays: Callable[[str], bool] = decays


class AdamW(nn.Cell):
    """One update of all parameters, in place.

    p -= lr * (m / bc1 / (sqrt(v / bc2) + eps) + weight_decay * p) with bc = 1 - beta ** step.
    """

    def __init__(self, parameters: list[Parameter], settings: AdamWSettings) -> None:
        super().__init__(auto_prefix=False)
        self.settings = settings
        self.parameters = ParameterTuple(parameters)
        self.m = self.parameters.clone("m", init="zeros")
        self.v = self.parameters.clone("v", init="zeros")
        self.decay_flags = tuple(settings.decays(parameter.name) for parameter in parameters)
        # The kernel computes 1 - beta in float32. Bias corrections of the same rounded betas keep the averages
        # normalised, where 0.999 itself would leave v 1.3e-5 too small.
        self.beta1, self.beta2 = (float(np.float32(beta)) for beta in settings.betas)
        self.update = ops.AdamWeightDecay()

    def scalars(self, step: int) -> tuple[Tensor, Tensor, Tensor]:
        """The kernel's lr, eps and decay in step 1, 2, ... with the bias corrections folded in."""
        settings = self.settings
        correction1 = 1.0 - self.beta1**step
        correction2 = math.sqrt(1.0 - self.beta2**step)
        lr = settings.lr * correction2 / correction1
        decay = settings.lr * settings.weight_decay / lr if lr else 0.0
        return (
            Tensor(lr, ms.float32),
            Tensor(settings.eps * correction2, ms.float32),
            Tensor(decay, ms.float32),
        )

    def construct(self, lr: Tensor, eps: Tensor, decay: Tensor, gradients: Any) -> Any:
        done = ()
        for i in range(len(self.parameters)):
            applied = decay if self.decay_flags[i] else 0.0
            done += self.update(
                self.parameters[i],
                self.m[i],
                self.v[i],
                lr,
                self.beta1,
                self.beta2,
                eps,
                applied,
                gradients[i],
            )
        return done
