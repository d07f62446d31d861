"""MLP activations by their Hugging Face names. Similar names are different functions."""

from __future__ import annotations

ACTIVATIONS: dict[str, str] = {
    "gelu": "x * Phi(x), exact, through erf",
    "gelu_new": "0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))",
    "gelu_pytorch_tanh": "the same tanh approximation under torch's name",
    "quick_gelu": "x * sigmoid(1.702 x)",
    "relu": "max(x, 0)",
    "silu": "x * sigmoid(x)",
    "swish": "silu under an older name",
    "tanh": "tanh(x)",
}
"""Name -> formula. `mindport.models.activations` implements each."""
