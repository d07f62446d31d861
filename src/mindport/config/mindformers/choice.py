"""The training graph of MindFormers that the YAML of a model is written for."""

from __future__ import annotations

from mindport.config.hf import ModelConfig
from mindport.targets.mindformers.choice import family_for, why_not
from mindport.targets.mindformers.graphs import GRAPHS, Graph
from mindport.targets.mindformers.versions import LEGACY, Version


def chosen_graph(model: ModelConfig, version: Version, generation: str | None, name: str | None) -> Graph:
    """The graph to write for: of the given generation, or else of the first that will do.

    One that only stands in for the model (TeleChat3's for a Llama) is the last choice where nobody asks for it.

    Raises:
        MindportError: none will do, with the reasons, and what would.
    """

    def stands_in(candidate: str) -> bool:
        return candidate != LEGACY and (candidate, model.model_type) not in GRAPHS

    config = model.transformer
    candidates = [generation] if generation else sorted(version.generations, key=stands_in)
    # The first without a reason against it; of those that all have some, the one with the fewest.
    nearest = min(candidates, key=lambda one: len(why_not(config, version, one, name, weights=False)))
    family = family_for(config, version, nearest, name, weights=False)
    return GRAPHS[family.generation, family.name]
