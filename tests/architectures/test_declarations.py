"""The declarations themselves: well formed, complete, and without a key that changes numbers behind our back."""

from __future__ import annotations

import string
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindport.architectures import Architecture, architecture, model_types, rope
from mindport.architectures.naming import spellings, tensor_map
from mindport.architectures.vocabulary import Field, Ignored
from mindport.config.audit import UNHANDLED, audit
from mindport.config.hf import from_hf, with_defaults
from mindport.layout import Stored
from mindport.schema import TransformerConfig, count_parameters, indices, slots_of
from mindport.schema.slots import INDICES
from mindport.targets import NATIVE
from mindport.targets.native import STACKED
from mindport.verify.gates import STRICT
from mindport.verify.parity import forward_parity

from .generator import ROPE_SCALINGS, SHAPES, VALUES, Variant, axes, variants
from .random_model import Prepared, run_torch

each_architecture = pytest.mark.parametrize("model_type", model_types())

OTHER_VALUES = {"_attn_implementation": "sdpa", "sliding_window": 7}
"""Ignored keys whose other values cannot be guessed -> one."""

UNPERTURBED = {"return_dict": "the form of what is returned, on which the comparison itself relies"}
"""Ignored keys that modeling code reads and that are not set to another value here -> why that is right."""


def placeholders(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}


def tables(declaration: Architecture) -> list[Mapping[str, str | Stored]]:
    """All tables of tensors of an architecture."""
    conditional = [table for _, table in declaration.conditional]
    return [declaration.tensors, *conditional, *declaration.alternatives]


@each_architecture
def test_templates(model_type: str) -> None:
    declaration = architecture(model_type)
    known = {"base", "p", "T", *INDICES}
    for template, made_of in (item for table in tables(declaration) for item in table.items()):
        names = placeholders(template)
        assert names <= known, template
        own = {"M" if name == "T" else name for name in names - {"base"}}
        for part in (made_of,) if isinstance(made_of, str) else made_of.parts:
            assert placeholders(part) >= own, (template, part)
            # What a layer has many of may lie in one tensor.
            assert placeholders(part) - own <= (set() if isinstance(made_of, str) else set(STACKED)), (template, part)
    listed = [declaration.unused, declaration.tied, *(c.unused for c in declaration.classes.values())]
    for template in (template for names in listed for template in names):
        assert placeholders(template) <= known, template


@each_architecture
def test_spellings_change_names(model_type: str) -> None:
    """No two spellings write all names alike, or one of them says nothing."""
    declaration = architecture(model_type)
    everything = {
        spelling: tuple(
            name for variant in variants(model_type) for name in tensor_map(declaration, variant.config, spelling)
        )
        for spelling in spellings(declaration)
    }
    assert len(set(everything.values())) == len(everything)


def filled(template: str, base: str, config: TransformerConfig) -> set[str]:
    """Names that a template stands for."""
    return {
        template.format(base=base, **index, T=config.num_layers, p=p)
        for index in indices(template, config)
        for p in ("weight", "bias")
    }


@each_architecture
def test_every_tensor_is_used(model_type: str) -> None:
    """Each declared tensor is part of some test model, and so is each slot that a copy repeats."""
    declaration = architecture(model_type)
    usual = next(spellings(declaration))
    used, slots = set(), set()
    for variant in variants(model_type):
        for table in range(1 + len(declaration.alternatives)):
            used |= set(tensor_map(declaration, variant.config, replace(usual, table=table)))
        slots |= set(slots_of(variant.config))
    for template in (template for table in tables(declaration) for template in table):
        assert any(filled(template, usual.base, variant.config) & used for variant in variants(model_type)), template
    assert set(declaration.tied.values()) <= slots


def test_every_slot_is_filled_once(variant: Variant) -> None:
    """The slots of the model, of the Hugging Face file and of the native target are the same, each one once."""
    declaration = architecture(variant.model_type)
    wanted = dict.fromkeys(slots_of(variant.config), 1)
    assert count_parameters(variant.config) == sum(prod(shape) for shape in slots_of(variant.config).values())

    def parts(tensors: dict[str, Stored]) -> Counter[str]:
        return Counter(part for stored in tensors.values() for part in stored.parts)

    for spelling in spellings(declaration):
        assert parts(tensor_map(declaration, variant.config, spelling)) == wanted
    assert parts(NATIVE.parameters(variant.config)) == wanted


@each_architecture
def test_every_field_is_set_once(model_type: str) -> None:
    declaration = architecture(model_type)
    values = with_defaults({}, declaration)
    rules = [name for rule in declaration.rules for name in rule.decode(values)]
    for hf_class in declaration.classes.values():
        counts = Counter([*declaration.constants, *declaration.computed, *hf_class.fields, *rules])
        assert not [name for name, count in counts.items() if count > 1]


@each_architecture
def test_every_key_has_one_rule(model_type: str) -> None:
    rules = architecture(model_type).rules
    counts = Counter(key for rule in rules for key in (*rule.keys, *rule.aliases))
    assert not [key for key, count in counts.items() if count > 1]


@each_architecture
def test_variants_cover_every_choice(model_type: str) -> None:
    """Whatever a declaration lets vary does vary; a number without a test value is one nobody would miss."""
    made = variants(model_type)
    for axis in axes(model_type):
        assert {variant.choices[axis.name] for variant in made} == {choice.label for choice in axis.choices}, axis.name
    targets = {rule.targets[0] for rule in architecture(model_type).rules if isinstance(rule, Field)}
    shapes = set(SHAPES["odd"])
    numbers = {
        t
        for r in architecture(model_type).rules
        if isinstance(r, Field) and r.kind in (int, float)
        for t in r.targets[:1]
    }
    assert numbers <= shapes | set(VALUES), "add a value to VALUES or SHAPES"
    configs = [variant.config for variant in made]
    if "kv_channels" in targets:
        assert any(c.kv_channels * c.num_attention_heads != c.hidden_size for c in configs)
    if "num_query_groups" in targets:
        assert any(1 < c.num_query_groups < c.num_attention_heads for c in configs)
        assert any(c.num_query_groups == 1 for c in configs)


def test_every_rope_scaling_has_test_values() -> None:
    assert {name.split(",")[0] for name in ROPE_SCALINGS} == {"default", *rope._REQUIRED}
    for kind in rope._REQUIRED:
        given = [set(keys) for name, keys in ROPE_SCALINGS.items() if name.split(",")[0] == kind]
        assert set(rope._REQUIRED[kind]) <= set.intersection(*given)


def test_every_key_is_accounted_for(model: Prepared) -> None:
    """Nothing that the config class has, or that transformers writes, is a key nobody has looked at."""
    import transformers

    described = model.conversion.config.model
    assert [row.key for row in audit(described) if row.status == UNHANDLED] == []
    full = transformers.AutoConfig.for_model(model.variant.model_type).to_dict()
    assert [row.key for row in audit(from_hf(full)) if row.status == UNHANDLED] == []


@each_architecture
def test_a_rule_determines_the_same_fields_whatever_its_keys_say(model_type: str) -> None:
    """The reference of `TransformerConfig` lists the keys of each field from the class defaults alone."""
    declaration = architecture(model_type)
    defaults = with_defaults({}, declaration)
    for variant in variants(model_type):
        values = with_defaults(variant.hf, declaration)
        for rule in declaration.rules:
            assert rule.decode(values).keys() == rule.decode(defaults).keys(), (str(variant), rule.keys)


def trace(config: Any) -> set[str]:
    """The attributes of a config that the code of transformers reads from now on, apart from the config's own code."""
    read: set[str] = set()

    class Traced(type(config)):  # type: ignore[misc]
        def __getattribute__(self, name: str) -> Any:
            reader = sys._getframe(1).f_globals.get("__name__", "")
            if reader.startswith("transformers.") and reader != "transformers.configuration_utils":
                read.add(name)
            return super().__getattribute__(name)

    config.__class__ = Traced
    return read


def test_ignored_keys_change_nothing(model: Prepared) -> None:
    """An ignored key that modeling code reads is set to another value: the outputs stay."""
    import transformers

    variant, declaration = model.variant, architecture(model.variant.model_type)
    batches = model.batches
    cls = getattr(transformers, variant.hf_class)
    state = cls.from_pretrained(model.source).state_dict()

    def outputs(config: Any) -> dict[str, Mapping[str, np.ndarray]]:
        network = cls(config)
        network.load_state_dict(state)
        return {batch.name: run_torch(network.eval(), batch) for batch in batches}

    def load() -> Any:
        config = transformers.AutoConfig.from_pretrained(model.source)
        config._attn_implementation = declaration.reference_attention
        return config

    config = load()
    traced = trace(config)
    wanted = outputs(config)
    read = {key for key in traced if isinstance(declaration.rule_for(key), Ignored)}
    assert traced - read, "nothing was traced"
    if not cls._supports_sdpa:
        read.discard("_attn_implementation")  # there is no other
    for key in sorted(read - UNPERTURBED.keys()):
        if OTHER_VALUES.get(key) == "sdpa" and not cls._supports_sdpa:
            continue  # transformers has none but the plain one on every device
        config = load()
        value = getattr(config, key, False)
        if key in OTHER_VALUES:
            other = OTHER_VALUES[key]
        else:
            assert isinstance(value, int | float), f"{key}: say another value than {value!r}"
            other = not value if isinstance(value, bool) else value + 1
        try:
            setattr(config, key, other)
        except ValueError:  # transformers' own refusal, of what this implementation of attention cannot return
            continue
        found = outputs(config)
        for apart in forward_parity(batches, lambda b: found[b.name], lambda b: wanted[b.name]):  # noqa: B023
            assert apart.passes(STRICT), f"{key} changes the outputs: {apart}"


def test_no_architecture_is_named() -> None:
    """What these tests know about architectures they know from the declarations."""
    for path in Path(__file__).parent.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        for model_type in model_types():
            assert f'"{model_type}"' not in text, f"{path.name} names {model_type}"


@each_architecture
def test_declarations_are_short(model_type: str) -> None:
    """What needs more than this needs a word in the vocabulary."""
    module = sys.modules[type(architecture(model_type)).__module__.rsplit(".", 1)[0]]
    path = Path(str(module.__file__)).parent / f"{model_type.replace('-', '_')}.py"
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 110
