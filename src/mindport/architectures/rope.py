"""RoPE settings of a Hugging Face config: three spellings of two things, a base and a scaling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mindport.architectures.vocabulary import STRUCTURE, HFConfig, checked
from mindport.errors import MindportError, brief
from mindport.i18n import tr
from mindport.schema import TransformerConfig

_REQUIRED = {
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
    "yarn": ("factor",),
    "longrope": ("short_factor", "long_factor"),
}
_OPTIONAL = {
    "default": (),
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
    "longrope": ("attention_factor", "factor", "original_max_position_embeddings"),
}
_VALUES: dict[str, tuple[type, float | None]] = {
    "factor": (float, 1),
    "low_freq_factor": (float, 0),
    "high_freq_factor": (float, 0),
    "original_max_position_embeddings": (int, 1),
    "attention_factor": (float, 0),
    "beta_fast": (float, 0),
    "beta_slow": (float, 0),
    "mscale": (float, 0),
    "mscale_all_dim": (float, 0),
    "truncate": (bool, None),
    "short_factor": (list, None),
    "long_factor": (list, None),
}
"""Key of a scaling -> type and least value."""


@dataclass(frozen=True)
class Rope:
    """`rope_theta` + `rope_scaling` (transformers 4) or `rope_parameters` (transformers 5).

    The canonical scaling keeps the keys of its kind and names the kind `rope_type`; no scaling is None.

    Args:
        kinds: scalings that the class has.
        assumed: the scaling of the class, where a config says nothing of one; it then has to say so to have none.
    """

    assumed: Mapping[str, Any] | None = None
    keys: tuple[str, ...] = ("rope_theta", "rope_scaling", "rope_parameters")
    layer: str = STRUCTURE
    aliases: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ("default", "linear", "dynamic", "llama3", "yarn")

    def decode(self, hf: HFConfig) -> dict[str, Any]:
        new, old = (self._dict(hf, key) for key in ("rope_parameters", "rope_scaling"))
        bases = {d["rope_theta"] for d in (new, old) if isinstance(d.get("rope_theta"), int | float)}
        if new and old and (_scaling(new) != _scaling(old) or len(bases) > 1):
            raise MindportError(
                tr("{keys} are the same setting and disagree.", keys="rope_scaling, rope_parameters"),
                tr("Correct it in config.json."),
            )
        # transformers 5 reads a base that stands among the scaling, transformers 4 only the one outside.
        if not new and old.get("rope_theta") is not None and old["rope_theta"] != hf["rope_theta"]:
            raise MindportError(
                tr("{keys} are the same setting and disagree.", keys="rope_theta, rope_scaling.rope_theta"),
                tr("Correct it in config.json."),
            )
        scaling = dict(new or old or self._assumed(hf))
        theta = scaling.pop("rope_theta", None)
        theta = checked("rope_theta", hf["rope_theta"] if theta is None else theta, float, 1)
        kinds = [kind for kind in (scaling.pop("rope_type", None), scaling.pop("type", None)) if kind]
        kind = checked("rope_type", kinds[0], str) if kinds else "default"
        if kinds and kinds[-1] != kind:
            raise MindportError(
                tr("{keys} are the same setting and disagree.", keys="rope_type, type"),
                tr("Correct it in config.json."),
            )
        if kind not in self.kinds:
            raise MindportError(
                tr("RoPE scaling {kind} is not supported.", kind=brief(kind)),
                tr("Supported values: {allowed}.", allowed=", ".join(self.kinds)),
            )
        missing = [key for key in _REQUIRED[kind] if scaling.get(key) is None]
        unknown = sorted(set(scaling) - set(_REQUIRED[kind]) - set(_OPTIONAL[kind]))
        if missing or unknown:
            raise MindportError(
                tr(
                    "RoPE scaling {kind} lacks [{missing}] and has unknown keys [{unknown}].",
                    kind=kind,
                    missing=", ".join(missing),
                    unknown=", ".join(unknown),
                ),
                tr("Correct it in config.json."),
            )
        if kind == "default":
            return {"rotary_base": theta, "rope_scaling": None}
        for key, value in scaling.items():
            if value is not None:
                scaling[key] = checked(key, value, *_VALUES[key])
        if kind == "llama3" and scaling["low_freq_factor"] >= scaling["high_freq_factor"]:
            raise MindportError(
                tr("{low} must be less than {high}.", low="low_freq_factor", high="high_freq_factor"),
                tr("Correct it in config.json."),
            )
        if kind == "yarn" and scaling.get("original_max_position_embeddings") is None:
            scaling["original_max_position_embeddings"] = hf["max_position_embeddings"]
        return {"rotary_base": theta, "rope_scaling": {"rope_type": kind, **scaling}}

    def encode(self, config: TransformerConfig) -> dict[str, Any]:
        # Both generations of transformers read the older spelling.
        nothing = {"rope_type": "default"} if self.assumed else None
        return {"rope_theta": config.rotary_base, "rope_scaling": config.rope_scaling or nothing}

    def _assumed(self, hf: HFConfig) -> Mapping[str, Any]:
        if self.assumed is None:
            return {}
        for key in ("rope_parameters", "rope_scaling"):
            if key in hf:
                raise MindportError(
                    tr(
                        "{key} = {value} is no scaling in transformers 4, and the class's own in 5.",
                        key=key,
                        value=hf[key],
                    ),
                    tr('Write out which is meant in config.json; a rope_type of "default" is no scaling.'),
                )
        return self.assumed

    def _dict(self, hf: HFConfig, key: str) -> Mapping[str, Any]:
        value = hf.get(key)
        return {} if value is None else checked(key, value, dict)


def _scaling(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The scaling alone, with its kind under one name."""
    return {"rope_type" if key == "type" else key: value for key, value in settings.items() if key != "rope_theta"}
