"""The tables of class defaults against the config classes of the installed transformers."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import fields
from typing import Any

import pytest

from mindport.architectures import architecture, class_defaults, model_types
from mindport.architectures.vocabulary import Computed, Field, Ignored, Joint
from mindport.config.hf import from_hf, with_defaults
from mindport.schema import TransformerConfig

from .generator import real_classes, variants

each_architecture = pytest.mark.parametrize("model_type", model_types())


def config_class(model_type: str, **keys: Any) -> Any:
    import transformers

    return transformers.AutoConfig.for_model(model_type, **deepcopy(keys))  # it writes into its RoPE settings


@each_architecture
def test_an_empty_config_is_the_class_default(model_type: str) -> None:
    """Nothing but the model_type means what transformers makes of it, for every class."""
    full = config_class(model_type).to_dict()
    for name in real_classes(architecture(model_type)):
        named = {"model_type": model_type, "architectures": [name]}
        assert from_hf(named).transformer == from_hf({**full, **named}).transformer


@each_architecture
def test_every_rule_reads_the_same_defaults(model_type: str) -> None:
    declaration = architecture(model_type)
    ours = with_defaults({}, declaration)
    theirs = with_defaults(config_class(model_type).to_dict(), declaration)
    unsaid = {f.name: f.default for f in fields(TransformerConfig)}
    for rule in declaration.rules:
        assert {**unsaid, **rule.decode(ours)} == {**unsaid, **rule.decode(theirs)}, rule.keys


@each_architecture
def test_the_table_is_complete(model_type: str) -> None:
    table = class_defaults(model_type)
    lacking = [
        key
        for rule in architecture(model_type).rules
        if isinstance(rule, Field | Computed | Joint) and not getattr(rule, "derive", None)
        for key in rule.keys
        if key not in table
    ]
    assert not lacking


@each_architecture
def test_the_table_says_nothing_else(model_type: str) -> None:
    declaration, config = architecture(model_type), config_class(model_type)
    known = config.to_dict()
    for key, value in class_defaults(model_type).items():
        rule = declaration.rule_for(key)
        assert rule is not None, f"{key}: no rule reads it"
        if len(rule.keys) > 1 and not isinstance(rule, Ignored | Joint):
            continue  # an older spelling, compared as a whole above
        assert key in known, f"{key}: the class does not have it"
        derived = value is None and (isinstance(rule, Joint) or (isinstance(rule, Field) and rule.derive is not None))
        assert derived or known[key] == value, key


@each_architecture
def test_derived_values_are_those_of_transformers(model_type: str) -> None:
    """A key that is null is derived here as there, in every test model."""
    declaration = architecture(model_type)
    for variant in variants(model_type):
        given = {key: value for key, value in variant.hf.items() if key not in ("model_type", "architectures")}
        theirs = config_class(model_type, **given)
        ours = with_defaults(variant.hf, declaration)
        for rule in declaration.rules:
            if isinstance(rule, Field) and rule.derive and variant.hf.get(rule.key) is None:
                found = getattr(theirs, rule.key, None)
                assert found is None or found == ours[rule.key], (str(variant), rule.key)


@each_architecture
def test_other_spellings_are_those_of_transformers(model_type: str) -> None:
    declaration = architecture(model_type)
    given = variants(model_type)[0].hf
    for rule in declaration.rules:
        for alias in rule.aliases:
            (key,) = rule.keys
            found = getattr(config_class(model_type, **{alias: given[key]}), key)
            assert str(found).removeprefix("torch.") == str(given[key]), alias
    for alias, key in config_class(model_type).attribute_map.items():
        owner = declaration.rule_for(key)
        assert owner is not None, key
        assert isinstance(owner, Ignored) or alias in owner.aliases, f"{alias} is another spelling of {key}"
