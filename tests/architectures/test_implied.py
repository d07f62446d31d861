"""Every size, count and switch of every declaration, set wrong: the tensors tell what it should be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mindport.architectures import model_types
from mindport.architectures.naming import Spelling, spellings, tensor_map
from mindport.architectures.vocabulary import Field
from mindport.checkpoint.fit import Fit
from mindport.checkpoint.implied import Implied, implied
from mindport.checkpoint.match import spelling_of, with_optional_parts
from mindport.checkpoint.source import Checkpoint, TensorEntry
from mindport.config.hf import ModelConfig, from_hf, with_defaults
from mindport.errors import MindportError
from mindport.schema import slots_of

from .generator import Variant, all_variants, variants

each_architecture = pytest.mark.parametrize("model_type", model_types())


def headers(model: ModelConfig, spelling: Spelling) -> dict[str, TensorEntry]:
    """The tensors of a checkpoint of this model, without a file."""
    shapes = slots_of(model.transformer)
    return {
        name: TensorEntry(name, "F32", stored.shape([shapes[part] for part in stored.parts]), Path("none"), 0)
        for name, stored in tensor_map(model.declaration, model.transformer, spelling).items()
    }


def guess(hf: dict[str, Any], source: Checkpoint) -> list[Implied]:
    model = from_hf(hf)
    spelling = spelling_of(model, source)
    return implied(with_optional_parts(model, spelling, source), spelling, source)


def wrong_configs(variant: Variant) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """(key, right value, config) with one key of a field changed, where another value is one of a model."""
    model = from_hf(variant.hf)
    values = with_defaults(variant.hf, model.declaration)
    for rule in model.declaration.rules:
        if not isinstance(rule, Field):
            continue
        value = values[rule.key]
        others = [not value] if isinstance(value, bool) else [2 * value, value + 1] if isinstance(value, int) else []
        for other in others:
            hf = {key: v for key, v in variant.hf.items() if key not in rule.aliases} | {rule.key: other}
            try:
                from_hf(hf)
            except MindportError:
                continue
            yield rule.key, value, hf
            break


@pytest.mark.parametrize("variant", all_variants(), ids=str)
def test_a_right_config_implies_nothing(variant: Variant) -> None:
    model = from_hf(variant.hf)
    for spelling in spellings(model.declaration, model.hf):
        source = headers(model, spelling)
        fit = Fit(model.declaration, model.declared_class, spelling, source, model.transformer)
        assert fit.needed(model.transformer) == fit.found, "the templates say the same as the table of tensors"
        assert fit.misfits(model.transformer) == 0
        assert implied(model, spelling, source) == []


@each_architecture
def test_a_wrong_key_is_among_those_named(model_type: str) -> None:
    tried = 0
    for variant in variants(model_type)[:2]:
        model = from_hf(variant.hf)
        source = headers(model, next(spellings(model.declaration, model.hf)))
        for key, right, hf in wrong_configs(variant):
            other = from_hf(hf)
            spelling = spelling_of(other, source)
            if headers(with_optional_parts(other, spelling, source), spelling).items() <= source.items():
                continue  # what it changes is in no shape; or there is one tensor more, which may be a tied copy
            found = guess(hf, source)
            assert found, (str(variant), key)
            named = {(one.keys, one.tensors) for one in (found[0], *found[0].alternatives)}
            assert ((key,), right) in named, (str(variant), key, found)
            assert len(found) == 1, (str(variant), key, found)
            tried += 1
    assert tried >= 8


@each_architecture
def test_lists_with_an_entry_for_each_layer_follow(model_type: str) -> None:
    for variant in variants(model_type):
        layers = variant.config.num_layers
        lists = {key: value for key, value in variant.hf.items() if isinstance(value, list) and len(value) == layers}
        key = next(
            r.key for r in from_hf(variant.hf).declaration.rules if isinstance(r, Field) and r.to == "num_layers"
        )
        if not lists.keys() & {"layer_types"}:
            continue
        source = headers(from_hf(variant.hf), next(spellings(from_hf(variant.hf).declaration, variant.hf)))
        longer = {name: [*value, value[-1]] for name, value in lists.items() if name == "layer_types"}
        (found,) = guess({**variant.hf, **longer, key: layers + 1}, source)
        assert (found.keys, found.tensors) == ((key,), layers)
        return
