"""Which training graph of MindFormers a model goes to: by what the graphs compute, not by their names."""

from __future__ import annotations

from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.schema import TransformerConfig
from mindport.targets.mindformers.graphs import GRAPHS
from mindport.targets.mindformers.limits import absent, refusals, within
from mindport.targets.mindformers.versions import FAMILIES, VERSIONS, Family, Version

MOST_REASONS = 6
"""Told in a message."""


def family_for(
    config: TransformerConfig,
    version: Version,
    generation: str,
    name: str | None = None,
    *,
    own: str | None = None,
    weights: bool = True,
) -> Family:
    """The family whose training graph computes this model.

    Of several it is the one of the model's own name, else the first in the table of families: those that MindFormers
    has, those of the plug-in, and last those that would only stand in for a model of another name.

    Args:
        name: MindFormers' name of the only family that will do; None = any.
        own: the name that models of this kind have; None = no matter.
        weights: the graph is to be given weights too, not a YAML alone.

    Raises:
        MindportError: there is none; with the reasons of the one that comes closest, and with what would do.
    """
    if name is not None and (generation, name) not in GRAPHS:
        raise MindportError(
            tr("There is no {generation} graph {name}.", generation=generation, name=name),
            tr("Choose one of {names}.", names=", ".join(known for of, known in GRAPHS if of == generation)),
        )
    for family in sorted(version.families(generation), key=lambda family: family.name != own):
        if name in (None, family.name) and not refusals(config, family, version, weights=weights):
            return family
    raise MindportError(
        tr(
            "No training graph of MindFormers {version} ({generation}) computes this model: {reasons}",
            version=version.name,
            generation=generation,
            reasons=_told(why_not(config, version, generation, name, own=own, weights=weights)),
        ),
        _advice(config, weights=weights),
    )


def _told(reasons: list[str]) -> str:
    """So many reasons that a message can be read; a model of another kind has dozens."""
    rest = len(reasons) - MOST_REASONS
    more = [tr("And {count} more.", count=rest)] if rest > 0 else []
    return " ".join([*reasons[:MOST_REASONS], *more])


def why_not(
    config: TransformerConfig,
    version: Version,
    generation: str,
    name: str | None = None,
    *,
    own: str | None = None,
    weights: bool = True,
) -> list[str]:
    """Why no training graph of a generation computes this model: the reasons of the one of its own name, or else of the
    nearest; empty if one does.

    Arguments as of `family_for`.
    """
    known = [family for family in FAMILIES if family.generation == generation and name in (None, family.name)]
    present = [family for family in known if family.trains(version)]
    found = [refusals(config, family, version, weights=weights) for family in present]
    if [] in found:
        return []
    if not version.families(generation):
        return [
            tr(
                "MindFormers {version} trains nothing in its {generation} generation.",
                version=version.name,
                generation=generation,
            )
        ]
    for family in known:  # that a later version has what is missing is the best advice
        since = VERSIONS.get(family.trained_since or "")
        if family not in present and since and not refusals(config, family, since, weights=weights):
            return [absent(family, version)]
    if not found:
        return [absent(family, version) for family in known]
    described = {
        family.name: reasons
        for family, reasons in zip(present, found, strict=True)
        if (generation, family.name) in GRAPHS
    }
    return described.get(own or "") or min(described.values() or found, key=len)


def ways(config: TransformerConfig, *, weights: bool = True) -> list[tuple[str, str]]:
    """Every (version, generation) that has a training graph for this model, new versions first."""
    return [
        (version.name, generation)
        for version in reversed(VERSIONS.values())
        for generation in version.generations
        if any(not refusals(config, family, version, weights=weights) for family in version.families(generation))
    ]


def _advice(config: TransformerConfig, *, weights: bool) -> str:
    """What would do: each generation with the first and the last version in which it does."""
    found: dict[str, list[str]] = {}
    for version, generation in ways(config, weights=weights):
        found.setdefault(generation, []).insert(0, version)
    window = config.window_size
    if not found and window and ways(within(config, window), weights=weights):
        return tr("Train on sequences of at most {window} tokens, which do not show the window.", window=window)
    if not found:
        return tr("No version of MindFormers computes this model without a change; Mindport's native target does.")
    spans = (
        f"{generation} ({' - '.join(dict.fromkeys((names[0], names[-1])))})" for generation, names in found.items()
    )
    return tr("What would do: {ways}.", ways=", ".join(spans))
