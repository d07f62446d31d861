"""Activations by their Hugging Face names, each by its own formula.

Names that look alike differ: `gelu` is exact (erf), `gelu_new` and `gelu_pytorch_tanh` are the tanh
approximation, `quick_gelu` is a sigmoid. `mindspore.nn.GELU()` would silently be the tanh one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import mindspore as ms
from mindspore import Tensor, ops

from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.models.dtypes import cast

_SQRT_HALF = math.sqrt(0.5)
_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)


def gelu(x: Tensor) -> Tensor:
    """x * Phi(x), exactly."""
    return 0.5 * x * (1.0 + ops.erf(x * _SQRT_HALF))


def tanh(x: Tensor) -> Tensor:
    """tanh(x) as 2 sigmoid(2x) - 1: MindSpore's own tanh is off by up to 1e-4 on a CPU, sigmoid by 1e-6."""
    # In float32: near 0 the difference of two numbers close to 1 would leave half precision with nothing.
    return cast(2.0 * ops.sigmoid(2.0 * cast(x, ms.float32)) - 1.0, x.dtype)


def gelu_tanh(x: Tensor) -> Tensor:
    """The tanh approximation of GELU (Hendrycks and Gimpel, 2016): 0.5 x (1 + tanh y) = x sigmoid(2y)."""
    return x * ops.sigmoid((2.0 * _SQRT_2_OVER_PI) * (x + 0.044715 * x * x * x))


def quick_gelu(x: Tensor) -> Tensor:
    """x * sigmoid(1.702 x)."""
    return x * ops.sigmoid(1.702 * x)


def silu(x: Tensor) -> Tensor:
    """x * sigmoid(x)."""
    return x * ops.sigmoid(x)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": gelu,
    "gelu_new": gelu_tanh,
    "gelu_pytorch_tanh": gelu_tanh,
    "quick_gelu": quick_gelu,
    "silu": silu,
    "swish": silu,
    "relu": ops.relu,
    "tanh": tanh,
}
"""Hugging Face activation name -> function on a tensor of any shape."""


def activation(name: str) -> Callable[[Tensor], Tensor]:
    """The function behind an activation name.

    Raises:
        MindportError: a name outside `ACTIVATIONS`; nothing is substituted.
    """
    if name not in ACTIVATIONS:
        raise MindportError(
            tr("The native model does not know the activation '{name}'.", name=name),
            tr("Known activations: {known}.", known=", ".join(ACTIVATIONS)),
        )
    return ACTIVATIONS[name]
