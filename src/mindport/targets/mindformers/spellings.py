"""Spellings of values: where MindFormers says something otherwise than `TransformerConfig` does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from mindport.schema import TransformerConfig

Section = Mapping[str, Any]


class Spelling(Protocol):
    """How a canonical field is written, and read back.

    `also` names further canonical fields that it reads or writes, `keys` the YAML keys it uses besides its own.
    """

    @property
    def also(self) -> tuple[str, ...]: ...

    @property
    def keys(self) -> tuple[str, ...]: ...

    def write(self, key: str, field: str, config: TransformerConfig) -> dict[str, Any]:
        """Key -> value."""
        ...

    def read(self, key: str, field: str, section: Section, found: Mapping[str, Any]) -> dict[str, Any]:
        """Canonical field -> value, from a section that has the key, given the fields found so far."""
        ...


@dataclass(frozen=True)
class Same:
    """The value as it is."""

    also: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    def write(self, key: str, field: str, config: TransformerConfig) -> dict[str, Any]:
        return {key: getattr(config, field)}

    def read(self, key: str, field: str, section: Section, found: Mapping[str, Any]) -> dict[str, Any]:
        return {field: section[key]}


@dataclass(frozen=True)
class Padding(Same):
    """A model without a padding token gets an id that no token has: every class has a default that would be one."""

    def write(self, key: str, field: str, config: TransformerConfig) -> dict[str, Any]:
        value = getattr(config, field)
        return {key: -1 if value is None else value}

    def read(self, key: str, field: str, section: Section, found: Mapping[str, Any]) -> dict[str, Any]:
        return {field: None if section[key] == -1 else section[key]}


METHODS = {"linear": "PI", "dynamic": "DYNAMIC_NTK", "yarn": "YARN", "llama3": "LLAMA3"}
"""Kind of RoPE scaling -> `extend_method` of the legacy generation. Its own `linear` and `NTK` are something else."""

METHODS_SINCE = {"linear": "1.0", "llama3": "1.3", "yarn": "1.3", "dynamic": "1.6"}
"""Kind of RoPE scaling -> first version whose legacy graph has it."""

_ONE_NUMBER = ("PI", "DYNAMIC_NTK")


@dataclass(frozen=True)
class LegacyRope(Same):
    """`extend_method` and `scaling_factor`, the latter a number or a dict."""

    keys: tuple[str, ...] = ("scaling_factor",)

    def write(self, key: str, field: str, config: TransformerConfig) -> dict[str, Any]:
        scaling = config.rope_scaling
        if scaling is None:
            return {key: "None", "scaling_factor": 1.0}
        method = METHODS[scaling["rope_type"]]
        settings = {name: value for name, value in scaling.items() if name != "rope_type"}
        if method in _ONE_NUMBER:
            return {key: method, "scaling_factor": settings["factor"]}
        if method == "YARN":
            settings = _yarn(settings)
        return {key: method, "scaling_factor": settings}

    def read(self, key: str, field: str, section: Section, found: Mapping[str, Any]) -> dict[str, Any]:
        method, settings = section[key], section.get("scaling_factor", 1.0)
        kind = next((kind for kind, name in METHODS.items() if name == method), None)
        if kind is None:
            return {field: None if method in ("None", None) else {"rope_type": method, "factor": settings}}
        if not isinstance(settings, Mapping):
            return {field: {"rope_type": kind, "factor": float(settings)}}
        return {field: {"rope_type": kind, **(_plain_yarn(settings) if kind == "yarn" else settings)}}


def _yarn(settings: Mapping[str, Any]) -> dict[str, Any]:
    """YaRN with everything said. Hugging Face reads the two mscales only where both are there, and neither is 0."""
    both = settings.get("mscale") and settings.get("mscale_all_dim")
    return {
        "factor": settings["factor"],
        "beta_fast": _or(settings.get("beta_fast"), 32.0),
        "beta_slow": _or(settings.get("beta_slow"), 1.0),
        "mscale": settings["mscale"] if both else 1.0,
        "mscale_all_dim": settings["mscale_all_dim"] if both else 0.0,
        "original_max_position_embeddings": settings["original_max_position_embeddings"],
    }


def _plain_yarn(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Without what says no more than the defaults do."""
    plain = {"beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 0.0}
    bare = all(settings.get(name) == plain[name] for name in ("mscale", "mscale_all_dim"))
    return {
        name: value
        for name, value in settings.items()
        if not (bare and name.startswith("mscale")) and not (name.startswith("beta") and value == plain[name])
    }


def _or(value: Any, default: float) -> Any:
    return default if value is None else value


@dataclass(frozen=True)
class LatentRope(Same):
    """YaRN of latent attention, or none: then the factor is 1, as the class's own 40 would scale the softmax."""

    keys: tuple[str, ...] = ("rotary_scaling_factor", "position_embedding_type")

    def write(self, key: str, field: str, config: TransformerConfig) -> dict[str, Any]:
        if config.rope_scaling is None:
            return {"position_embedding_type": "rope", "rotary_scaling_factor": 1.0}
        settings = _yarn(config.rope_scaling)
        return {"position_embedding_type": "yarn", key: {"type": config.rope_scaling["rope_type"], **settings}}

    def read(self, key: str, field: str, section: Section, found: Mapping[str, Any]) -> dict[str, Any]:
        settings = section.get(key)
        if settings is None:
            return {field: None}
        kind = settings.get("type") or settings.get("rope_type")
        rest = {name: value for name, value in settings.items() if name not in ("type", "rope_type")}
        return {field: {"rope_type": kind, **_plain_yarn(rest)}}


@dataclass(frozen=True)
class PlainRope(Same):
    """A scaling as it is, and null for none."""

    def read(self, key: str, field: str, section: Section, found: Mapping[str, Any]) -> dict[str, Any]:
        settings = section[key]
        if settings is None or "type" not in settings:
            return {field: settings}
        rest = {name: value for name, value in settings.items() if name != "type"}
        return {field: {"rope_type": settings["type"], **rest}}


@dataclass(frozen=True)
class SharedExperts(Same):
    """The shared expert's width as a multiple of a routed one's."""

    def write(self, key: str, field: str, config: TransformerConfig) -> dict[str, Any]:
        return {key: config.moe_shared_expert_intermediate_size // config.moe_ffn_hidden_size}

    def read(self, key: str, field: str, section: Section, found: Mapping[str, Any]) -> dict[str, Any]:
        return {field: section[key] * found["moe_ffn_hidden_size"]}


@dataclass(frozen=True)
class SparseLayers(Same):
    """`first_k_dense_replace` where layers without experts come first; else, for each layer, `moe_layer_freq`, a list.

    MindFormers 1.6 takes no list beside the former, and later versions ask that both say the same.
    """

    keys: tuple[str, ...] = ("moe_layer_freq",)

    def write(self, key: str, field: str, config: TransformerConfig) -> dict[str, Any]:
        layers = config.moe_layer_freq
        if layers is None:
            return {key: 0, "moe_layer_freq": 1}
        dense = layers.index(1) if 1 in layers else len(layers)
        leading = layers == [0] * dense + [1] * (len(layers) - dense)
        return {key: dense, "moe_layer_freq": 1} if leading else {key: 0, "moe_layer_freq": layers}

    def read(self, key: str, field: str, section: Section, found: Mapping[str, Any]) -> dict[str, Any]:
        layers, dense = section.get("moe_layer_freq", 1), section.get(key) or 0
        if not isinstance(layers, list):
            count = found["num_layers"]
            layers = [int(layer >= dense and layer % (layers or 1) == 0) for layer in range(count)]
        return {field: None if all(layers) else layers}


@dataclass(frozen=True)
class Modules(Same):
    """Modules for multi-token prediction, with the weight of their loss, without which MindFormers stops."""

    keys: tuple[str, ...] = ("mtp_loss_factor",)

    def write(self, key: str, field: str, config: TransformerConfig) -> dict[str, Any]:
        loss = {"mtp_loss_factor": MTP_LOSS} if config.mtp_num_layers else {}
        return {key: config.mtp_num_layers, **loss}


MTP_LOSS = 0.3
"""Weight of the loss of multi-token prediction, as in the report on DeepSeek-V3 for most of its training."""

PADDING, LEGACY_ROPE, MLA_ROPE, SCALING = Padding(), LegacyRope(), LatentRope(), PlainRope()
SHARED, SPARSE, MODULES = SharedExperts(), SparseLayers(), Modules()
