"""The training graph of MindFormers that the YAML of a model is written for."""

from __future__ import annotations

from mindport.architectures import model_types
from mindport.config.hf import ModelConfig
from mindport.targets.mindformers.choice import family_for, why_not
from mindport.targets.mindformers.graphs import GRAPHS, Graph
from mindport.targets.mindformers.limits import BEYOND, within
from mindport.targets.mindformers.versions import LEGACY, Family, Version


def model_within(model: ModelConfig, seq_length: int) -> ModelConfig:
    """The same model as far as sequences of no more than so many tokens show it; see `within`."""
    config = within(model.transformer, seq_length)
    return model.with_transformer(**{name: getattr(config, name) for name in BEYOND})


def chosen_graph(
    model: ModelConfig, version: Version, generation: str | None, name: str | None, *, weights: bool = False
) -> Graph:
    """The graph to write for: of the given generation, or else of the first that will do.

    Where nobody asks for a generation, one that needs the plug-in comes after those that MindFormers has itself, and
    one that only stands in for the model (TeleChat3's for a Llama) last.

    Args:
        weights: the graph is to be given weights too, not a YAML alone.

    Raises:
        MindportError: none will do, with the reasons, and what would.
    """
    config = model.transformer
    reasons = {
        candidate: why_not(config, version, candidate, name, own=model.model_type, weights=weights)
        for candidate in ((generation,) if generation else version.generations)
    }
    able = [candidate for candidate, against in reasons.items() if not against]
    families = [_family(model, version, candidate, name, weights) for candidate in able]
    if not families:
        nearest = min(reasons, key=lambda candidate: len(reasons[candidate]))
        families = [_family(model, version, nearest, name, weights)]
    chosen = min(families, key=_rank)
    return GRAPHS[chosen.generation, chosen.name]


def _rank(family: Family) -> int:
    """0: MindFormers' own graph for such models; 1: the plug-in's; 2: one for models of another name."""
    declared = model_types()
    if family.plugin:
        return 1
    return 0 if family.generation == LEGACY or family.name in declared else 2


def _family(model: ModelConfig, version: Version, generation: str, name: str | None, weights: bool) -> Family:
    return family_for(model.transformer, version, generation, name, own=model.model_type, weights=weights)
