"""Whether a training graph of MindFormers computes a given model; if not, every reason.

MindFormers reads on over most of what it does not know. So the rule here is the other way round: a field of
`TransformerConfig` that the graph has no key for (`graphs`) must have the value that the graph always has, or the value
at which the field changes nothing. The checks below add what no single field shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, replace
from typing import Any

from mindport.errors import brief
from mindport.i18n import tr
from mindport.plugin.families import SCALINGS
from mindport.schema import TransformerConfig
from mindport.schema.transformer_config import TRAINING
from mindport.targets.mindformers.graphs import FREE, GRAPHS, Graph
from mindport.targets.mindformers.spellings import METHODS, METHODS_SINCE
from mindport.targets.mindformers.versions import LEGACY, MCORE, PYNATIVE, Family, Version, version_named

Reasons = Iterator[str]
Check = Callable[[TransformerConfig, Graph, Version], Reasons]

_OF_LATENTS = ("kv_channels", "latent_layernorm_epsilon")
"""What latent attention derives; the checks compare it."""
_OF_EXPERTS = ("moe_router_pre_softmax", "norm_topk_prob", "moe_router_score_function")
"""What says nothing of a model without experts."""


BEYOND = ("window_size", "layer_types", "rope_scaling")
"""Fields that `within` may change."""


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


def refusals(config: TransformerConfig, family: Family, version: Version, *, weights: bool = True) -> list[str]:
    """Why the training graph of a family does not compute this model; empty if it does.

    Every sentence is in the user's language.

    Args:
        weights: the graph is to be given weights too, not a YAML alone.
    """
    if not family.trains(version):
        return [absent(family, version)]
    graph = GRAPHS.get((family.generation, family.name))
    if graph is None:
        return [tr("Mindport does not know what {family} ({generation}) of MindFormers computes.", **_named(family))]
    found = [*_values(config, graph, version)]
    for check in _CHECKS:
        found += check(config, graph, version)
    return [*found, *_unwritable(config, graph, version)] if weights else found


def absent(family: Family, version: Version) -> str:
    """That a version has no training graph of a family."""
    if family.plugin:
        return tr(
            "{family} ({generation}) comes with Mindport's plug-in, which is made for MindFormers {since}, not "
            "{version}.",
            since=family.trained_since,
            version=version.name,
            **_named(family),
        )
    if family.trained_since is None:
        return tr("{family} ({generation}) of MindFormers has no training graph.", **_named(family))
    return tr(
        "{family} ({generation}) can be trained from MindFormers {since} on, not in {version}.",
        since=family.trained_since,
        version=version.name,
        **_named(family),
    )


def _named(family: Family) -> dict[str, str]:
    return {"family": family.name, "generation": family.generation}


def _unwritable(config: TransformerConfig, graph: Graph, version: Version) -> Reasons:
    """What the graph computes, but from weights in a form that Mindport does not write."""
    if graph.generation == PYNATIVE:
        yield tr("Mindport has no weight layouts for MindFormers' {generation} generation.", generation=PYNATIVE)
    elif graph.generation == MCORE and config.num_moe_experts and version.order < (1, 7):
        yield tr("MindFormers {version} keeps experts in a shape that Mindport cannot write.", version=version.name)


def _values(config: TransformerConfig, graph: Graph, version: Version) -> Reasons:
    """Fields with a value that the graph cannot be told."""
    for field in fields(TransformerConfig):
        value = getattr(config, field.name)
        if field.name in FREE or (graph.latent and field.name in _OF_LATENTS) or _folded(field.name, config, graph):
            continue
        if field.name in graph.fixed:
            wanted = graph.fixed[field.name]
        elif field.name in graph.told:
            key = graph.key_of(field.name)
            if key is None or key.known(version) or value == key.absent or field.metadata["effect"] == TRAINING:
                continue
            yield tr(
                "{field} = {value}: the {graph} graph of MindFormers {version} has no {key}, which came with {since}.",
                field=field.name,
                value=brief(value),
                graph=graph.name,
                version=version.name,
                key=key.name,
                since=key.since,
            )
            continue
        elif field.default is MISSING or (not config.num_moe_experts and field.name in _OF_EXPERTS):
            continue
        else:
            wanted = field.default
        if not _equal(value, wanted):
            yield tr(
                "{field} = {value} ({meaning}): the {graph} graph of MindFormers {version} always has {fixed}.",
                field=field.name,
                value=brief(value),
                meaning=tr(field.metadata["doc"]),
                graph=graph.name,
                version=version.name,
                fixed=wanted,
            )


def _folded(name: str, config: TransformerConfig, graph: Graph) -> bool:
    """Whether another field already says all there is to say: experts, or latents, where the graph has none."""
    if name in ("num_moe_experts", "multi_latent_attention"):
        return False
    without_experts = config.num_moe_experts and "num_moe_experts" not in graph.told
    if without_experts and (name.startswith("moe_") or name in _OF_EXPERTS):
        return True
    return config.multi_latent_attention and not graph.latent and ("lora" in name or "head_dim" in name)


def _equal(value: Any, wanted: Any) -> bool:
    return bool(value == wanted) and isinstance(value, bool) == isinstance(wanted, bool)


def _widths(config: TransformerConfig, graph: Graph, version: Version) -> Reasons:
    if graph.latent or config.multi_latent_attention:
        return
    if config.hidden_size % config.num_attention_heads:
        yield tr(
            "hidden_size = {width} must be a multiple of num_attention_heads = {count}, even where heads have a "
            "width of their own.",
            width=config.hidden_size,
            count=config.num_attention_heads,
        )
    elif graph.generation == LEGACY and config.kv_channels != config.hidden_size // config.num_attention_heads:
        yield tr(
            "Heads are hidden_size / num_attention_heads = {wanted} wide there, not {width}.",
            wanted=config.hidden_size // config.num_attention_heads,
            width=config.kv_channels,
        )


def _scale(config: TransformerConfig, graph: Graph, version: Version) -> Reasons:
    wanted = config.kv_channels**-0.5
    scaling = config.rope_scaling or {}
    if config.multi_latent_attention and scaling.get("mscale_all_dim") and scaling["factor"] > 1:
        wanted *= (0.1 * scaling["mscale_all_dim"] * math.log(scaling["factor"]) + 1) ** 2
    if not math.isclose(config.softmax_scale, wanted, rel_tol=1e-9):
        yield tr(
            "Attention scores are scaled by {wanted:.6g} there, not by softmax_scale = {scale:.6g}.",
            wanted=wanted,
            scale=config.softmax_scale,
        )


def _legacy_scaling(config: TransformerConfig, graph: Graph, version: Version) -> Reasons:
    scaling = config.rope_scaling
    if graph.generation != LEGACY or scaling is None:
        return
    kind = scaling["rope_type"]
    if kind == "dynamic":
        yield _no_dynamic()
    elif kind not in METHODS:
        yield tr("RoPE scaling {kind} does not exist there.", kind=kind)
    elif version.order < version_named(METHODS_SINCE[kind]).order:
        yield tr("RoPE scaling {kind} exists from MindFormers {since} on.", kind=kind, since=METHODS_SINCE[kind])
    yield from _yarn_extras(scaling)


def _yarn_extras(scaling: Mapping[str, Any]) -> Reasons:
    if scaling.get("attention_factor") is not None:
        yield tr("There is no setting for YaRN's {key}.", key="attention_factor")
    if scaling.get("truncate") is False:
        yield tr("There is no setting for YaRN's {key}.", key="truncate = false")


def _plain_scaling(config: TransformerConfig, graph: Graph, version: Version) -> Reasons:
    if graph.generation != MCORE or graph.latent or "rope_scaling" not in graph.told or config.rope_scaling is None:
        return
    kind = config.rope_scaling["rope_type"]
    if kind == "dynamic":
        yield _no_dynamic()
    elif kind not in SCALINGS:
        yield tr("RoPE scaling {kind} does not exist there.", kind=kind)


def _no_dynamic() -> str:
    return tr("Training leaves dynamic RoPE scaling out; up to max_position_embeddings tokens it changes nothing.")


def _latent_scaling(config: TransformerConfig, graph: Graph, version: Version) -> Reasons:
    scaling = config.rope_scaling
    if not graph.latent or scaling is None:
        return
    if scaling["rope_type"] != "yarn":
        yield tr("With RoPE scaling {kind}, training has no RoPE at all there.", kind=scaling["rope_type"])
        return
    # One pair of settings makes both the softmax scale (from mscale) and cos and sin (from mscale / mscale_all_dim).
    if not scaling.get("mscale") or scaling.get("mscale") != scaling.get("mscale_all_dim"):
        yield tr(
            "YaRN is right there only where mscale and mscale_all_dim are given and equal; they are {mscale} and "
            "{all_dim}.",
            mscale=scaling.get("mscale"),
            all_dim=scaling.get("mscale_all_dim"),
        )
    yield from _yarn_extras(scaling)


def _latent_parts(config: TransformerConfig, graph: Graph, version: Version) -> Reasons:
    if not graph.latent or not config.multi_latent_attention:
        return
    if config.latent_layernorm_epsilon != config.layernorm_epsilon:
        yield tr(
            "All norms have one epsilon there; this model has {latent:g} in the norms of its latents, else {other:g}.",
            latent=config.latent_layernorm_epsilon,
            other=config.layernorm_epsilon,
        )
    if config.qk_head_dim + config.qk_pos_emb_head_dim < config.v_head_dim:
        yield tr("v_head_dim may not be larger than qk_head_dim + qk_pos_emb_head_dim there.")


def _multi_token(config: TransformerConfig, graph: Graph, version: Version) -> Reasons:
    if "mtp_num_layers" not in graph.told:
        return  # it must be 0
    if config.mtp_num_layers > 1:
        yield tr(
            "There is at most one module for multi-token prediction there; this model has {count}.",
            count=config.mtp_num_layers,
        )
    if config.mtp_num_layers and graph.generation == PYNATIVE and version.order < version_named("2.0").order:
        yield tr("mtp_num_layers = {count}: the pynative graph of 1.9 has none.", count=config.mtp_num_layers)


def _experts(config: TransformerConfig, graph: Graph, version: Version) -> Reasons:
    if not config.num_moe_experts and "num_moe_experts" in graph.told:
        yield tr("The {graph} graph has experts; this model has none.", graph=graph.name)
    if not config.num_moe_experts or "moe_router_topk" not in graph.told:
        return
    if config.moe_router_topk == 1 and config.norm_topk_prob:
        yield tr("The weight of a token's only expert is not divided by itself there, as norm_topk_prob means here.")
    shared = config.moe_shared_expert_intermediate_size
    if "moe_shared_expert_intermediate_size" in graph.told and shared % (config.moe_ffn_hidden_size or 1):
        yield tr(
            "moe_shared_expert_intermediate_size = {shared} is not a multiple of moe_ffn_hidden_size = {routed}.",
            shared=shared,
            routed=config.moe_ffn_hidden_size,
        )


def _groups(config: TransformerConfig, graph: Graph, version: Version) -> Reasons:
    groups, chosen = config.moe_router_num_groups or 1, config.moe_router_group_topk or 1
    top, experts = config.moe_router_topk, config.num_moe_experts
    if not experts or groups == 1 or "moe_router_num_groups" not in graph.told:
        return
    if experts % groups or chosen > groups or top % chosen:
        yield tr(
            "{experts} experts in {groups} groups, {top} of them from {chosen} groups: MindFormers asks that "
            "groups divide the experts, and chosen groups the experts of a token.",
            experts=experts,
            groups=groups,
            top=top,
            chosen=chosen,
        )
    elif top // chosen != 2:
        yield tr(
            "{top} experts from {chosen} groups: MindFormers rates a group by its best {each}, Hugging Face always "
            "by its best 2.",
            top=top,
            chosen=chosen,
            each=top // chosen,
        )


_CHECKS: tuple[Check, ...] = (
    _widths,
    _scale,
    _legacy_scaling,
    _plain_scaling,
    _latent_scaling,
    _latent_parts,
    _multi_token,
    _experts,
    _groups,
)
