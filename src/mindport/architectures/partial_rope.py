"""RoPE settings of classes that turn only a part of each head, and LongRoPE's two lists of factors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from mindport.architectures.common import head_width
from mindport.architectures.rope import Rope
from mindport.architectures.vocabulary import HFConfig, checked
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.schema import TransformerConfig

PART = "partial_rotary_factor"
LENGTH = "original_max_position_embeddings"


@dataclass(frozen=True)
class PartialRope(Rope):
    """RoPE on the first part of each head: `partial_rotary_factor`, among the other settings or beside them.

    Args:
        default: the part where a file does not say. (A class default would hide whether it does.)
    """

    keys: tuple[str, ...] = (*Rope.keys, PART)
    default: float = 1.0

    def decode(self, hf: HFConfig) -> dict[str, Any]:
        said = [hf[PART]] if PART in hf else []
        others = dict(hf)
        for key in ("rope_scaling", "rope_parameters"):
            others[key] = self._settings(hf, key)
            said += [others[key].pop(PART)] if PART in others[key] else []
        parts = {checked(PART, part, float, 0, 1) for part in said or [self.default]}
        part, width = next(iter(parts)), head_width(hf)
        if len(parts) > 1:
            raise MindportError(
                tr("{keys} are the same setting and disagree.", keys=f"{PART}, rope_parameters.{PART}"),
                tr("Correct it in config.json."),
            )
        turned = int(width * part)
        if turned < 2 or turned % 2:
            raise MindportError(
                tr(
                    "{key} = {value} turns {turned} of {width} channels.",
                    key=PART,
                    value=part,
                    turned=turned,
                    width=width,
                ),
                tr("RoPE turns pairs: give a part of each head that is an even number of channels."),
            )
        return {**super().decode(others), "rotary_percent": part}

    def encode(self, config: TransformerConfig) -> dict[str, Any]:
        return {**super().encode(config), PART: config.rotary_percent}

    def _settings(self, hf: HFConfig, key: str) -> dict[str, Any]:
        """One of the two spellings of the settings, as the file has it."""
        return dict(self._dict(hf, key))


@dataclass(frozen=True)
class LongRope(PartialRope):
    """Phi-3's RoPE: plain, or LongRoPE (Ding et al., 2024).

    The frequency of each pair is divided by a factor of its own, from one list for sequences of up to
    `original_max_position_embeddings` and from another for longer ones.
    """

    keys: tuple[str, ...] = (*PartialRope.keys, LENGTH)
    kinds: tuple[str, ...] = ("default", "longrope")

    def decode(self, hf: HFConfig) -> dict[str, Any]:
        decoded = super().decode(hf)
        scaling = decoded["rope_scaling"]
        if scaling is None:
            return decoded
        pairs = int(head_width(hf) * decoded["rotary_percent"]) // 2
        lists = {key: _factors(key, scaling[key], pairs) for key in ("short_factor", "long_factor")}
        length = checked(LENGTH, hf[LENGTH], int, 2)
        if scaling.get(LENGTH) not in (None, length):
            raise MindportError(
                tr("{keys} are the same setting and disagree.", keys=f"{LENGTH}, rope_scaling.{LENGTH}"),
                tr("Correct it in config.json."),
            )
        given = scaling.get("attention_factor")
        times = scaling.get("factor") or hf["max_position_embeddings"] / length
        canonical = {
            "rope_type": "longrope",
            **lists,
            LENGTH: length,
            "attention_factor": attention_factor(times, length) if given is None else given,
        }
        return {**decoded, "rope_scaling": canonical}

    def encode(self, config: TransformerConfig) -> dict[str, Any]:
        encoded, scaling = super().encode(config), config.rope_scaling
        if scaling is None or scaling["rope_type"] != "longrope":
            return encoded
        length, factor = scaling[LENGTH], scaling.get("attention_factor")
        # Without the factor where it follows from the lengths, and the kind as `type`: transformers 4 knows just this.
        derived = factor in (None, attention_factor(config.max_position_embeddings / length, length))
        written = {
            "type": "longrope",
            "short_factor": scaling["short_factor"],
            "long_factor": scaling["long_factor"],
            **({} if derived else {"attention_factor": factor}),
        }
        return {**encoded, "rope_scaling": written, LENGTH: length}

    def _settings(self, hf: HFConfig, key: str) -> dict[str, Any]:
        # The first release called the kind "su".
        settings = super()._settings(hf, key)
        return {k: "longrope" if k in ("type", "rope_type") and v == "su" else v for k, v in settings.items()}


def _factors(key: str, factors: list[Any], count: int) -> list[float]:
    if len(factors) != count:
        raise MindportError(
            tr("LongRoPE has {given} factors for {count} frequencies.", given=len(factors), count=count),
            tr("Correct it in config.json."),
        )
    return [checked(key, factor, float, _LEAST) for factor in factors]


_LEAST = 1e-6
"""Of the factors, by which frequencies are divided."""


def attention_factor(times: float, length: int) -> float:
    """LongRoPE's factor on cos and sin, for sequences so many times longer than the trained `length`."""
    return math.sqrt(1 + math.log(times) / math.log(length)) if times > 1 else 1.0
