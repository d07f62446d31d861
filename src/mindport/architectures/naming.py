"""Tensor names of a declaration, filled in for one model and one spelling."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from mindport.architectures.registry import class_defaults
from mindport.architectures.vocabulary import Architecture, HFClass, HFConfig, Naming
from mindport.layout import Stored, TensorMap
from mindport.schema import TransformerConfig, indices, slots_of


@dataclass(frozen=True)
class Spelling:
    """How one checkpoint writes the declared names.

    Args:
        base: the bare model's prefix.
        replacements: (declared, written) parts of names, used throughout.
        table: which of the architecture's tables of tensors; 0 is `tensors`, the rest `alternatives`.
    """

    base: str
    replacements: tuple[tuple[str, str], ...] = ()
    table: int = 0

    def write(self, name: str) -> str:
        for declared, written in self.replacements:
            name = name.replace(declared, written)
        return name


def spellings(architecture: Architecture, hf: HFConfig | None = None) -> Iterator[Spelling]:
    """Every declared spelling, the one transformers writes first.

    Args:
        hf: the config as the file has it; where it says which table of names its files follow, only that one.
    """
    tables: Iterable[int] = range(1 + len(architecture.alternatives))
    for rule in architecture.rules:
        if isinstance(rule, Naming) and hf is not None:
            default = class_defaults(architecture.model_type)[rule.key]
            tables = [rule.table[hf.get(rule.key, default)]]
    for table, replacements, base in product(tables, architecture.spellings, architecture.bases):
        yield Spelling(base, replacements, table)


def tensors_of(architecture: Architecture, config: TransformerConfig, table: int) -> Mapping[str, str | Stored]:
    """Tensor template -> what it is made of, in one of the tables that files of such models follow."""
    tensors = architecture.tensors
    for condition, instead in architecture.conditional:
        tensors = _with(tensors, instead) if condition(config) else tensors
    return tensors if table == 0 else _with(tensors, architecture.alternatives[table - 1])


def _with(tensors: Mapping[str, str | Stored], instead: Mapping[str, str | Stored]) -> Mapping[str, str | Stored]:
    """The tensors with some instead of those that are made of the same slots."""
    made = {part for stored in instead.values() for part in _pattern(stored).parts}
    kept = {name: stored for name, stored in tensors.items() if not made & {*_pattern(stored).parts}}
    return {**kept, **instead}


def tensor_map(architecture: Architecture, config: TransformerConfig, spelling: Spelling) -> TensorMap:
    """The tensors a checkpoint of this model holds, in this spelling.

    Returns:
        tensor name -> bound Stored, whose parts are slots of the config.

    Raises:
        ValueError: a tensor only some of whose slots exist (a mistake in the declaration).
    """
    return filled_in(tensors_of(architecture, config, spelling.table), config, spelling)


def filled_in(tensors: Mapping[str, str | Stored], config: TransformerConfig, spelling: Spelling) -> TensorMap:
    """Tensor templates filled in for one model: those whose slots it has.

    Raises:
        ValueError: a tensor only some of whose slots exist.
    """
    slots = slots_of(config)
    result: TensorMap = {}
    for template, made_of in tensors.items():
        pattern = _pattern(made_of).bind(config)
        inner: list[dict[str, int]] | None = None
        for index in _indices(template, config):
            if inner is None:
                inner = _inner(pattern, config, index)
            parts = tuple(part.format(**index, **more) for more in inner for part in pattern.parts)
            present = [part in slots for part in parts]
            if parts and all(present):
                name = spelling.write(template.format(base=spelling.base, **index))
                result[name] = Stored(parts, pattern.ops)
            elif any(present):
                raise ValueError(f"{template}: only some of {parts} exist")
    return result


def _pattern(made_of: str | Stored) -> Stored:
    return Stored((made_of,)) if isinstance(made_of, str) else made_of


def _inner(pattern: Stored, config: TransformerConfig, own: dict[str, Any]) -> list[dict[str, int]]:
    """Every value of the indices that only the parts have, beside those `own` to the tensor's name."""
    found = indices(" ".join(pattern.parts), config, own)
    return [{key: value for key, value in full.items() if key not in own} for full in found]


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
    table = tensors_of(architecture, config, spelling.table)
    own = filled_in({name: table[name] for name in architecture.tied if name in table}, config, spelling)
    return {
        name: slot for name, slot in _filled(architecture.tied, config, spelling) if slot in slots and name not in own
    }


def _filled(listed: Mapping[str, str], config: TransformerConfig, spelling: Spelling) -> Iterable[tuple[str, str]]:
    for template, value in listed.items():
        for index in _indices(template, config):
            yield spelling.write(template.format(base=spelling.base, **index)), value


def _indices(template: str, config: TransformerConfig) -> Iterator[dict[str, Any]]:
    """Values of a tensor template's placeholders; `{T}` is the layer after the last that MTP module `{M}` takes."""
    params: Iterable[str | None] = ("weight", "bias") if "{p}" in template else (None,)
    for index, param in product(indices(template.replace("{T}", "{M}"), config), params):
        yield {**index, "T": config.num_layers + index.get("M", 0), "p": param}
