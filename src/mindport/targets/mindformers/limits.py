"""What each graph of MindFormers cannot compute: a config has a place there only if nothing of it would be lost.

MindFormers reads on over most of what it does not know. So the rule here is the other way round: a field of
`TransformerConfig` that changes what a model computes, and for which the graph has no setting that works, must have
the value at which it changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, replace
from typing import Any

from mindport.errors import MindportError, brief
from mindport.i18n import tr
from mindport.schema import TransformerConfig
from mindport.schema.transformer_config import NUMERICS
from mindport.targets.mindformers.versions import FAMILIES, LEGACY, MCORE, VERSIONS, Family, Version

Required = Mapping[str, Any]
Check = Callable[[TransformerConfig, Version], Iterator[str]]

_FIELDS = {field.name: field for field in fields(TransformerConfig)}

_LLAMA_LIKE: Required = {
    "normalization": "RMSNorm",
    "gated_linear_unit": True,
    "activation_func": "silu",
    "add_mlp_bias": False,
    "window_size": None,
    "layer_types": None,
    "position_embedding_type": "rope",
    "rotary_percent": 1.0,
    "head": "causal_lm",
}
"""Of every graph here: what MindFormers' classes fix, or have a setting for that training does not follow."""

_MCORE: Required = {**_LLAMA_LIKE, "add_attention_output_bias": False}

_PLAIN: Required = {"multi_latent_attention": False, "rope_scaling": None, "rotary_interleaved": False}

_NO_EXPERTS: Required = {"num_moe_experts": 0, "mtp_num_layers": 0}

_LATENT: Required = {
    **_MCORE,
    "multi_latent_attention": True,
    "qk_layernorm": "none",
    "add_qkv_bias": False,
    "rotary_interleaved": True,
    "tie_word_embeddings": False,
    "moe_router_score_function": "sigmoid",
    "moe_router_enable_expert_bias": True,
}

REQUIRED: dict[tuple[str, str], Required] = {
    (MCORE, "qwen3"): {**_MCORE, **_PLAIN, **_NO_EXPERTS, "qk_layernorm": "head"},
    (MCORE, "qwen3_moe"): {
        **_MCORE,
        **_PLAIN,
        "qk_layernorm": "head",
        "mtp_num_layers": 0,
        "moe_layer_freq": None,
        "moe_shared_expert_intermediate_size": 0,
        "moe_router_score_function": "softmax",
        "moe_router_pre_softmax": True,
        "moe_router_num_groups": None,
        "moe_router_enable_expert_bias": False,
    },
    (MCORE, "deepseek_v3"): _LATENT,
    (MCORE, "telechat3"): {**_MCORE, **_PLAIN, **_NO_EXPERTS, "qk_layernorm": "none", "tie_word_embeddings": False},
    (MCORE, "telechat3_moe"): _LATENT,
    (LEGACY, "llama"): {
        **_LLAMA_LIKE,
        **_NO_EXPERTS,
        "multi_latent_attention": False,
        "qk_layernorm": "none",
        "rotary_interleaved": False,
    },
}
"""(generation, family) -> field -> the only value for which its training graph is right."""

_FREE: dict[str, tuple[str, ...]] = {
    MCORE: ("add_norm_bias", "head"),
    LEGACY: (
        "add_norm_bias",
        "head",
        "normalization",
        "gated_linear_unit",
        "activation_func",
        "q_lora_rank",
        "kv_lora_rank",
        "qk_head_dim",
        "qk_pos_emb_head_dim",
        "v_head_dim",
        "latent_layernorm_epsilon",
        "moe_router_pre_softmax",
    ),
}
"""Fields without a name in that generation that need none: REQUIRED says their value, or that models do not have what
they belong to."""

_ROPE_SINCE = {"linear": "1.0", "yarn": "1.3", "llama3": "1.3"}
"""Legacy: scaling -> first version with it."""


def within(config: TransformerConfig, seq_length: int) -> TransformerConfig:
    """The same model as far as sequences of no more than so many tokens show it.

    A window that no query can see beyond, and dynamic RoPE scaling below the length at which it begins, are nothing.
    """
    changes: dict[str, Any] = {}
    if config.window_size is not None and config.attention_mask_type == "causal" and seq_length <= config.window_size:
        changes.update(window_size=None, layer_types=None)
    scaling = config.rope_scaling or {}
    if scaling.get("rope_type") == "dynamic" and seq_length <= config.max_position_embeddings:
        changes["rope_scaling"] = None
    return replace(config, **changes)


def refusals(config: TransformerConfig, family: Family, version: Version) -> list[str]:
    """Why the training graph of a family does not compute this model; empty if it does.

    Every sentence is in the user's language.
    """
    if not family.trains(version):
        return [_absent(family, version)]
    required = REQUIRED.get((family.generation, family.name))
    if required is None:
        return [tr("Mindport has no weight layout for {family} ({generation}) of MindFormers.", **_named(family))]
    meanings = TransformerConfig.describe()
    found = [
        tr(
            "{family} ({generation}) cannot express {field} = {value}, which is: {meaning}.",
            field=name,
            value=brief(getattr(config, name)),
            meaning=meanings[name],
            **_named(family),
        )
        for name, value in {**_neutral(family.generation), **required}.items()
        if getattr(config, name) != value
    ]
    checks = _CHECKS[family.generation]
    return found + [reason for check in checks for reason in check(config, version)]


def family_for(config: TransformerConfig, version: Version, generation: str) -> Family:
    """The family whose training graph computes this model; of several, the first in the table of families.

    Raises:
        MindportError: there is none; with the reasons of the one that comes closest.
    """
    reasons = [(family, refusals(config, family, version)) for family in version.families(generation)]
    for family, found in reasons:
        if not found:
            return family
    elsewhere = ways(config)
    fix = tr("It has a place in {ways}.", ways=", ".join(" ".join(way) for way in elsewhere)) if elsewhere else ""
    if not reasons:
        message = tr(
            "MindFormers {version} trains nothing in its {generation} generation.",
            version=version.name,
            generation=generation,
        )
        raise MindportError(message, fix)
    later = [family for family in FAMILIES if family.generation == generation and _later(config, family, version)]
    nearest = min(reasons, key=lambda pair: ((generation, pair[0].name) not in REQUIRED, len(pair[1])))[1]
    raise MindportError(
        tr(
            "No training graph of MindFormers {version} ({generation}) computes this model: {reasons}",
            version=version.name,
            generation=generation,
            reasons=_absent(later[0], version) if later else " ".join(nearest),
        ),
        fix,
    )


def _later(config: TransformerConfig, family: Family, version: Version) -> bool:
    """Whether a later version has this family, and would compute the model."""
    if family.trained_since is None or family.trains(version):
        return False
    return not refusals(config, family, VERSIONS[family.trained_since])


def ways(config: TransformerConfig) -> list[tuple[str, str]]:
    """Every (version, generation) that has a training graph for this model, new versions first."""
    return [
        (version.name, generation)
        for version in reversed(VERSIONS.values())
        for generation in version.generations
        if any(not refusals(config, family, version) for family in version.families(generation))
    ]


def _named(family: Family) -> dict[str, str]:
    return {"family": family.name, "generation": family.generation}


def _absent(family: Family, version: Version) -> str:
    if family.trained_since is None:
        return tr("{family} ({generation}) of MindFormers has no training graph.", **_named(family))
    return tr(
        "{family} ({generation}) can be trained from MindFormers {since} on, not in {version}.",
        since=family.trained_since,
        version=version.name,
        **_named(family),
    )


def _neutral(generation: str) -> dict[str, Any]:
    """Fields that change what a model computes and have no name there -> the value at which they change nothing."""
    return {
        name: field.default
        for name, field in _FIELDS.items()
        if field.metadata["effect"] == NUMERICS
        and not field.metadata[generation]
        and field.default is not MISSING
        and name not in _FREE[generation]
    }


def _heads(config: TransformerConfig, _: Version) -> Iterator[str]:
    if not config.multi_latent_attention and config.hidden_size % config.num_attention_heads:
        yield tr(
            "hidden_size = {width} must be a multiple of num_attention_heads = {count}, even where heads have a "
            "width of their own.",
            width=config.hidden_size,
            count=config.num_attention_heads,
        )


def _scale(config: TransformerConfig, _: Version) -> Iterator[str]:
    wanted = config.kv_channels**-0.5
    scaling = config.rope_scaling or {}
    if config.multi_latent_attention and scaling.get("mscale_all_dim") and scaling["factor"] > 1:
        wanted *= (0.1 * scaling["mscale_all_dim"] * math.log(scaling["factor"]) + 1) ** 2
    if not math.isclose(config.softmax_scale, wanted, rel_tol=1e-6):
        yield tr(
            "Attention scores are scaled by {wanted:.6g} there, not by {scale:.6g}.",
            wanted=wanted,
            scale=config.softmax_scale,
        )


def _latent_rope(config: TransformerConfig, _: Version) -> Iterator[str]:
    scaling = config.rope_scaling
    if not config.multi_latent_attention or scaling is None:
        return
    if scaling["rope_type"] != "yarn":
        yield tr("With RoPE scaling {kind}, training has no RoPE at all there.", kind=scaling["rope_type"])
        return
    # One pair of settings makes both the softmax scale (from mscale) and cos and sin (from mscale / mscale_all_dim).
    if not scaling.get("mscale") or scaling.get("mscale") != scaling.get("mscale_all_dim"):
        yield tr("YaRN is right there only where mscale and mscale_all_dim are given and equal.")
    yield from _yarn_extras(scaling)


def _yarn_extras(scaling: Mapping[str, Any]) -> Iterator[str]:
    if scaling.get("attention_factor") is not None:
        yield tr("There is no setting for YaRN's {key}.", key="attention_factor")
    if scaling.get("truncate") is False:
        yield tr("There is no setting for YaRN's {key}.", key="truncate = false")


def _latent_parts(config: TransformerConfig, _: Version) -> Iterator[str]:
    if not config.multi_latent_attention:
        return
    if config.latent_layernorm_epsilon != config.layernorm_epsilon:
        yield tr(
            "All norms have one epsilon there; this model has {latent:g} in the norms of its latents, else {other:g}.",
            latent=config.latent_layernorm_epsilon,
            other=config.layernorm_epsilon,
        )
    if config.kv_channels < config.v_head_dim:
        yield tr("v_head_dim may not be larger than qk_head_dim + qk_pos_emb_head_dim there.")
    if config.mtp_num_layers > 1:
        yield tr(
            "There is at most one module for multi-token prediction there; this model has {count}.",
            count=config.mtp_num_layers,
        )


def _groups(config: TransformerConfig, _: Version) -> Iterator[str]:
    groups, topk = config.moe_router_num_groups or 1, config.moe_router_group_topk or 1
    if config.num_moe_experts and groups > 1 and (config.moe_router_topk % topk or config.moe_router_topk // topk != 2):
        yield tr(
            "Groups of experts are ranked there by their best moe_router_topk / moe_router_group_topk = {found:g} "
            "experts, in this model by their best 2.",
            found=config.moe_router_topk / topk,
        )


def _single_expert(config: TransformerConfig, _: Version) -> Iterator[str]:
    if config.num_moe_experts and config.moe_router_topk == 1 and config.norm_topk_prob:
        yield tr("The weight of a token's only expert is not divided by itself there, as norm_topk_prob means here.")


def _first_mcore(config: TransformerConfig, version: Version) -> Iterator[str]:
    if config.num_moe_experts and version.order < (1, 7):
        yield tr("MindFormers {version} keeps experts in a shape that Mindport cannot write.", version=version.name)


def _legacy_width(config: TransformerConfig, _: Version) -> Iterator[str]:
    if config.kv_channels * config.num_attention_heads != config.hidden_size:
        yield tr(
            "Heads are hidden_size / num_attention_heads = {wanted:g} wide there, not {width}.",
            wanted=config.hidden_size / config.num_attention_heads,
            width=config.kv_channels,
        )


def _legacy_rope(config: TransformerConfig, version: Version) -> Iterator[str]:
    scaling = config.rope_scaling
    if scaling is None:
        return
    if scaling["rope_type"] == "dynamic":
        yield tr("Training leaves dynamic RoPE scaling out; up to max_position_embeddings tokens it changes nothing.")
        return
    since = _ROPE_SINCE.get(scaling["rope_type"])
    if since is None:
        yield tr("RoPE scaling {kind} does not exist there.", kind=scaling["rope_type"])
    elif version.order < VERSIONS[since].order:
        yield tr("RoPE scaling {kind} exists from MindFormers {since} on.", kind=scaling["rope_type"], since=since)
    yield from _yarn_extras(scaling)


def _legacy_settings(config: TransformerConfig, version: Version) -> Iterator[str]:
    if config.tie_word_embeddings and version.order < (1, 3):
        yield tr("{field} exists from MindFormers {since} on.", field="tie_word_embeddings", since="1.3")
    if config.add_attention_output_bias and version.order < (1, 6):
        yield tr("{field} exists from MindFormers {since} on.", field="attn_proj_has_bias", since="1.6")


_CHECKS: dict[str, tuple[Check, ...]] = {
    MCORE: (_heads, _scale, _latent_rope, _latent_parts, _groups, _single_expert, _first_mcore),
    LEGACY: (_legacy_width, _scale, _legacy_rope, _legacy_settings),
}
