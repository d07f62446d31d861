"""RoPE frequencies and their scalings for long contexts, in numpy and nothing else, as this module travels.

Computed in float32 as the PyTorch models do: at position 8192 a frequency that differs in its last bit already turns a
head by 5e-4 rad.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

_FLOAT = np.float32


def plain(base: float, width: int) -> np.ndarray:
    """base ** (-2i / width) for i in range(width / 2) (Su et al., 2021); (width / 2,) float32."""
    exponent = np.arange(0, width, 2, dtype=_FLOAT) / _FLOAT(width)
    return _FLOAT(1.0) / np.power(_FLOAT(base), exponent)


def linear(base: float, width: int, factor: float) -> np.ndarray:
    """Position interpolation (Chen et al., 2023): every position divided by `factor`."""
    return plain(base, width) / _FLOAT(factor)


def llama3(
    base: float,
    width: int,
    factor: float,
    low_freq_factor: float,
    high_freq_factor: float,
    trained_length: int,
) -> np.ndarray:
    """Llama 3.1: long wavelengths divided by `factor`, short ones kept, a linear blend between."""
    frequency = plain(base, width)
    turns = trained_length * frequency / _FLOAT(2 * math.pi)
    keep = np.clip((turns - low_freq_factor) / (high_freq_factor - low_freq_factor), 0, 1)
    return ((1 - keep) * frequency / factor + keep * frequency).astype(_FLOAT)


def yarn(
    base: float,
    width: int,
    factor: float,
    trained_length: int,
    beta_fast: float,
    beta_slow: float,
    truncate: bool,
) -> np.ndarray:
    """YaRN (Peng et al., 2023, section 3.2).

    Interpolate the pairs that turn fewer than `beta_slow` times in the trained length, keep those that turn
    more than `beta_fast` times, blend linearly between.
    """

    def pair_that_turns(times: float) -> float:
        return width * math.log(trained_length / (times * 2 * math.pi)) / (2 * math.log(base))

    first, last = pair_that_turns(beta_fast), pair_that_turns(beta_slow)
    if truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, width - 1)
    if first == last:
        last += 0.001
    frequency = plain(base, width)
    interpolate = np.clip((np.arange(width // 2, dtype=_FLOAT) - first) / (last - first), 0, 1)
    return (frequency / factor * interpolate + frequency * (1 - interpolate)).astype(_FLOAT)


def yarn_attention_factor(factor: float, scaling: Mapping[str, Any]) -> float:
    """YaRN's factor on cos and sin: given, or from `mscale` and `mscale_all_dim`, or 0.1 ln(factor) + 1."""
    given = scaling.get("attention_factor")
    if given is not None:
        return float(given)

    def magnitude(mscale: float) -> float:
        return 0.1 * mscale * math.log(factor) + 1.0 if factor > 1 else 1.0

    mscale, mscale_all_dim = scaling.get("mscale"), scaling.get("mscale_all_dim")
    if mscale and mscale_all_dim:
        return magnitude(mscale) / magnitude(mscale_all_dim)
    return magnitude(1.0)


def steady(base: float, width: int, scaling: Mapping[str, Any]) -> tuple[np.ndarray, float]:
    """Frequencies of each pair of a head, and the factor on cos and sin, under a scaling of `families.SCALINGS`.

    Args:
        width: channels of a head that are turned.
        scaling: with `rope_type`, and with every other key that it needs.

    Returns:
        (width / 2,) float32 in radians per position, and the factor.

    Raises:
        KeyError: a key is missing.
    """
    kind, factor = scaling["rope_type"], scaling["factor"]
    if kind == "linear":
        return linear(base, width, factor), 1.0
    trained_length = scaling["original_max_position_embeddings"]
    if kind == "llama3":
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        return llama3(base, width, factor, low, high, trained_length), 1.0
    frequency = yarn(
        base,
        width,
        factor,
        trained_length,
        beta_fast=scaling.get("beta_fast") or 32,
        beta_slow=scaling.get("beta_slow") or 1,
        truncate=scaling.get("truncate", True),
    )
    return frequency, yarn_attention_factor(factor, scaling)
