"""RoPE settings that differ between layers with full attention and layers with a window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mindport.architectures.rope import Rope
from mindport.architectures.vocabulary import STRUCTURE, HFConfig, checked
from mindport.architectures.windows import FULL, SLIDING
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.schema import TransformerConfig


@dataclass(frozen=True)
class RopeByLayer:
    """ModernBERT's two bases, and one scaling for all layers.

    `global_rope_theta`, `local_rope_theta` and `rope_scaling` (transformers 4), or `rope_parameters` with settings for
    each type of layer (transformers 5).

    Args:
        full_base, sliding_base: what the config class assumes.
    """

    full_base: float
    sliding_base: float
    keys: tuple[str, ...] = ("global_rope_theta", "local_rope_theta", "rope_scaling", "rope_parameters")
    layer: str = STRUCTURE
    aliases: tuple[str, ...] = ()

    def decode(self, hf: HFConfig) -> dict[str, Any]:
        old, new = _object(hf, "rope_scaling"), _object(hf, "rope_parameters")
        if "type" in old and "rope_type" not in old:
            raise MindportError(
                tr("transformers 4 reads a rope_scaling that calls its kind `type`, transformers 5 ignores it."),
                tr("Call the kind `rope_type`."),
            )
        if set(new) - {FULL, SLIDING}:
            raise MindportError(
                tr("rope_parameters must hold settings for {full} and {sliding}.", full=FULL, sliding=SLIDING),
                tr("Correct it in config.json."),
            )
        base = _base(hf, "global_rope_theta", _object(new, FULL), self.full_base)
        # Null was to say "the same" in transformers 4.
        same = base if "local_rope_theta" in hf else self.sliding_base
        sliding_base = _base(hf, "local_rope_theta", _object(new, SLIDING), same)
        scaling, sliding_scaling = (_scaling(hf, _object(new, kind)) for kind in (FULL, SLIDING))
        if scaling != sliding_scaling:
            raise MindportError(
                tr("RoPE scalings that differ between full and sliding layers are not supported."),
                tr("Correct it in config.json."),
            )
        if old:
            if "rope_theta" in old:
                raise _disagreement("rope_scaling.rope_theta, global_rope_theta, local_rope_theta")
            if new and _scaling(hf, old) != scaling:
                raise _disagreement("rope_scaling, rope_parameters")
            scaling = _scaling(hf, old)
        return {
            "rotary_base": base,
            "sliding_rotary_base": None if sliding_base == base else sliding_base,
            "rope_scaling": scaling,
        }

    def encode(self, config: TransformerConfig) -> dict[str, Any]:
        # Both generations of transformers read the older spelling.
        base, sliding_base = config.rotary_base, config.sliding_rotary_base
        return {
            "global_rope_theta": base,
            "local_rope_theta": base if sliding_base is None else sliding_base,
            "rope_scaling": config.rope_scaling,
        }


def _base(hf: HFConfig, key: str, settings: Mapping[str, Any], assumed: float) -> float:
    """The base of one type of layer, which may stand in its settings or under `key`."""
    inner, outer = settings.get("rope_theta"), hf.get(key)
    if inner is not None and outer is not None and inner != outer:
        raise _disagreement(f"{key}, rope_parameters")
    base: float = checked(key, next((b for b in (inner, outer) if b is not None), assumed), float, 1)
    return base


def _scaling(hf: HFConfig, settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """The scaling that the settings of one type of layer ask for, in canonical form."""
    if settings.get("truncate") is False:
        raise MindportError(
            tr("transformers 4 reads `truncate` in the RoPE settings of this model_type, transformers 5 ignores it."),
            tr("Take it out."),
        )
    alone = {key: value for key, value in settings.items() if key != "rope_theta"}
    plain = {**hf, "rope_theta": 1.0, "rope_scaling": alone, "rope_parameters": None}
    scaling: dict[str, Any] | None = Rope().decode(plain)["rope_scaling"]
    return scaling


def _object(hf: HFConfig, key: str) -> dict[str, Any]:
    """A key that is an object; empty where it is null or not there."""
    value = hf.get(key)
    found: dict[str, Any] = {} if value is None else checked(key, value, dict)
    return found


def _disagreement(keys: str) -> MindportError:
    return MindportError(tr("{keys} are the same setting and disagree.", keys=keys), tr("Correct it in config.json."))
