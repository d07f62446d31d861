"""Models that MindFormers can train: the generator's, with what no graph can be told taken back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from mindport.architectures import architecture, model_types
from mindport.config.hf import ModelConfig, from_hf
from mindport.config.mindformers.read import encoded
from mindport.errors import MindportError
from mindport.schema import TransformerConfig
from mindport.targets.mindformers.choice import why_not
from mindport.targets.mindformers.graphs import GRAPHS, Graph
from mindport.targets.mindformers.versions import LATEST_EXECUTED, LEGACY, VERSIONS, Version

from ...architectures.generator import Variant, variants


@cache
def trainable() -> tuple[tuple[ModelConfig, str], ...]:
    """(model, generation) of every variant that can be brought to what the generation's graph computes."""
    return tuple(found for model_type in model_types() for variant in variants(model_type) for found in _tamed(variant))


def _tamed(variant: Variant) -> Iterator[tuple[ModelConfig, str]]:
    """A variant with the values that the graphs always have, everything else as it was made."""
    for generation in VERSIONS[LATEST_EXECUTED].generations:
        graph = graph_of(variant.model_type, generation)
        causal = [n for n, c in architecture(variant.model_type).classes.items() if c.fields.get("head") == "causal_lm"]
        if graph is None or not causal:
            continue
        try:
            model = from_hf(encoded(variant.model_type, causal[0], _values(variant.config, graph)))
        except MindportError:
            continue
        if not why_not(model.transformer, VERSIONS[LATEST_EXECUTED], generation, graph.name, weights=False):
            yield model, generation


def graph_of(model_type: str, generation: str) -> Graph | None:
    """The graph that a generation has for models of a name; in mcore, TeleChat3's stands in where there is none."""
    named = GRAPHS.get((generation, "llama" if generation == LEGACY else model_type))
    return named or GRAPHS.get((generation, "telechat3"))


def _values(config: TransformerConfig, graph: Graph) -> TransformerConfig:
    changes: dict[str, object] = {**graph.fixed, "window_size": None, "layer_types": None, "add_mlp_bias": False}
    changes |= {"max_position_embeddings": 2048 + config.max_position_embeddings}  # see `checks.MASK_SIZE`
    if "add_attention_output_bias" not in graph.told:
        changes |= {"add_attention_output_bias": False}
    if "num_moe_experts" not in graph.told:
        changes |= {"num_moe_experts": 0}
    if "moe_layer_freq" not in graph.told:
        changes |= {"moe_layer_freq": None}
    elif config.moe_router_group_topk:
        groups = config.moe_router_num_groups or 1
        changes |= {"moe_router_topk": 2 * config.moe_router_group_topk, "num_moe_experts": 4 * groups}
    if "rope_scaling" not in graph.told:
        changes |= {"rope_scaling": None}
    elif config.rope_scaling is not None:
        scaling = {key: value for key, value in config.rope_scaling.items() if key != "truncate"}
        if scaling["rope_type"] == "dynamic":
            scaling = None
        elif graph.latent:
            scaling = {**scaling, "mscale": 0.8, "mscale_all_dim": 0.8} if scaling["rope_type"] == "yarn" else None
        changes |= {"rope_scaling": scaling}
    if graph.latent:
        changes |= {"layernorm_epsilon": 1e-6, "add_qkv_bias": False}
        changes |= {"mtp_num_layers": min(config.mtp_num_layers, 1)}
    if "tie_word_embeddings" not in graph.told:
        changes |= {"tie_word_embeddings": False}
    if graph.generation == LEGACY:
        changes |= {"kv_channels": config.hidden_size // config.num_attention_heads}
    return replace(config, **changes)


def versions_of(generation: str) -> list[Version]:
    """The versions that have a generation."""
    return [version for version in VERSIONS.values() if generation in version.generations]
