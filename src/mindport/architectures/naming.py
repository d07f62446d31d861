"""Tensor names of a declaration, filled in for one model and one spelling."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

from mindport.architectures.vocabulary import Architecture, HFClass
from mindport.layout import Stored, TensorMap
from mindport.schema import TransformerConfig, slots_of


@dataclass(frozen=True)
class Spelling:
    """How one checkpoint writes the declared names: the bare model's prefix, and replacements used throughout."""

    base: str
    replacements: tuple[tuple[str, str], ...] = ()

    def write(self, name: str) -> str:
        for declared, written in self.replacements:
            name = name.replace(declared, written)
        return name


def spellings(architecture: Architecture) -> Iterator[Spelling]:
    """Every declared spelling, the one transformers writes first."""
    for replacements, base in product(architecture.spellings, architecture.bases):
        yield Spelling(base, replacements)


def tensor_map(architecture: Architecture, config: TransformerConfig, spelling: Spelling) -> TensorMap:
    """The tensors a checkpoint of this model holds, in this spelling.

    Returns:
        tensor name -> bound Stored, whose parts are slots of the config.

    Raises:
        ValueError: a tensor only some of whose slots exist (a mistake in the declaration).
    """
    slots = slots_of(config)
    result: TensorMap = {}
    for template, made_of in architecture.tensors.items():
        pattern = Stored((made_of,)) if isinstance(made_of, str) else made_of
        for index in _indices(template, config):
            parts = tuple(part.format(**index) for part in pattern.parts)
            present = [part in slots for part in parts]
            if all(present):
                name = spelling.write(template.format(base=spelling.base, **index))
                result[name] = replace(pattern, parts=parts).bind(config)
            elif any(present):
                raise ValueError(f"{template}: only some of {parts} exist")
    return result


def skipped_tensors(
    architecture: Architecture, hf_class: HFClass, config: TransformerConfig, spelling: Spelling
) -> dict[str, str]:
    """Tensors a file may hold and this class does not read -> reason."""
    listed = {**architecture.unused, **hf_class.unused}
    return dict(_filled(listed, config, spelling))


def tied_copies(architecture: Architecture, config: TransformerConfig, spelling: Spelling) -> dict[str, str]:
    """Tensors a file may hold as copies -> the slot whose values they must equal.

    A name that holds a slot of its own in this model (an untied head) is not a copy.
    """
    slots = slots_of(config)
    own = tensor_map(architecture, config, spelling)
    return {
        name: slot for name, slot in _filled(architecture.tied, config, spelling) if slot in slots and name not in own
    }


def _filled(listed: Mapping[str, str], config: TransformerConfig, spelling: Spelling) -> Iterable[tuple[str, str]]:
    for template, value in listed.items():
        for index in _indices(template, config):
            yield spelling.write(template.format(base=spelling.base, **index)), value


def _indices(template: str, config: TransformerConfig) -> Iterator[dict[str, object]]:
    layers: Iterable[int | None] = range(config.num_layers) if "{L}" in template else (None,)
    params: Iterable[str | None] = ("weight", "bias") if "{p}" in template else (None,)
    for layer, param in product(layers, params):
        yield {"L": layer, "p": param}
