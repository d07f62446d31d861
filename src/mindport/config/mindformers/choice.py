"""The training graph of MindFormers that the YAML of a model is written for."""

from __future__ import annotations

from mindport.architectures import model_types
from mindport.config.hf import ModelConfig
from mindport.targets.mindformers.choice import family_for, why_not
from mindport.targets.mindformers.graphs import GRAPHS, Graph
from mindport.targets.mindformers.limits import BEYOND, within
from mindport.targets.mindformers.versions import LEGACY, Version


def model_within(model: ModelConfig, seq_length: int) -> ModelConfig:
    """The same model as far as sequences of no more than so many tokens show it; see `within`."""
    config = within(model.transformer, seq_length)
    return model.with_transformer(**{name: getattr(config, name) for name in BEYOND})


def chosen_graph(
    model: ModelConfig, version: Version, generation: str | None, name: str | None, *, weights: bool = False
) -> Graph:
    """The graph to write for: of the given generation, or else of the first that will do.

    One that only stands in for the model (TeleChat3's for a Llama) is the last choice where nobody asks for it.

    Args:
        weights: the graph is to be given weights too, not a YAML alone.

    Raises:
        MindportError: none will do, with the reasons, and what would.
    """
    config = model.transformer
    reasons = {
        candidate: why_not(config, version, candidate, name, weights=weights)
        for candidate in ((generation,) if generation else version.generations)
    }
    able = [candidate for candidate, against in reasons.items() if not against]
    graphs = [_graph(model, version, candidate, name, weights) for candidate in able]
    if graphs:
        declared = model_types()
        return min(graphs, key=lambda graph: graph.generation != LEGACY and graph.name not in declared)
    return _graph(model, version, min(reasons, key=lambda candidate: len(reasons[candidate])), name, weights)


def _graph(model: ModelConfig, version: Version, generation: str, name: str | None, weights: bool) -> Graph:
    family = family_for(model.transformer, version, generation, name, weights=weights)
    return GRAPHS[family.generation, family.name]
