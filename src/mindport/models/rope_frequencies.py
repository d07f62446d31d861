"""Inverse frequencies of rotary positions for one model, in numpy.

The scalings that do not depend on the length of a sequence are in `plugin/rope.py`, which says why all is float32.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.plugin.families import SCALINGS
from mindport.plugin.rope import plain, steady
from mindport.schema import TransformerConfig

_FLOAT = np.float32
_SCALINGS = (*SCALINGS, "dynamic", "longrope")


def dynamic(base: float, width: int, factor: float, length: int, trained_length: int) -> np.ndarray:
    """Dynamic NTK: beyond the trained length the base grows with the sequence."""
    stretch = factor * max(length, trained_length) / trained_length - (factor - 1)
    return plain(base * stretch ** (width / (width - 2)), width)


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
        if kind == "dynamic":
            return dynamic(base, width, scaling["factor"], length, config.max_position_embeddings), 1.0
        if kind == "longrope":
            trained_length = scaling["original_max_position_embeddings"]
            factors = scaling["long_factor"] if length > trained_length else scaling["short_factor"]
            return longrope(base, width, factors), scaling["attention_factor"]
        if kind == "yarn" and not scaling.get("factor"):
            trained_length = scaling["original_max_position_embeddings"]
            scaling = {**scaling, "factor": config.max_position_embeddings / trained_length}
        return steady(base, width, scaling)
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
