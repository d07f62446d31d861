"""The training graph of MindFormers that the YAML of a model is written for."""

from __future__ import annotations

from mindport.architectures import model_types
from mindport.config.hf import ModelConfig
from mindport.targets.mindformers.choice import family_for, why_not
from mindport.targets.mindformers.graphs import GRAPHS, Graph
from mindport.targets.mindformers.versions import LEGACY, Family, Version


def chosen_graph(model: ModelConfig, version: Version, generation: str | None, name: str | None) -> Graph:
    """The graph to write for: of the given generation, or else of the first that will do.

    Where nobody asks for a generation, one that needs the plug-in comes after those that MindFormers has itself, and
    one that only stands in for the model (TeleChat3's for a Llama) last.

    Raises:
        MindportError: none will do, with the reasons, and what would.
    """
    config = model.transformer
    reasons = {
        candidate: why_not(config, version, candidate, name, weights=False)
        for candidate in ((generation,) if generation else version.generations)
    }
    able = [candidate for candidate, against in reasons.items() if not against]
    families = [_family(model, version, candidate, name) for candidate in able]
    if not families:
        nearest = min(reasons, key=lambda candidate: len(reasons[candidate]))
        families = [_family(model, version, nearest, name)]
    chosen = min(families, key=_rank)
    return GRAPHS[chosen.generation, chosen.name]


def _rank(family: Family) -> int:
    """0: MindFormers' own graph for such models; 1: the plug-in's; 2: one for models of another name."""
    declared = model_types()
    if family.plugin:
        return 1
    return 0 if family.generation == LEGACY or family.name in declared else 2


def _family(model: ModelConfig, version: Version, generation: str, name: str | None) -> Family:
    return family_for(model.transformer, version, generation, name, own=model.model_type, weights=False)
