"""Mistakes that a conversion could make, each of which the gate has to notice.

A mutation changes some converted weights, or one field of the canonical config. It is made from the declaration and
the slots alone. What cannot show in any output is listed in `INVISIBLE`, with the condition under which that is so.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import combinations, permutations
from types import SimpleNamespace
from typing import Any

import numpy as np

from mindport.architectures.naming import tensor_map
from mindport.config.hf import ModelConfig, with_defaults
from mindport.layout import Fuse, Stored, Transpose
from mindport.models import words
from mindport.models.activations import ACTIVATIONS
from mindport.models.initialise import is_norm
from mindport.models.relative_positions import bucket
from mindport.schema import TransformerConfig, slots_of
from mindport.targets.native import is_carried

from .generator import LENGTH
from .random_model import Arrays, Prepared


@dataclass(frozen=True)
class Mutation:
    """One mistake.

    Args:
        name: says what is wrong, in slots and fields.
        weights: slot -> its wrong values.
        config: the wrong config; None where only weights are wrong.
        field: the field in which it is wrong.
    """

    name: str
    weights: Arrays = field(default_factory=dict)
    config: TransformerConfig | None = None
    field: str = ""


def weight_mutations(model: Prepared) -> Iterator[Mutation]:
    """All mistakes in weights: swaps, drops, wrong layouts."""
    yield from swaps(model.slots)
    yield from drops(model.slots)
    yield from layouts(model)


# --- swaps -----------------------------------------------------------------------------------------------------------

SAMPLE = 12
"""Swaps between different slots of different layers, and among slots that are only carried along."""

EXPERT_SAMPLE = 48
"""Swaps between slots of different experts."""


def swaps(slots: Arrays) -> Iterator[Mutation]:
    """Two slots of equal shape exchanged: all pairs of one layer, all pairs outside the layers, each slot of one layer
    with the same of another; and a sample of the rest, and of what there are very many of."""
    rest, experts, carried = [], [], []
    for a, b in combinations(slots, 2):
        if slots[a].shape != slots[b].shape:
            continue
        (layer_a, role_a), (layer_b, role_b) = _place(a), _place(b)
        if is_carried(a) and is_carried(b):
            carried.append((a, b))
        elif _expert(a) != _expert(b) and None not in (_expert(a), _expert(b)):
            experts.append((a, b))
        elif layer_a == layer_b or role_a == role_b:
            yield _swap(slots, a, b)
        else:
            rest.append((a, b))
    for pairs, most in ((rest, SAMPLE), (experts, EXPERT_SAMPLE), (carried, SAMPLE)):
        for a, b in random.Random(0).sample(pairs, min(most, len(pairs))):
            yield _swap(slots, a, b)


def _expert(slot: str) -> str | None:
    """Number of the routed expert that a slot belongs to."""
    return slot.split(".experts.")[1].split(".")[0] if ".experts." in slot else None


def _swap(slots: Arrays, a: str, b: str) -> Mutation:
    return Mutation(f"swap {a}, {b}", {a: slots[b], b: slots[a]})


def _place(slot: str) -> tuple[str, str]:
    """Layer number and the slot within it; no number outside the layers."""
    first, *rest = slot.split(".", 2)
    return (rest[0], rest[1]) if first == "layer" else ("", slot)


# --- drops -----------------------------------------------------------------------------------------------------------


def drops(slots: Arrays) -> Iterator[Mutation]:
    """A bias or an embedding zeroed, a norm's weight set to one: what a tensor left at its initial value would be."""
    for slot, values in slots.items():
        if values.ndim < 2 or slot.startswith("embedding."):
            yield Mutation(f"drop {slot}", {slot: neutral(slot, values.shape)})


def neutral(slot: str, shape: tuple[int, ...]) -> np.ndarray:
    """What a slot holds before anything is loaded into it."""
    ones = slot.endswith(".weight") and is_norm(slot)
    return np.full(shape, 1.0 if ones else 0.0, np.float32)


# --- layouts ---------------------------------------------------------------------------------------------------------


def layouts(model: Prepared) -> Iterator[Mutation]:
    """Tensors read with another layout than the declared one, where the shapes allow it."""
    config, slots = model.variant.config, model.slots
    spelling = model.conversion.config.spelling
    assert spelling is not None
    declaration = model.conversion.config.model.declaration
    for name, stored in tensor_map(declaration, config, spelling).items():
        if name not in model.tensors:
            continue
        shapes = [slots[part].shape for part in stored.parts]
        for what, wrong in wrong_layouts(stored, config, model.tensors[name].shape):
            try:
                parts = wrong.split(model.tensors[name], [slots[part].shape for part in wrong.parts])
                found = dict(zip(wrong.parts, parts, strict=True))
            except ValueError:
                continue
            if [found[part].shape for part in stored.parts] != shapes:
                continue
            changed = {slot: a for slot, a in found.items() if not np.array_equal(a, slots[slot])}
            if changed:
                yield Mutation(f"{what}: {', '.join(stored.parts)}", changed)
    yield from _wrong_heads(config, slots)


def wrong_layouts(stored: Stored, config: TransformerConfig, shape: tuple[int, ...]) -> Iterator[tuple[str, Stored]]:
    """Other layouts of one tensor: parts in another order, other groups, transposed or not."""
    for order in _other_orders(stored.parts):
        yield "parts in another order", replace(stored, parts=order)
    if len(stored.parts) > 1:
        for groups in {1, config.num_query_groups, config.num_attention_heads}:
            ops = tuple(replace(op, groups=groups) if isinstance(op, Fuse) else op for op in stored.ops)
            if ops != stored.ops:
                yield f"fused in {groups} groups", replace(stored, ops=ops)
    if len(shape) > 1:
        kept = tuple(op for op in stored.ops if not isinstance(op, Transpose))
        yield "transposed", replace(stored, ops=kept if kept != stored.ops else (*stored.ops, Transpose()))


def _other_orders(parts: tuple[str, ...]) -> list[tuple[str, ...]]:
    """All other orders of few parts; of many, the neighbours exchanged, two by two."""
    if len(parts) <= 3:
        return list(permutations(parts))[1:]
    return [(*parts[:i], parts[i + 1], parts[i], *parts[i + 2 :]) for i in range(len(parts) - 1)]


def _wrong_heads(config: TransformerConfig, slots: Arrays) -> Iterator[Mutation]:
    """Rows of the query and key heads in the order of the other RoPE convention; query heads in another order."""
    heads, groups, width = config.num_attention_heads, config.num_query_groups, config.kv_channels
    latent = config.multi_latent_attention
    turned = config.qk_pos_emb_head_dim if latent else width
    queries = "q" if config.q_lora_rank is None else "q_up"
    projections = ((queries, heads), ("k_rope", 1) if latent else ("k", groups))

    def reordered(slot: str, count: int) -> np.ndarray:
        """The last `turned` rows of each head."""
        rows = slots[slot].reshape(count, -1, *slots[slot].shape[1:])
        kept, pairs = rows[:, :-turned], rows[:, -turned:].reshape(count, turned // 2, 2, *rows.shape[2:])
        reordered = pairs.swapaxes(1, 2).reshape(count, turned, *rows.shape[2:])
        return np.concatenate([kept, reordered], 1).reshape(slots[slot].shape)

    for layer in range(config.num_stored_layers):
        q, k = (
            {slot: reordered(slot, count) for slot in slots if slot.startswith(f"layer.{layer}.attention.{part}.")}
            for part, count in projections
        )
        if config.position_embedding_type == "rope":
            for what, changed in ({"q": q, "k": k, "q and k": {**q, **k}}).items():
                yield Mutation(f"rows of {what} for interleaved RoPE: layer {layer}", changed)
        if 1 < groups < heads:
            order = np.arange(heads * width).reshape(groups, -1, width).swapaxes(0, 1).reshape(-1)
            changed = {slot: slots[slot][order] for slot in q}
            changed |= {o: slots[o][:, order] for o in (f"layer.{layer}.attention.o.weight",)}
            yield Mutation(f"query heads not by group: layer {layer}", changed)


# --- config ----------------------------------------------------------------------------------------------------------

INERT = {
    "hidden_dropout": "training only",
    "attention_output_dropout": "training only",
    "attention_dropout": "training only",
    "embedding_dropout": "training only",
    "pooler_dropout": "training only",
    "classifier_dropout": "training only",
    "init_method_std": "training from scratch only",
    "output_layer_init_method_std": "training from scratch only",
    "classifier_init_method_std": "training from scratch only",
    "head_init_method_std": "training from scratch only",
    "zero_init_padding": "training from scratch only",
    "init_method_cutoff": "training from scratch only",
    "bos_token_id": "generation only",
    "eos_token_id": "generation only",
    "pad_token_id": "generation and batching only",
    "embedding_padding_idx": "training only; see test_training",
    "params_dtype": "precision, not the function",
    "compute_dtype": "precision, not the function",
    "layernorm_compute_dtype": "precision, not the function",
    "softmax_compute_dtype": "precision, not the function",
    "rotary_dtype": "precision, not the function",
    "head": "decides which outputs there are",
    "moe_aux_loss_coeff": "training only",
    "mlp_dropout": "training only",
    "hidden_dropout_after_mlp": "training only",
    "mtp_num_layers": "carried along, not computed",
}
"""Fields that do not change what an evaluation computes -> why."""

NAMES = ("activation_func", "head_activation", "pooler_activation", "conv_act")
"""Fields that name an activation."""

WORDS = {**words.WORDS, **dict.fromkeys(NAMES, tuple(ACTIVATIONS))}
"""Fields that hold a word -> the words."""

OPTIONAL = {f.name for f in fields(TransformerConfig) if f.default is None}
"""Fields that may be left out."""

FACTORS = {
    "layernorm_epsilon": 10.0,
    "latent_layernorm_epsilon": 1e3,  # the other norms' epsilon
}
"""By how much a number is wrong, where it is not by half."""


def config_mutations(model: Prepared) -> Iterator[Mutation]:
    """Every field with another value, where the same weights still fit; a weight that would be new is neutral.

    Fields that this model does not read are included where its declaration sets them.
    """
    config, slots = model.variant.config, model.slots
    declared = declared_fields(model.conversion.config.model)
    for name in (f.name for f in fields(config)):
        if name not in INERT and (name in declared or name not in READ_BY or READ_BY[name][0](config)):
            for value in _other_values(name, getattr(config, name)):
                mutation = _with_field(config, slots, f"{name} = {value!r}", **{name: value})
                if mutation:
                    yield replace(mutation, field=name)
    # Heads of another width do not show in the shapes where their number makes up for it.
    for times, by in ((2, 1), (1, 2)):
        if config.kv_channels * by % times == 0:
            heads = {name: getattr(config, name) * times / by for name in ("num_attention_heads", "num_query_groups")}
            if all(count == int(count) for count in heads.values()):
                width = config.kv_channels * by // times
                changes = {**{name: int(count) for name, count in heads.items()}, "kv_channels": width}
                mutation = _with_field(config, slots, f"heads of width {width}", **changes)
                if mutation and width % 2 == 0:
                    yield mutation


def declared_fields(described: ModelConfig) -> set[str]:
    """Canonical fields that a declaration sets for this class."""
    declaration = described.declaration
    found = {*declaration.constants, *declaration.computed, *described.declared_class.fields}
    values = with_defaults(described.hf, declaration)
    return found.union(*(rule.decode(values) for rule in declaration.rules))


def _other_values(name: str, value: Any) -> list[Any]:
    if name == "rope_scaling":
        return _other_scalings(value)
    if name in WORDS:
        return [word for word in WORDS[name] if word != value]
    if isinstance(value, list):
        return [other for other in (value[::-1], None) if other != value]
    if name == "rotary_percent":
        return [0.5 if value == 1.0 else 1.0]
    if isinstance(value, bool):
        return [not value]
    left_out = [None] if name in OPTIONAL and value is not None else []
    if isinstance(value, float):
        return [value * FACTORS.get(name, 1.5) if value else 1.0, *left_out]
    if isinstance(value, int):
        return [*(other for other in (value - 1, value + 1, value * 2) if other >= 0 and other != value), *left_out]
    if value is None:
        return []
    raise TypeError(f"tests/architectures/mutations.py does not know other values of {name} = {value!r}")


def _other_scalings(scaling: Mapping[str, Any] | None) -> list[Any]:
    if scaling is None:
        return [{"rope_type": "linear", "factor": 2.0}]
    found: list[Any] = [None]
    for key, value in scaling.items():
        if isinstance(value, bool):
            found.append({**scaling, key: not value})
        elif isinstance(value, int | float):
            # Lengths enter by their logarithm, rounded: only a quite different one has to show.
            found.append({**scaling, key: value * 4 if isinstance(value, int) else value * 1.5})
        elif isinstance(value, list):
            found.append({**scaling, key: [1.5 * value[0], *value[1:]]})
    return found


def _with_field(config: TransformerConfig, slots: Arrays, name: str, **changes: Any) -> Mutation | None:
    """The mutation, or None where weights would not fit: that is refused before anything is computed."""
    changed = replace(config, **changes)
    try:
        wanted = slots_of(changed)
    except (ZeroDivisionError, IndexError):  # a list for other layers than there are
        return None
    weights = {}
    for slot, shape in wanted.items():
        if slot in slots:
            if slots[slot].shape != shape:
                return None
        elif len(shape) > 1:
            return None
        else:
            weights[slot] = neutral(slot, shape)
    return Mutation(name, weights, changed)


# --- what cannot show ------------------------------------------------------------------------------------------------


def _reads_rotary_base(config: TransformerConfig) -> bool:
    own = config.window_size is not None and config.layer_types is None and config.sliding_rotary_base is not None
    return config.position_embedding_type == "rope" and not own


READ_BY: dict[str, tuple[Callable[[TransformerConfig], bool], str]] = {
    **dict.fromkeys(
        ("head_activation", "add_head_transform_bias"),
        (
            lambda c: c.head == "masked_lm" or (c.head.endswith("classification") and c.add_classifier_transform),
            "only heads with a transform read it",
        ),
    ),
    "add_masked_lm_bias": (lambda c: c.head == "masked_lm", "only the masked-LM head reads it"),
    **dict.fromkeys(
        ("num_labels", "add_classifier_transform"),
        (lambda c: c.head.endswith("classification"), "only classifiers read it"),
    ),
    "classifier_pooling": (lambda c: c.head == "sequence_classification", "only sequence classifiers read it"),
    "tie_word_embeddings": (lambda c: c.head in ("causal_lm", "masked_lm"), "only heads over the vocabulary read it"),
    "max_position_embeddings": (
        lambda c: c.position_embedding_type == "learned_absolute" or _scaling(c) == "dynamic",
        "only a table of positions and dynamic RoPE scaling read it",
    ),
    "rotary_base": (_reads_rotary_base, "only RoPE reads it, and not in windowed layers that have a base of their own"),
    **dict.fromkeys(
        ("rope_scaling", "rotary_interleaved"),
        (lambda c: c.position_embedding_type == "rope", "only RoPE reads it"),
    ),
    "num_query_groups": (
        lambda c: not c.multi_latent_attention,
        "latent attention makes keys and values for every head",
    ),
    "pooler_activation": (lambda c: c.add_pooler, "only the pooler reads it"),
    **dict.fromkeys(
        ("max_relative_positions", "position_buckets", "share_att_key", "norm_rel_ebd"),
        (lambda c: c.pos_att_type != "none", "only relative positions read it"),
    ),
    **dict.fromkeys(("conv_groups", "conv_act"), (lambda c: c.conv_kernel_size > 0, "only the convolution reads it")),
    "mask_padding": (
        lambda c: c.add_pooler or c.conv_kernel_size > 0 or c.head == "question_answering",
        "only a convolution, a pooler and scores of all positions read what padding holds",
    ),
    "ffn_hidden_size": (
        lambda c: not all(c.has_experts(layer) for layer in range(c.num_layers)),
        "only layers without experts read it",
    ),
    "add_embedding_projection_bias": (
        lambda c: c.embedding_size is not None,
        "only factorised embeddings read it",
    ),
    "embedding_projection_first": (
        lambda c: c.embedding_size is not None and c.embedding_layernorm,
        "only factorised embeddings that have a norm read it",
    ),
    "rotary_percent": (
        lambda c: c.position_embedding_type == "rope" and not c.multi_latent_attention,
        "only RoPE reads it, and latent attention has a part of its own for it",
    ),
    "sliding_rotary_base": (lambda c: c.window_size is not None, "only windowed layers read it"),
    "norm_placement": (lambda c: c.parallel_block == "none", "a parallel block has its norms first"),
    "add_norm_bias": (lambda c: c.normalization == "LayerNorm", "only LayerNorm reads it"),
    **dict.fromkeys(
        ("activation_func_clamp_value", "glu_linear_offset"),
        (lambda c: c.gated_linear_unit, "only gated MLPs read it"),
    ),
    **dict.fromkeys(
        ("q_lora_rank", "kv_lora_rank", "qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim", "latent_layernorm_epsilon"),
        (lambda c: c.multi_latent_attention, "only latent attention reads it"),
    ),
    **dict.fromkeys(
        (
            "moe_layer_freq",
            "moe_router_topk",
            "moe_ffn_hidden_size",
            "moe_shared_expert_intermediate_size",
            "moe_router_topk_scaling_factor",
            "moe_router_num_groups",
            "moe_router_group_topk",
            "moe_router_enable_expert_bias",
            "add_router_bias",
        ),
        (lambda c: c.num_moe_experts > 0, "only experts read it"),
    ),
    "moe_router_score_function": (
        lambda c: (
            c.num_moe_experts > 0
            and (c.moe_router_topk > 1 or not c.norm_topk_prob or c.moe_router_enable_expert_bias or _leaves_out(c))
        ),
        "only experts read it; a single one, the best by any score, has the weight 1 when divided by its sum",
    ),
    "moe_router_pre_softmax": (
        lambda c: c.num_moe_experts > 0 and c.moe_router_score_function == "softmax" and not c.norm_topk_prob,
        "only softmax scores that are not divided by their sum tell it",
    ),
    "norm_topk_prob": (
        lambda c: c.num_moe_experts > 0 and (c.moe_router_score_function == "sigmoid" or c.moe_router_pre_softmax),
        "a softmax over the chosen experts has the sum 1 already",
    ),
}
"""Fields that some models do not read: which do, and the reason in words."""


def _scaling(config: TransformerConfig) -> str | None:
    return (config.rope_scaling or {}).get("rope_type")


def _output_biases(mutation: Mutation) -> bool:
    """Whether nothing but the two output biases of one layer is exchanged."""
    layers = {_place(slot)[0] for slot in mutation.weights}
    ends = {slot.split(".", 2)[-1] for slot in mutation.weights}
    return mutation.name.startswith("swap") and len(layers) == 1 and ends == {"attention.o.bias", "mlp.down.bias"}


def _same_frequencies(config: TransformerConfig, changed: TransformerConfig) -> bool:
    """Whether two RoPE scalings come to the same for sequences of LENGTH, by transformers' own formulas."""
    import torch
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    if config.rope_scaling is None or changed.rope_scaling is None:
        return False
    found = []
    for c in (config, changed):
        for base in (c.rotary_base, c.sliding_rotary_base or c.rotary_base):
            settings = SimpleNamespace(
                rope_parameters={
                    "rope_theta": base,
                    "partial_rotary_factor": c.rotary_percent,
                    **(c.rope_scaling or {}),
                },
                head_dim=c.kv_channels,
                hidden_size=c.hidden_size,
                num_attention_heads=c.num_attention_heads,
                max_position_embeddings=c.max_position_embeddings,
                standardize_rope_params=lambda: None,
            )
            kind = (c.rope_scaling or {})["rope_type"]
            found.append(ROPE_INIT_FUNCTIONS[kind](settings, torch.device("cpu"), seq_len=LENGTH))
    pairs = zip(found[: len(found) // 2], found[len(found) // 2 :], strict=True)
    return all(bool(torch.equal(before, after)) and factor == other for (before, factor), (after, other) in pairs)


def _buckets(config: TransformerConfig) -> np.ndarray:
    span = config.relative_span
    distances = np.arange(1 - LENGTH, LENGTH)
    return np.clip(bucket(distances, config.position_buckets, config.max_relative_positions), -span, span - 1)


def _leaves_out(config: TransformerConfig) -> bool:
    """Whether the router considers some groups of experts only."""
    groups, best = config.moe_router_num_groups, config.moe_router_group_topk
    return groups is not None and best is not None and best < groups


def why_invisible(config: TransformerConfig, mutation: Mutation) -> str | None:
    """Why a mutation cannot change any output, or None where it must."""
    if mutation.config is None:
        # Where positions ask content, the bias answers each of them in its own way.
        keys: tuple[str, ...] = (".attention.pos_key.bias",)
        if config.position_embedding_type != "rope" and "p2c" not in config.pos_att_type:
            keys = (*keys, ".attention.k.bias", "relative_embedding.norm.bias")
        if all(slot.endswith(keys) for slot in mutation.weights):
            return "a key bias without RoPE adds the same to all scores of a query, and softmax ignores that"
        if all(is_carried(slot) for slot in mutation.weights):
            return "carried along, not computed"
        if config.parallel_block != "none" and _output_biases(mutation):
            return "the output biases of attention and MLP are added together in a parallel block"
        roles = {_place(slot)[1] for slot in mutation.weights}
        if config.pos_att_type == "p2c" and roles == {"attention.q.bias", "attention.pos_query.bias"}:
            layers = {_place(slot)[0] for slot in mutation.weights}
            return "keys are multiplied with the sum of both biases" if len(layers) == 1 else None
        return None
    name = mutation.field
    if name == "rope_scaling" and _same_frequencies(config, mutation.config):
        return "RoPE settings that give the same frequencies for so few channels, or for sequences of this length"
    grouping = name in ("moe_router_num_groups", "moe_router_group_topk")
    if grouping and getattr(mutation.config, name) is None and not _leaves_out(config):
        return "groups of experts that are all considered are as none"
    if name in READ_BY and not READ_BY[name][0](config):
        return f"{name}: {READ_BY[name][1]}"
    if name == "max_relative_positions" and np.array_equal(*(_buckets(c) for c in (config, mutation.config))):
        return "the distances within a test sequence fall into the same buckets"
    if name in NAMES:
        before, after = (ACTIVATIONS[getattr(c, name)] for c in (config, mutation.config))
        return "two names of one activation" if before is after else None
    added = name.startswith("add_") or name == "moe_router_enable_expert_bias"
    if added and mutation.weights and all(slot.endswith((".bias", ".score_correction")) for slot in mutation.weights):
        return "a bias that a file lacks is zero here, and adds nothing (a conversion refuses the file)"
    return None
