"""Initial values for training from scratch."""

from __future__ import annotations

import numpy as np
from mindspore import Tensor, nn

from mindport.schema import TransformerConfig


def is_norm(slot: str) -> bool:
    """Whether a slot belongs to a norm: `layer.3.attention_norm.weight` does, `pooler.weight` does not."""
    return any(part.endswith("norm") for part in slot.split("."))


def initialise(network: nn.Cell, config: TransformerConfig, seed: int) -> None:
    """Matrices and embeddings normal with `init_method_std`, biases and corrections 0, norm weights 1, by `seed`."""
    generator = np.random.default_rng(seed)
    for slot, parameter in network.parameters_and_names():
        if slot.endswith((".bias", ".score_correction")):
            values = np.zeros(parameter.shape, np.float32)
        elif is_norm(slot):
            values = np.ones(parameter.shape, np.float32)
        else:
            values = generator.standard_normal(parameter.shape, np.float32) * np.float32(config.init_method_std)
        parameter.set_data(Tensor(values, parameter.dtype))
