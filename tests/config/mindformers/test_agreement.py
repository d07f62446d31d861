"""The YAML and the weights agree on what a training graph of MindFormers can be given, and on which graph it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindport.architectures import model_types
from mindport.config.hf import ModelConfig, from_hf, read_hf_config
from mindport.config.mindformers.choice import chosen_graph
from mindport.config.mindformers.emit import emit
from mindport.errors import MindportError
from mindport.targets.mindformers import (
    LEGACY,
    MCORE,
    VERSIONS,
    Version,
    default_layout,
    family_for,
    target,
    why_not,
)

from ...architectures.generator import variants
from .models import trainable

CORPUS = Path(__file__).parents[3] / ".." / "shared" / "corpus"

PAIRS = [
    (version, generation)
    for version in (VERSIONS[name] for name in ("1.0", "1.3", "1.6", "1.9"))
    for generation in version.generations
    if generation in (MCORE, LEGACY)
]
"""Versions with which what can be trained changes. Of the pynative generation, Mindport writes YAMLs alone."""


def by_yaml(model: ModelConfig, version: Version, generation: str) -> str | None:
    """The graph that a YAML is written for; None where there is none."""
    try:
        assert emit(model, version.name, generation)
    except MindportError:
        return None
    return chosen_graph(model, version, generation, None).name


def by_weights(model: ModelConfig, version: Version, generation: str) -> str | None:
    """The graph that weights are laid out for; None where there is none."""
    try:
        family = family_for(model.transformer, version, generation, own=model.model_type)
    except MindportError:
        return None
    assert target(version, default_layout(generation)).parameters(model.transformer)
    return family.name


def compare(model: ModelConfig) -> int:
    """Hold both against each other; how often there is a graph."""
    possible = 0
    for version, generation in PAIRS:
        written, laid_out = (side(model, version, generation) for side in (by_yaml, by_weights))
        where = (model.model_type, version.name, generation)
        if written is not None and laid_out is None:
            # All that a YAML can ask for and Mindport cannot fill: experts as the first mcore version has them.
            reasons = why_not(model.transformer, version, generation)
            assert (version.name, generation, len(reasons)) == ("1.6", MCORE, 1), (where, reasons)
            assert model.transformer.num_moe_experts
        else:
            assert written == laid_out, where
            possible += written is not None
    return possible


@pytest.mark.parametrize("model_type", model_types())
def test_on_every_variant(model_type: str) -> None:
    for variant in variants(model_type)[::3]:
        compare(from_hf(variant.hf))


@pytest.mark.parametrize("generation", [MCORE, LEGACY])
def test_on_what_can_be_trained(generation: str) -> None:
    models = [model for model, of in trainable() if of == generation][::9]
    assert models
    assert all(compare(model) for model in models)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of public configs is not here")
def test_on_public_configs() -> None:
    possible = 0
    for path in sorted(CORPUS.glob("configs/*.json")):
        try:
            model = read_hf_config(path)
        except MindportError:
            continue
        possible += bool(compare(model))
    assert possible
