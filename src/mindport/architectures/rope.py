"""RoPE settings of a Hugging Face config: three spellings of two things, a base and a scaling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mindport.architectures.vocabulary import STRUCTURE, HFConfig, checked
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.schema import TransformerConfig

_REQUIRED = {
    "linear": ("factor",),
    "dynamic": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
    "yarn": ("factor",),
}
_OPTIONAL = {
    "linear": (),
    "dynamic": (),
    "llama3": (),
    "yarn": (
        "attention_factor",
        "beta_fast",
        "beta_slow",
        "mscale",
        "mscale_all_dim",
        "original_max_position_embeddings",
        "truncate",
    ),
}


@dataclass(frozen=True)
class Rope:
    """`rope_theta` + `rope_scaling` (transformers 4) or `rope_parameters` (transformers 5).

    The canonical scaling keeps the keys of its kind and names the kind `rope_type`; no scaling is None.
    """

    keys: tuple[str, ...] = ("rope_theta", "rope_scaling", "rope_parameters")
    layer: str = STRUCTURE
    aliases: tuple[str, ...] = ()

    def decode(self, hf: HFConfig) -> dict[str, Any]:
        new, old = (self._dict(hf, key) for key in ("rope_parameters", "rope_scaling"))
        scaling = dict(new or old)
        theta = scaling.pop("rope_theta", None)
        if theta is None:
            theta = hf["rope_theta"]
        theta = checked("rope_theta", theta, float, 1)
        kind = scaling.pop("rope_type", None) or scaling.get("type") or "default"
        scaling.pop("type", None)
        if kind == "default" and not scaling:
            return {"rotary_base": theta, "rope_scaling": None}
        if kind not in _REQUIRED:
            raise MindportError(
                tr("RoPE scaling {kind!r} is not supported.", kind=kind),
                tr("Supported values: {allowed}.", allowed=", ".join(["default", *_REQUIRED])),
            )
        missing = [key for key in _REQUIRED[kind] if scaling.get(key) is None]
        unknown = sorted(set(scaling) - set(_REQUIRED[kind]) - set(_OPTIONAL[kind]))
        if missing or unknown:
            raise MindportError(
                tr(
                    "RoPE scaling {kind!r} lacks [{missing}] and has unknown keys [{unknown}].",
                    kind=kind,
                    missing=", ".join(missing),
                    unknown=", ".join(unknown),
                ),
                tr("Correct it in config.json."),
            )
        for key, value in scaling.items():
            if key not in ("truncate", "original_max_position_embeddings") and value is not None:
                scaling[key] = checked(key, value, float)
        if kind == "yarn":
            scaling.setdefault("original_max_position_embeddings", hf["max_position_embeddings"])
        return {"rotary_base": theta, "rope_scaling": {"rope_type": kind, **scaling}}

    def encode(self, config: TransformerConfig) -> dict[str, Any]:
        # Both generations of transformers read the older spelling.
        return {"rope_theta": config.rotary_base, "rope_scaling": config.rope_scaling}

    def _dict(self, hf: HFConfig, key: str) -> Mapping[str, Any]:
        value = hf.get(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise MindportError(
                tr("{key} must be {kind}, not {value!r}.", key=key, kind=tr("an object"), value=value),
                tr("Correct it in config.json."),
            )
        return value
