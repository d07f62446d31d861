"""Whether the values of a canonical config can be those of a model, whatever model that is."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

from mindport.architectures.windows import FULL, SLIDING
from mindport.schema import TransformerConfig

_LARGEST = 2**31
"""Of any count or width: far above every model."""

MOST_LAYERS = 10_000
"""Far above any model. A larger number is a mistake, and a list of so many layers' weights would fill the memory."""


def out_of_range(config: TransformerConfig) -> list[str]:
    """Names of fields whose values no model can have: negative sizes, probabilities above 1, lists for other layers."""
    wrong = [name for name in (f.name for f in fields(config)) if not _possible(name, getattr(config, name))]
    layers = config.num_layers
    per_layer = {
        "layer_types": lambda entry: entry in (FULL, SLIDING),
        "moe_layer_freq": lambda entry: entry in (0, 1),
        "layer_weights": lambda entry: isinstance(entry, int) and 0 <= entry < layers,
    }
    for name, fits in per_layer.items():
        entries = getattr(config, name)
        if entries is not None and (len(entries) != layers or not all(fits(entry) for entry in entries)):
            wrong.append(name)
    required = ("vocab_size", "hidden_size", "num_layers", "num_attention_heads", "num_query_groups", "kv_channels")
    wrong += [name for name in required if getattr(config, name) == 0]
    if layers > MOST_LAYERS:
        wrong.append("num_layers")
    if config.pos_att_type != "none" and config.relative_span == 0:
        wrong.append("max_relative_positions")
    unroutable = wrong_routing(config)
    wrong += [unroutable] if unroutable else []
    if "num_query_groups" not in wrong and config.num_attention_heads % config.num_query_groups:
        wrong.append("num_query_groups")
    return list(dict.fromkeys(wrong))


def wrong_routing(config: TransformerConfig) -> str | None:
    """The field with whose count a router cannot choose among experts; None where it can, or there are none."""
    experts, topk = config.num_moe_experts, config.moe_router_topk
    if experts == 0:
        return None
    groups = config.moe_router_num_groups if config.moe_router_num_groups is not None else 1
    best = config.moe_router_group_topk if config.moe_router_group_topk is not None else groups
    if groups < 1 or experts % groups:
        return "moe_router_num_groups"
    if not 0 < best <= groups:
        return "moe_router_group_topk"
    if best < groups and experts < 2 * groups:  # a group counts by its two best experts
        return "moe_router_num_groups"
    return None if 0 < topk <= experts // groups * best else "moe_router_topk"


def _possible(name: str, value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float) or name.endswith("_token_id"):
        return True
    if not math.isfinite(value) or abs(value) > _LARGEST:
        return False
    if "dropout" in name:
        return 0 <= value < 1  # MindSpore has no dropout that leaves nothing
    return value >= 0
