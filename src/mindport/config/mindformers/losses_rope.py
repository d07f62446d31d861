"""Silent losses about positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mindport.config.mindformers.case import CONVERTED, LATENT, QWEN, TELECHAT, Case, Check, Hit
from mindport.targets.mindformers.spellings import METHODS, METHODS_SINCE
from mindport.targets.mindformers.versions import LEGACY, MCORE, version_named

_SETTINGS = (
    *("type", "rope_type", "factor", "original_max_position_embeddings"),
    *("beta_fast", "beta_slow", "mscale", "mscale_all_dim", "rope_theta"),
)
"""Keys of a `rope_scaling` that MindFormers computes with."""


def _scaling(case: Case) -> Mapping[str, Any]:
    value = case.get("rope_scaling", {})
    return value if isinstance(value, Mapping) else {}


def _kind(case: Case) -> str | None:
    scaling = _scaling(case)
    return scaling.get("type") or scaling.get("rope_type")


def _rope_parameters(case: Case) -> Iterator[Hit]:
    if "rope_parameters" in case.whole:
        yield case.place("rope_parameters"), case.whole["rope_parameters"]


def _no_rope(case: Case) -> Iterator[Hit]:
    kind = _kind(case)
    if kind not in (None, "default", "yarn"):
        yield case.place("rope_scaling"), kind


def _yarn_without_latents(case: Case) -> Iterator[Hit]:
    if _kind(case) == "yarn" or case.get("position_embedding_type") == "yarn":
        yield case.place("rope_scaling" if _kind(case) else "position_embedding_type"), "yarn"


def _no_factor(case: Case) -> Iterator[Hit]:
    if _scaling(case) and "factor" not in _scaling(case):
        yield case.place("rope_scaling"), _kind(case)


def _factor_of_forty(case: Case) -> Iterator[Hit]:
    if case.complete and not _scaling(case) and case.get("position_embedding_type", "rope") != "yarn":
        key, value = case.first("rotary_scaling_factor", "factor")
        if value != 1:
            yield case.place(key), value


def _yarn(case: Case) -> Mapping[str, Any]:
    return _scaling(case) if _kind(case) == "yarn" else {}


def _original_positions(case: Case) -> Iterator[Hit]:
    scaling = _yarn(case)
    if scaling and not scaling.get("original_max_position_embeddings"):
        yield case.place("rope_scaling"), None


def _mscales(case: Case) -> Iterator[Hit]:
    scaling = _yarn(case)
    pair = (scaling.get("mscale"), scaling.get("mscale_all_dim"))
    if scaling and (not pair[0] or pair[0] != pair[1]):
        yield case.place("rope_scaling"), f"mscale {pair[0]}, mscale_all_dim {pair[1]}"


def _without_effect(case: Case) -> Iterator[Hit]:
    for key, value in _scaling(case).items():
        if key not in _SETTINGS and value is not None and value is not True:
            yield f"{case.place('rope_scaling')}.{key}", value


def _legacy_method(case: Case) -> Iterator[Hit]:
    method = case.get("extend_method", "None")
    kind = next((kind for kind, name in METHODS.items() if name == method), None)
    if kind and case.version.order < version_named(METHODS_SINCE[kind]).order:
        yield case.place("extend_method"), method


def _base_of_the_class(case: Case) -> Iterator[Hit]:
    if case.complete and case.first("rope_theta", "rotary_base", "theta")[1] is None:
        yield case.place("rope_theta"), None


def _scaling_factor(case: Case) -> Iterator[Hit]:
    if "scaling_factor" in case.section and case.get("rotary_scaling_factor") is None and not _scaling(case):
        yield case.place("scaling_factor"), case.section["scaling_factor"]


CHECKS = (
    Check(
        "MF010",
        "rope_parameters, as transformers 5 has it, is not read: the base is the class's own, or MindFormers stops",
        "write rope_theta and rope_scaling in the YAML, and take rope_parameters out of config.json",
        _rope_parameters,
        CONVERTED,
        plugin=False,
        source="1.5",
        training=False,
    ),
    Check(
        "MF011",
        "a RoPE scaling other than YaRN switches RoPE off altogether",
        "take the legacy generation, whose extend_method has it; or train without a scaling",
        _no_rope,
        CONVERTED,
        plugin=False,
        source="1.1",
    ),
    Check(
        "MF012",
        "YaRN without latent attention stops with an AttributeError",
        "take the legacy generation with extend_method YARN",
        _yarn_without_latents,
        (MCORE,),
        (*QWEN, "telechat3"),
        source="7",
    ),
    Check(
        "MF013",
        "a rope_scaling without a factor, such as the type default, stops with a KeyError",
        "take rope_scaling out: no scaling is the default",
        _no_factor,
        CONVERTED,
        plugin=False,
        source="1.1",
    ),
    Check(
        "MF014",
        "without a RoPE scaling the class's rotary_scaling_factor of 40 still scales the softmax",
        "write rotary_scaling_factor: 1.0",
        _factor_of_forty,
        CONVERTED,
        LATENT,
        source="7",
    ),
    Check(
        "MF015",
        "YaRN without original_max_position_embeddings takes seq_length in its place",
        "write original_max_position_embeddings into rope_scaling",
        _original_positions,
        CONVERTED,
        LATENT,
        source="1.1",
    ),
    Check(
        "MF016",
        "MindFormers scales the softmax by mscale (0.707 where it is missing), Hugging Face by mscale_all_dim",
        "give both, and alike",
        _mscales,
        CONVERTED,
        LATENT,
    ),
    Check(
        "MF017",
        "this key of rope_scaling is kept and never computed with",
        "a model that needs it cannot be trained with this graph; else take the key out",
        _without_effect,
        CONVERTED,
        plugin=False,
        source="1.1",
    ),
    Check(
        "MF018",
        "this version has no such extend_method and trains without the scaling",
        "take a newer version of MindFormers",
        _legacy_method,
        (LEGACY,),
    ),
    Check(
        "MF019",
        "without rope_theta the base is the class's own, 10000",
        "write rope_theta",
        _base_of_the_class,
        CONVERTED,
        (*QWEN, *LATENT, *TELECHAT),
        source="1.5",
    ),
    Check(
        "MF020",
        "scaling_factor is on the list of keys that are passed over: nothing is scaled by it",
        "write rotary_scaling_factor, or a rope_scaling",
        _scaling_factor,
        CONVERTED,
    ),
)
