"""Test models from the declarations: few variants of each architecture that cover every choice its config has.

Nothing here knows an architecture. An axis is a thing that varies (the shapes, the class, a switch, the activation, the
RoPE scaling); the rules of a declaration say which axes there are, and their own `encode` turns canonical values into
config keys.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, singledispatch
from itertools import combinations, product
from typing import Any

from mindport.architectures import Architecture, architecture, class_defaults, model_types
from mindport.architectures.common import EndOfSequence, Labels
from mindport.architectures.deberta_keys import Convolution, RelativePositions
from mindport.architectures.experts import DenseFirst, SparseLayers
from mindport.architectures.local_windows import LocalWindow
from mindport.architectures.partial_rope import PartialRope
from mindport.architectures.quantisation import Quantisation
from mindport.architectures.rope import Rope
from mindport.architectures.rope_by_layer import RopeByLayer
from mindport.architectures.sharing import LayerGroups
from mindport.architectures.vocabulary import (
    RUNTIME,
    STRUCTURE,
    Computed,
    Field,
    Ignored,
    Joint,
    Naming,
    Only,
    Repeats,
    Rule,
)
from mindport.architectures.windows import FULL, SLIDING, AlternatingWindow, GatedWindow, Window
from mindport.config.hf import from_hf
from mindport.errors import MindportError
from mindport.models.words import WORDS
from mindport.schema import TransformerConfig, placed_slots

Values = Mapping[str, Any]

LENGTH = 66
"""Tokens of a test sequence."""

_EXPERTS = {
    "num_moe_experts": 6,
    "moe_router_topk": 2,
    "moe_router_num_groups": 3,
    "moe_router_group_topk": 2,
    "moe_ffn_hidden_size": 28,
    "moe_shared_expert_intermediate_size": 56,
}

_LATENTS = {
    "q_lora_rank": 36,
    "kv_lora_rank": 22,
    "qk_head_dim": 10,
    "qk_pos_emb_head_dim": 20,
    "v_head_dim": 14,
}

SHAPES: dict[str, dict[str, int]] = {
    "odd": {
        "vocab_size": 131,
        "hidden_size": 48,
        "embedding_size": 32,
        "num_attention_heads": 6,
        "num_query_groups": 2,
        "kv_channels": 20,
        "ffn_hidden_size": 112,
        "max_position_embeddings": 77,
        **_EXPERTS,
        **_LATENTS,
    },
    # Everything that can be square is: wrong transpositions and swaps then fit.
    "square": {
        "vocab_size": 67,
        "hidden_size": 48,
        "embedding_size": 48,
        "num_attention_heads": 4,
        "num_query_groups": 4,
        "kv_channels": 12,
        "ffn_hidden_size": 48,
        "max_position_embeddings": 67,
        **_EXPERTS,
        "moe_ffn_hidden_size": 48,
        "moe_shared_expert_intermediate_size": 48,
        "q_lora_rank": 48,
        "kv_lora_rank": 48,
        "qk_head_dim": 12,
        "qk_pos_emb_head_dim": 12,
        "v_head_dim": 12,
    },
    "one-group": {
        "vocab_size": 97,
        "hidden_size": 40,
        "embedding_size": 24,
        "num_attention_heads": 5,
        "num_query_groups": 1,
        "kv_channels": 16,
        "ffn_hidden_size": 56,
        "max_position_embeddings": 71,
        **_EXPERTS,
        "num_moe_experts": 3,
        "moe_router_topk": 1,
        "moe_router_num_groups": 1,
        "moe_router_group_topk": 1,
        "moe_shared_expert_intermediate_size": 28,
        **_LATENTS,
        "qk_pos_emb_head_dim": 16,
    },
}

VALUES: dict[str, Any] = {
    "num_layers": 2,
    "num_token_types": 3,
    "num_labels": 5,
    "layernorm_epsilon": 1e-3,  # large enough for a wrong one to show
    "rotary_base": 5000.0,
    "sliding_rotary_base": 700.0,
    "rotary_percent": 0.5,
    "moe_router_topk_scaling_factor": 1.7,
    "moe_aux_loss_coeff": 0.07,
    "activation_func_clamp_value": 0.8,  # small enough to cut off
    "mtp_num_layers": 2,
    "hidden_dropout": 0.11,
    "attention_dropout": 0.13,
    "embedding_dropout": 0.17,
    "pooler_dropout": 0.29,
    "classifier_dropout": 0.19,
    "mlp_dropout": 0.23,
    "init_method_std": 0.03,
    "init_method_cutoff": 2.0,
    "bos_token_id": 5,
    "pad_token_id": 4,
    "params_dtype": "float32",
}
"""Values of the canonical fields that do not vary, no two alike where they could be confused."""

_LISTS = {"short_factor": [1.1, 1.7, 1.3, 1.9, 2.0, 1.2], "long_factor": [1.5, 4.0, 2.5, 3.0, 6.0, 5.0]}
"""Of LongRoPE: a factor for each frequency; a model takes the first, as many as it has."""

ROPE_SCALINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "linear": {"factor": 2.5},
    "dynamic": {"factor": 3.0},
    "llama3": {
        "factor": 8.0,
        "low_freq_factor": 0.25,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    },
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 16},
    "yarn, explicit": {
        "factor": 4.0,
        "original_max_position_embeddings": 16,
        "beta_fast": 1.25,
        "beta_slow": 0.125,
        "mscale": 0.7,
        "mscale_all_dim": 0.9,
        "truncate": False,
    },
    "longrope": {**_LISTS, "original_max_position_embeddings": 32},
    "longrope, short": {**_LISTS, "original_max_position_embeddings": 80},
    "longrope, explicit": {**_LISTS, "original_max_position_embeddings": 32, "attention_factor": 0.8},
}
"""Name -> keys of one scaling; the kind is the word before a comma. The numbers are such that some frequencies of every
head width in SHAPES lie where the scaling blends, so that each number shows."""

_ROUNDED_YARN = {
    "factor": 4.0,
    "original_max_position_embeddings": 64,
    "beta_fast": 1.0,
    "beta_slow": 0.125,
    "mscale": 0.7,
    "mscale_all_dim": 0.9,
}
"""Where `truncate` cannot be false: half as much again of each number moves a rounded end of the blend, at one of the
two bases at least."""

_WINDOW = 9
"""Keys a query sees in a windowed layer: far less than LENGTH."""

_SPAN, _REACH = 12, 40
"""Buckets of relative positions in one direction, and their farthest distance: of LENGTH tokens, some lie in buckets of
their own, most in logarithmic ones, and some beyond."""

_TRAINED_LENGTH = 24
"""Of the models whose scaling acts beyond it only: less than LENGTH."""


@dataclass(frozen=True)
class Choice:
    """One value of an axis: what it sets, in canonical fields or in config keys, and keys that it leaves out."""

    label: str
    canonical: Values = field(default_factory=dict)
    hf: Values = field(default_factory=dict)
    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class Axis:
    """What varies, and its values.

    Args:
        switch: an on-off setting of the structure.
    """

    name: str
    choices: tuple[Choice, ...]
    switch: bool = False


@dataclass(frozen=True, eq=False)
class Variant:
    """One test model.

    Args:
        hf_class: Hugging Face class.
        off: optional parts its checkpoint lacks.
        hf: its config, as given to the config class.
        config: what that is in canonical terms.
        choices: axis -> label of the value taken.
    """

    model_type: str
    number: int
    hf_class: str
    off: tuple[str, ...]
    hf: dict[str, Any]
    config: TransformerConfig
    choices: dict[str, str]

    def __str__(self) -> str:
        return f"{self.model_type}-{self.number}-{self.hf_class}"


def real_classes(declaration: Architecture) -> list[str]:
    """Class names, without those declared as another name of one before."""
    classes = list(declaration.classes.items())
    return [name for i, (name, what) in enumerate(classes) if what not in [w for _, w in classes[:i]]]


@singledispatch
def axes_of(rule: Rule) -> list[Axis]:
    """What a rule lets vary. A new type of rule has to be registered here, or it would go untested."""
    raise TypeError(f"tests/architectures/generator.py does not know rules of type {type(rule).__name__}")


@axes_of.register
def _(rule: Field) -> list[Axis]:
    if rule.kind is bool or (isinstance(rule.kind, tuple) and rule.layer == STRUCTURE):
        return [
            Axis(
                rule.key,
                tuple(Choice(str(value), canonical=dict.fromkeys(rule.targets, value)) for value in _values(rule)),
                switch=rule.kind is bool,
            )
        ]
    return []


@axes_of.register
def _(rule: Computed) -> list[Axis]:
    choices = tuple(Choice(str(value), hf={rule.key: value}) for value in _values(rule))
    return [Axis(rule.key, choices, switch=rule.kind is bool)] if choices else []


@axes_of.register
def _(rule: Joint) -> list[Axis]:
    return [Axis(rule.keys[0], tuple(Choice(name, hf=case) for name, case in rule.cases.items()))]


@axes_of.register
def _(rule: PartialRope) -> list[Axis]:
    parts = tuple(Choice(str(part), canonical={"rotary_percent": part}) for part in (0.5, 1.0))
    return [*_rope(rule), Axis("rotary part", parts)]


@axes_of.register(Rope)
@axes_of.register(RopeByLayer)
def _rope(rule: Rope | RopeByLayer) -> list[Axis]:
    choices = []
    settings = rule if isinstance(rule, Rope) else Rope()
    rounded = {"yarn, explicit": _ROUNDED_YARN} if isinstance(rule, RopeByLayer) else {}
    for name, keys in {**ROPE_SCALINGS, **rounded}.items():
        kind = name.split(",")[0]
        if kind not in settings.kinds:
            continue
        canonical: dict[str, Any] = {"rope_scaling": {"rope_type": kind, **keys} if keys else None}
        if kind == "dynamic":
            canonical["max_position_embeddings"] = _TRAINED_LENGTH
        if kind == "longrope":
            canonical["max_position_embeddings"] = 4 * keys["original_max_position_embeddings"]
        choices.append(Choice(name, canonical=canonical))
    if settings.assumed:
        choices.append(Choice("the class's own", without=("rope_scaling",)))
    return [Axis("rope", tuple(choices))]


@axes_of.register
def _(rule: EndOfSequence) -> list[Axis]:
    return [Axis("eos", tuple(Choice(str(value), canonical={"eos_token_id": value}) for value in ([7, 3], 7, None)))]


@axes_of.register
def _(rule: Window) -> list[Axis]:
    choices = [Choice(str(width), canonical={"window_size": width}) for width in (_WINDOW, None)]
    if rule.switch is not None:
        choices.append(Choice("gated off", hf={rule.switch: False, "sliding_window": _WINDOW}))
    return [Axis("window", tuple(choices))]


@axes_of.register
def _(rule: SparseLayers) -> list[Axis]:
    some = [1, 0]
    assert len(some) == VALUES["num_layers"]
    choices = (
        Choice("some", canonical={"moe_layer_freq": some}),
        Choice("all", canonical={"moe_layer_freq": None}),
        Choice("every second", hf={"mlp_only_layers": None, "decoder_sparse_step": 2}),
    )
    return [Axis("layers with experts", choices)]


_MIXED_WINDOWS = (
    Choice("mixed", canonical={"window_size": _WINDOW, "layer_types": [SLIDING, FULL]}),
    Choice("all", canonical={"window_size": _WINDOW}),
    Choice("off", canonical={"window_size": None}),
)


@axes_of.register
def _(rule: AlternatingWindow) -> list[Axis]:
    other = Choice("other way round", canonical={"window_size": _WINDOW, "layer_types": [FULL, SLIDING]})
    implied = Choice("alternating", hf={"sliding_window": _WINDOW}, without=("layer_types",))
    return [Axis("window", (*_MIXED_WINDOWS, other, implied))]


@axes_of.register
def _(rule: DenseFirst) -> list[Axis]:
    kinds = {"dense first": [0, 1], "experts in all": None}
    return [Axis("experts", tuple(Choice(name, canonical={"moe_layer_freq": freq}) for name, freq in kinds.items()))]


@axes_of.register
def _(rule: GatedWindow) -> list[Axis]:
    choices = (
        *_MIXED_WINDOWS,
        # The switch and the first layer that has a window, where no list says.
        Choice("by layer", hf={"use_sliding_window": True, "sliding_window": _WINDOW, "max_window_layers": 1}),
        Choice("gated off", hf={"use_sliding_window": False, "sliding_window": _WINDOW, "max_window_layers": 1}),
    )
    return [Axis("window", choices)]


@axes_of.register
def _(rule: LocalWindow) -> list[Axis]:
    def layers(*types: str) -> Values:
        windows = SLIDING in types
        mixed = list(types) if windows and FULL in types else None
        return {"num_layers": len(types), "window_size": _WINDOW if windows else None, "layer_types": mixed}

    choices = (
        Choice("every third", canonical=layers(FULL, SLIDING, SLIDING, FULL)),
        Choice("every second", canonical=layers(FULL, SLIDING, FULL)),
        Choice("the first alone", canonical=layers(FULL, SLIDING, SLIDING)),
        Choice("irregular", canonical=layers(SLIDING, FULL, FULL)),
        Choice("all", canonical=layers(SLIDING, SLIDING)),
        Choice("none", canonical=layers(FULL, FULL)),
        Choice("odd width", canonical=layers(FULL, SLIDING), hf={"local_attention": 2 * _WINDOW + 1}),
    )
    return [Axis("window", choices)]


@axes_of.register
def _(rule: LayerGroups) -> list[Axis]:
    choices = (
        Choice("one", canonical={"layer_weights": [0, 0]}),
        Choice("two, uneven", canonical={"num_layers": 3, "layer_weights": [0, 0, 1]}),
        Choice("each its own", canonical={"layer_weights": None}),
    )
    return [Axis("groups", choices)]


@axes_of.register
def _(rule: RelativePositions) -> list[Axis]:
    kinds = [Choice(kind, canonical={"pos_att_type": kind}) for kind in ("c2p|p2c", "c2p", "p2c")]
    spelled = [
        Choice("as a string", canonical={"pos_att_type": "c2p"}, hf={"pos_att_type": "P2C | c2p"}),
        Choice("off", canonical={"pos_att_type": "none"}),
        # Kinds that are named count in the scale even then.
        Choice("off, but named", canonical={"pos_att_type": "none"}, hf={"pos_att_type": ["p2c"]}),
    ]
    buckets = (
        Choice("logarithmic", canonical={"position_buckets": _SPAN, "max_relative_positions": _REACH}),
        Choice("of one each", canonical={"position_buckets": None, "max_relative_positions": _REACH}),
        Choice(
            "up to all positions",
            canonical={"position_buckets": _SPAN, "max_relative_positions": 0},
            hf={"max_relative_positions": -1},
        ),
    )
    share = tuple(Choice(str(value), canonical={"share_att_key": value}) for value in (True, False))
    norms = tuple(Choice(name, canonical={"norm_rel_ebd": name}) for name in WORDS["norm_rel_ebd"])
    return [
        Axis("positions", tuple(kinds + spelled)),
        Axis("buckets", buckets),
        Axis("share_att_key", share, switch=True),
        Axis("norm_rel_ebd", norms),
    ]


@axes_of.register
def _(rule: Convolution) -> list[Axis]:
    choices = (
        Choice("wide", canonical={"conv_kernel_size": 5, "conv_groups": 2, "conv_act": "gelu"}),
        Choice("off", canonical={"conv_kernel_size": 0}),
        Choice("by the code's defaults", canonical={"conv_kernel_size": 0}, hf={"conv_kernel_size": 3}),
    )
    return [Axis("convolution", choices)]


@axes_of.register
def _(rule: Naming) -> list[Axis]:
    return [Axis(rule.key, tuple(Choice(str(value), hf={rule.key: value}) for value in rule.table), switch=True)]


@axes_of.register(Only)
@axes_of.register(Ignored)
@axes_of.register(Repeats)
@axes_of.register(Labels)
@axes_of.register(Quantisation)  # says nothing about the model; tests/checkpoint/test_quantised.py is about it
def _(rule: Rule) -> list[Axis]:
    return []


def _values(rule: Field | Computed) -> Sequence[Any]:
    """The values of a rule that has only a few."""
    if rule.kind is bool:
        return (True, False)
    return rule.kind if isinstance(rule.kind, tuple) else ()


@cache
def axes(model_type: str) -> tuple[Axis, ...]:
    """All axes of an architecture: class, shapes, and what its rules add."""
    declaration = architecture(model_type)
    classes = []
    for name in real_classes(declaration):
        optional = declaration.classes[name].optional
        classes += [Choice(name), *(Choice(f"{name} without {switch}") for switch in optional)]
    shapes = tuple(Choice(name, canonical=sizes) for name, sizes in SHAPES.items())
    nullable = (
        rule.key
        for rule in declaration.rules
        if isinstance(rule, Field)
        and rule.layer != RUNTIME
        and (rule.derive or rule.nullable)
        # A key that the config class does not have is not derived there, but taken as null.
        and rule.key in class_defaults(model_type)
    )
    null = (Choice("nothing"), *(Choice(key, hf={key: None}) for key in nullable))
    found = [Axis("class", tuple(classes)), Axis("shapes", shapes), Axis("null", null)]
    # What there is none of unless the file says so has a value in VALUES, and is also left out.
    absent = [
        rule.key
        for rule in declaration.rules
        if isinstance(rule, Field) and rule.kind is int and class_defaults(model_type).get(rule.key) == 0
    ]
    if counts := [key for key in absent if not key.endswith("_id")]:
        found.append(Axis("zero", (Choice("nothing"), *(Choice(key, hf={key: 0}) for key in counts))))
    return (*found, *(axis for rule in declaration.rules for axis in axes_of(rule)))


@cache
def variants(model_type: str) -> tuple[Variant, ...]:
    """Few variants that together take every value of every axis, all combinations of class and switch and of any two
    switches, as many other pairs of values as fit, and hold every declared tensor. The first takes the first value of
    every axis."""
    every = axes(model_type)
    made: list[Variant] = []

    def accepted(row: Row) -> bool:
        try:
            made.append(_variant(model_type, len(made), every, row))
        except MindportError:  # values that exclude each other
            return False
        return True

    sizes = [len(axis.choices) for axis in every]
    full = [0, *(i for i, axis in enumerate(every) if axis.switch)]
    rng = random.Random(model_type)
    cover(sizes, list(combinations(full, 2)), accepted, rng)
    for slots in _declared_slots(model_type):
        # Some weights only exist where more than two settings meet.
        for row in (tuple(rng.randrange(size) for size in sizes) for _ in range(1000)):
            if any(slots <= _slot_templates(variant.config) for variant in made):
                break
            if accepted(row) and not slots <= _slot_templates(made[-1].config):
                made.pop()
    return tuple(made)


def _declared_slots(model_type: str) -> list[set[str]]:
    """The slots of each declared tensor."""
    tables = (architecture(model_type).tensors, *architecture(model_type).alternatives)
    stored = (made_of for table in tables for made_of in table.values())
    parts = ((made_of,) if isinstance(made_of, str) else made_of.parts for made_of in stored)
    return [{part.replace("{p}", "weight") for part in names} for names in parts]


def _slot_templates(config: TransformerConfig) -> set[str]:
    return {placed.slot.name for placed in placed_slots(config)}


@cache
def all_variants() -> tuple[Variant, ...]:
    """The variants of every declared architecture."""
    return tuple(variant for model_type in model_types() for variant in variants(model_type))


Row = tuple[int, ...]
"""One value, by its index, for each axis."""


def cover(
    sizes: Sequence[int], full: Sequence[tuple[int, int]], accepted: Callable[[Row], bool], rng: random.Random
) -> None:
    """Hand rows to `accepted` until all values were in a row it took: the first values, then the best of random rows.

    Args:
        sizes: number of values of each axis.
        full: pairs of axes of which all pairs of values are wanted.
        rng: chooses; the same rows for the same seed.
    """
    single = {(cell,) for axis, size in enumerate(sizes) for cell in product([axis], range(size))}
    double = {((i, v), (j, w)) for i, j in full for v, w in product(range(sizes[i]), range(sizes[j]))}
    seen: set[Any] = set()
    row: Row = (0,) * len(sizes)
    for _ in range(100):
        if accepted(row):
            seen |= _cells(row)
        if single | double <= seen:
            break
        rows = [tuple(rng.randrange(size) for size in sizes) for _ in range(300)]
        row = max((_with_unseen(row, sizes, seen) for row in rows), key=lambda r: _gain(r, single, double, seen))


def _cells(row: Row) -> set[Any]:
    """The values of a row and its pairs of values."""
    cells = list(enumerate(row))
    return {(cell,) for cell in cells} | set(combinations(cells, 2))


def _gain(row: Row, single: set[Any], double: set[Any], seen: set[Any]) -> tuple[int, ...]:
    new = _cells(row) - seen
    return len(new & single), len(new & double), len(new)


def _with_unseen(row: Row, sizes: Sequence[int], seen: set[Any]) -> Row:
    """The row with values that are still missing: at random they would come late on a long axis."""

    def better(axis: int, value: int) -> int:
        missing = [v for v in range(sizes[axis]) if ((axis, v),) not in seen]
        return value if value in missing or not missing else missing[value % len(missing)]

    return tuple(better(axis, value) for axis, value in enumerate(row))


def _variant(model_type: str, number: int, every: Sequence[Axis], row: tuple[int, ...]) -> Variant:
    declaration = architecture(model_type)
    chosen = {axis.name: axis.choices[index] for axis, index in zip(every, row, strict=True)}
    hf_class, *off = chosen["class"].label.split(" without ")
    canonical = {**VALUES, **declaration.constants}
    for choice in chosen.values():
        canonical.update(choice.canonical)
    canonical.update(declaration.classes[hf_class].fields)
    if canonical.get("multi_latent_attention"):
        canonical["num_query_groups"] = canonical["num_attention_heads"]
        canonical["kv_channels"] = canonical["qk_head_dim"] + canonical["qk_pos_emb_head_dim"]
    if (canonical.get("rope_scaling") or {}).keys() & _LISTS.keys():
        # Where there are lists, heads have no width of their own.
        width = canonical["hidden_size"] // canonical["num_attention_heads"]
        pairs = int(width * canonical["rotary_percent"]) // 2
        canonical["rope_scaling"] = {
            key: value[:pairs] if isinstance(value, list) else value for key, value in canonical["rope_scaling"].items()
        }
    canonical.setdefault("softmax_scale", canonical["kv_channels"] ** -0.5)
    hf: dict[str, Any] = {"model_type": model_type, "architectures": [hf_class]}
    defaults = class_defaults(model_type)
    for rule in declaration.rules:
        encoded = rule.encode(TransformerConfig(**canonical))
        if not isinstance(rule, Only) or rule.key in defaults:
            hf.update(encoded)
    for choice in chosen.values():
        hf.update(choice.hf)
        for key in choice.without:
            del hf[key]
    config = from_hf(hf).transformer
    config = replace(config, **{part: type(getattr(config, part))(0) for part in off})
    labels = {name: choice.label for name, choice in chosen.items()}
    return Variant(model_type, number, hf_class, tuple(off), hf, config, labels)
