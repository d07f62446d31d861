"""Whether a graph of MindFormers computes what a model computes; if not, each reason."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from typing import Any

from mindport.config.hf import ModelConfig
from mindport.config.mindformers.graphs import FREE, GRAPHS, Graph
from mindport.config.mindformers.values import METHODS, METHODS_SINCE
from mindport.errors import MindportError, brief
from mindport.i18n import tr
from mindport.schema import TransformerConfig
from mindport.targets.mindformers.versions import LEGACY, PYNATIVE, VERSIONS, Version, family_named, version_named

Reasons = Iterator[str]


def reasons(config: TransformerConfig, graph: Graph, version: Version) -> list[str]:
    """Why a graph of a version cannot compute what a model computes, in the user's language; none if it can."""
    family = family_named(graph.name, graph.generation)
    if family is None or not family.trains(version):
        return [
            tr(
                "MindFormers {version} has no {generation} training graph for {name}.",
                version=version.name,
                generation=graph.generation,
                name=graph.name,
            )
        ]
    found = [*_values(config, graph, version)]
    for check in _CHECKS:
        found += check(config, graph, version)
    return found


def _values(config: TransformerConfig, graph: Graph, version: Version) -> Reasons:
    """Fields with a value that the graph cannot be told."""
    for field in fields(TransformerConfig):
        value = getattr(config, field.name)
        if field.name in FREE or (graph.latent and field.name in _LATENT) or _folded(field.name, config, graph):
            continue
        if field.name in graph.fixed:
            wanted = graph.fixed[field.name]
        elif field.name in graph.told:
            key = graph.key_of(field.name)
            if key is None or key.known(version) or value == key.absent or field.metadata["effect"] == "training":
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
                "{field} = {value}: the {graph} graph of MindFormers {version} always has {fixed}.",
                field=field.name,
                value=brief(value),
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


_LATENT = ("kv_channels", "latent_layernorm_epsilon")
"""What latent attention derives; the checks below compare it."""
_OF_EXPERTS = ("moe_router_pre_softmax", "norm_topk_prob", "moe_router_score_function")
"""What says nothing of a model without experts."""


def _equal(value: Any, wanted: Any) -> bool:
    return bool(value == wanted) and isinstance(value, bool) == isinstance(wanted, bool)


def _widths(config: TransformerConfig, graph: Graph, version: Version) -> Reasons:
    if graph.latent:
        return
    if config.hidden_size % config.num_attention_heads:
        yield tr(
            "hidden_size = {hidden} is not a multiple of num_attention_heads = {heads}: MindFormers refuses it, even "
            "where the width of a head is given.",
            hidden=config.hidden_size,
            heads=config.num_attention_heads,
        )
    elif graph.generation == LEGACY and config.kv_channels != config.hidden_size // config.num_attention_heads:
        yield tr(
            "kv_channels = {width}: the legacy graph's heads are always hidden_size / num_heads = {even} wide.",
            width=config.kv_channels,
            even=config.hidden_size // config.num_attention_heads,
        )
    if not math.isclose(config.softmax_scale, config.kv_channels**-0.5, rel_tol=1e-12):
        yield tr("softmax_scale = {scale}: MindFormers always has kv_channels ** -0.5.", scale=config.softmax_scale)


def _legacy_scaling(config: TransformerConfig, graph: Graph, version: Version) -> Reasons:
    scaling = config.rope_scaling
    if graph.generation != LEGACY or scaling is None:
        return
    kind = scaling["rope_type"]
    if kind not in METHODS:
        yield tr("RoPE scaling {kind}: the legacy graph has {kinds}.", kind=kind, kinds=", ".join(METHODS))
    elif version.order < version_named(METHODS_SINCE[kind]).order:
        yield tr(
            "RoPE scaling {kind} came to the legacy graph with MindFormers {since}.",
            kind=kind,
            since=METHODS_SINCE[kind],
        )
    yield from _yarn_settings(scaling)


def _yarn_settings(scaling: dict[str, Any]) -> Reasons:
    if scaling.get("attention_factor") is not None:
        yield tr("RoPE scaling has an attention_factor, which MindFormers computes by itself.")
    if scaling.get("truncate") is False:
        yield tr("RoPE scaling has truncate = false: MindFormers always rounds the borders of YaRN's ramp.")


def _latent(config: TransformerConfig, graph: Graph, version: Version) -> Reasons:
    """Softmax scale, norms and groups of DeepSeek's graph."""
    if not graph.latent:
        return
    if config.latent_layernorm_epsilon != config.layernorm_epsilon:
        yield tr(
            "layernorm_epsilon = {epsilon}: MindFormers uses it in the norms of the latents too, where the model has "
            "{latent}.",
            epsilon=config.layernorm_epsilon,
            latent=config.latent_layernorm_epsilon,
        )
    scaling = config.rope_scaling
    if scaling is not None and scaling["rope_type"] != "yarn":
        yield tr("RoPE scaling {kind}: the {graph} graph has YaRN alone.", kind=scaling["rope_type"], graph=graph.name)
    elif scaling is not None:
        yield from _yarn_settings(scaling)
        if not scaling.get("mscale") or scaling.get("mscale") != scaling.get("mscale_all_dim"):
            yield tr(
                "RoPE scaling has mscale = {mscale} and mscale_all_dim = {all_dim}: MindFormers scales the softmax by "
                "the first and Hugging Face by the second, so they must be given and equal.",
                mscale=scaling.get("mscale"),
                all_dim=scaling.get("mscale_all_dim"),
            )
    if config.qk_head_dim + config.qk_pos_emb_head_dim < config.v_head_dim:
        yield tr(
            "v_head_dim = {width} is more than the {total} of qk_head_dim and qk_pos_emb_head_dim together: "
            "MindFormers refuses it.",
            width=config.v_head_dim,
            total=config.qk_head_dim + config.qk_pos_emb_head_dim,
        )
    if config.moe_shared_expert_intermediate_size % (config.moe_ffn_hidden_size or 1):
        yield tr(
            "moe_shared_expert_intermediate_size = {shared} is not a multiple of moe_ffn_hidden_size = {routed}.",
            shared=config.moe_shared_expert_intermediate_size,
            routed=config.moe_ffn_hidden_size,
        )
    if config.mtp_num_layers > 1:
        yield tr("mtp_num_layers = {count}: MindFormers has at most one.", count=config.mtp_num_layers)
    if config.mtp_num_layers and graph.generation == PYNATIVE and version.order < version_named("2.0").order:
        yield tr("mtp_num_layers = {count}: the pynative graph of 1.9 has none.", count=config.mtp_num_layers)


def _routing(config: TransformerConfig, graph: Graph, version: Version) -> Reasons:
    if not config.num_moe_experts or "moe_router_topk" not in graph.told:
        return
    top, groups, chosen = config.moe_router_topk, config.moe_router_num_groups, config.moe_router_group_topk
    if top == 1 and config.norm_topk_prob:
        yield tr("norm_topk_prob with one expert per token: MindFormers does not divide a single weight by itself.")
    if groups and chosen:
        if config.num_moe_experts % groups or chosen > groups or top % chosen:
            yield tr(
                "{experts} experts in {groups} groups, {top} of them from {chosen} groups: MindFormers asks that "
                "groups divide the experts, and chosen groups the experts of a token.",
                experts=config.num_moe_experts,
                groups=groups,
                top=top,
                chosen=chosen,
            )
        elif chosen < groups and top // chosen != 2:
            yield tr(
                "{top} experts from {chosen} groups: MindFormers rates a group by its best {each}, Hugging Face always "
                "by its best 2.",
                top=top,
                chosen=chosen,
                each=top // chosen,
            )


_CHECKS: tuple[Callable[[TransformerConfig, Graph, Version], Reasons], ...] = (
    _widths,
    _legacy_scaling,
    _latent,
    _routing,
)


def graph_for(model: ModelConfig, version: Version, generation: str, name: str | None = None) -> Graph | None:
    """The graph that a generation has for a model: of its own name, or `name`; the legacy generation has one for all.

    Raises:
        MindportError: there is no graph of the name that was asked for.
    """
    wanted = name or ("llama" if generation == LEGACY else model.model_type)
    graph = GRAPHS.get((generation, wanted))
    if graph is None and name is not None:
        raise MindportError(
            tr("There is no {generation} graph {name}.", generation=generation, name=name),
            tr("Choose one of {names}.", names=", ".join(n for g, n in GRAPHS if g == generation)),
        )
    return graph


def why_not(model: ModelConfig, version: Version, generation: str, name: str | None = None) -> list[str]:
    """Why a generation of a version cannot train a model; none if it can."""
    graph = graph_for(model, version, generation, name)
    if graph is None:
        return [
            tr(
                "MindFormers {version} has no {generation} training graph for {name}.",
                version=version.name,
                generation=generation,
                name=model.model_type,
            )
        ]
    return reasons(model.transformer, graph, version)


def suitable(model: ModelConfig) -> dict[str, list[str]]:
    """Generation -> the versions in which it can train a model."""
    found: dict[str, list[str]] = {}
    for version in VERSIONS.values():
        for generation in version.generations:
            if not why_not(model, version, generation):
                found.setdefault(generation, []).append(version.name)
    return found


def chosen_graph(model: ModelConfig, version: Version, generation: str | None, name: str | None) -> Graph:
    """The graph to write for: of the given generation, or of the first that will do.

    Raises:
        MindportError: none will do, with the reasons, and what would.
    """
    generations = (generation,) if generation else version.generations
    refused: dict[str, list[str]] = {}
    for candidate in generations:
        graph = graph_for(model, version, candidate, name) if candidate in version.generations else None
        if graph is None:
            refused[candidate] = why_not(model, version, candidate)
            continue
        refused[candidate] = reasons(model.transformer, graph, version)
        if not refused[candidate]:
            return graph
    nearest = min(refused, key=lambda candidate: len(refused[candidate]))
    raise MindportError(
        tr(
            "{model} cannot be trained with MindFormers {version} ({generation}). {reasons}",
            model=model.hf_class,
            version=version.name,
            generation=nearest,
            reasons=" ".join(refused[nearest]),
        ),
        _advice(model),
    )


def _advice(model: ModelConfig) -> str:
    would = suitable(model)
    if not would:
        return tr("No version of MindFormers computes this model without a change; Mindport's native target does.")
    ways = (f"{generation} ({_span(names)})" for generation, names in would.items())
    return tr("What would do: {ways}.", ways=", ".join(ways))


def _span(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} - {names[-1]}"
