"""Inverse frequencies of rotary positions and their scalings for long contexts, in numpy.

Computed in float32 as the PyTorch models do: at position 8192 a frequency that differs in its last bit
already turns a head by 5e-4 rad.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.schema import TransformerConfig

_FLOAT = np.float32
_SCALINGS = ("linear", "dynamic", "llama3", "yarn", "longrope")


def plain(base: float, width: int) -> np.ndarray:
    """base ** (-2i / width) for i in range(width / 2) (Su et al., 2021); (width / 2,) float32."""
    exponent = np.arange(0, width, 2, dtype=_FLOAT) / _FLOAT(width)
    return _FLOAT(1.0) / np.power(_FLOAT(base), exponent)


def linear(base: float, width: int, factor: float) -> np.ndarray:
    """Position interpolation (Chen et al., 2023): every position divided by `factor`."""
    return plain(base, width) / _FLOAT(factor)


def dynamic(base: float, width: int, factor: float, length: int, trained_length: int) -> np.ndarray:
    """Dynamic NTK: beyond the trained length the base grows with the sequence."""
    stretch = factor * max(length, trained_length) / trained_length - (factor - 1)
    return plain(base * stretch ** (width / (width - 2)), width)


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


def longrope(base: float, width: int, factors: Sequence[float]) -> np.ndarray:
    """LongRoPE (Ding et al., 2024): the frequency of each pair divided by a factor of its own."""
    if len(factors) != width // 2:
        raise MindportError(
            tr("LongRoPE has {given} factors for {count} frequencies.", given=len(factors), count=width // 2),
            tr("Take the value from the model's config.json."),
        )
    exponent = np.arange(0, width, 2, dtype=_FLOAT) / _FLOAT(width)
    return _FLOAT(1.0) / (np.array(factors, _FLOAT) * np.power(_FLOAT(base), exponent))


def inverse_frequencies(config: TransformerConfig, length: int) -> tuple[np.ndarray, float]:
    """Frequencies of each pair that is turned and the factor on cos and sin.

    Args:
        length: positions in the sequence; only `dynamic` and `longrope` scaling look at it.

    Returns:
        (rotary_width / 2,) float32 in radians per position, and the factor.

    Raises:
        MindportError: an unknown `rope_type`, or a scaling that lacks one of its keys.
    """
    base, width = config.rotary_base, config.rotary_width
    scaling = config.rope_scaling or {}
    kind = rope_type(config)
    try:
        if kind == "default":
            return plain(base, width), 1.0
        if kind == "linear":
            return linear(base, width, scaling["factor"]), 1.0
        if kind == "dynamic":
            return dynamic(base, width, scaling["factor"], length, config.max_position_embeddings), 1.0
        trained_length = scaling["original_max_position_embeddings"]
        if kind == "longrope":
            factors = scaling["long_factor"] if length > trained_length else scaling["short_factor"]
            return longrope(base, width, factors), scaling["attention_factor"]
        if kind == "llama3":
            low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
            return llama3(base, width, scaling["factor"], low, high, trained_length), 1.0
        factor = scaling.get("factor") or config.max_position_embeddings / trained_length
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
    except KeyError as missing:
        raise MindportError(
            tr("RoPE scaling '{kind}' lacks {key}.", kind=kind, key=missing),
            tr("Take the value from the model's config.json."),
        ) from missing


def steady_length(config: TransformerConfig) -> int | None:
    """Positions up to which a longer sequence turns its heads as a shorter one does; None = always."""
    if rope_type(config) == "dynamic":
        return config.max_position_embeddings
    if rope_type(config) == "longrope":
        return int((config.rope_scaling or {})["original_max_position_embeddings"])
    return None


def rope_type(config: TransformerConfig) -> str:
    """The kind of scaling: default, or one of those below.

    Raises:
        MindportError: any other kind.
    """
    scaling = config.rope_scaling or {}
    kind = scaling.get("rope_type", "default")
    if kind not in ("default", *_SCALINGS):
        raise MindportError(
            tr("The native model does not know the rope_scaling type '{kind}'.", kind=kind),
            tr("Known types: {known}.", known=", ".join(_SCALINGS)),
        )
    return str(kind)
