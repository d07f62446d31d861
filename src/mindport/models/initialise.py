"""Initial values for training from scratch: the distributions that the source model's library draws from."""

from __future__ import annotations

import numpy as np
from mindspore import Tensor, nn

from mindport.schema import TransformerConfig
from mindport.schema.slots import is_norm

_RESIDUAL = (".attention.o.weight", ".mlp.down.weight", ".mlp.experts.down.weight", ".mlp.shared.down.weight")
"""Ends of the projections back into the residual stream."""

_ZERO = (".bias", ".score_correction")


def initialise(network: nn.Cell, config: TransformerConfig, seed: int) -> None:
    """Matrices and embeddings normal, biases 0, norm weights 1, the padding row of the word embedding 0, by `seed`."""
    generator = np.random.default_rng(seed)
    for name, parameter in network.parameters_and_names():
        if is_norm(name):
            values = np.full(parameter.shape, 0.0 if name.endswith(".bias") else 1.0, np.float32)
        elif name.endswith(_ZERO) and not name.endswith(".router.bias"):
            values = np.zeros(parameter.shape, np.float32)
        else:
            values = _normal(generator, tuple(parameter.shape), config.init_method_cutoff) * _std(name, config)
        padding = config.embedding_padding_idx if config.zero_init_padding else None
        if name == "embedding.word.weight" and padding is not None:
            values[padding] = 0.0
        parameter.set_data(Tensor(values, parameter.dtype))


def _std(name: str, config: TransformerConfig) -> np.float32:
    std: float | None = None
    if name.endswith(_RESIDUAL):
        std = config.output_layer_init_method_std
    elif name == "head.classifier.weight":
        std = config.classifier_init_method_std
    elif name.startswith("head."):
        std = config.head_init_method_std
    return np.float32(config.init_method_std if std is None else std)


def _normal(generator: np.random.Generator, shape: tuple[int, ...], cutoff: float | None) -> np.ndarray:
    """Standard normal values, drawn again where they lie beyond the cutoff."""
    values = generator.standard_normal(shape, np.float32)
    while cutoff is not None and (beyond := np.abs(values) > cutoff).any():
        values[beyond] = generator.standard_normal(int(beyond.sum()), np.float32)
    return values
