"""How well a config fits the tensors of a checkpoint: counted from templates, without naming every expert of a layer.

`plan` places each tensor and is exact. This is for trying many configs on one checkpoint, which may have tens of
thousands of tensors: of experts and heads only those numbers are looked at with which a count can begin or end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import product
from math import prod
from typing import Any

from mindport.architectures import Architecture, HFClass
from mindport.architectures.naming import Spelling, tensors_of
from mindport.checkpoint.source import Checkpoint
from mindport.layout import Stored
from mindport.layout.ops import Shape
from mindport.layout.shape import evaluate
from mindport.schema import SLOTS, TransformerConfig
from mindport.schema.slots import INDICES

Place = tuple[str, tuple[int, ...]]
"""A tensor's name with its numbers taken out, and the numbers."""

Needed = dict[Place, Shape]
"""Tensors by their places, with shapes."""

_SLOTS = {slot.name: slot for slot in SLOTS}
_LAYER, _MODULE_LAYER, _MODULE = "L", "T", "M"
_THINNED = tuple(letter for letter in INDICES if letter not in (_LAYER, _MODULE))
"""Placeholders of which only some numbers are looked at: all tensors that differ in them alone are alike."""

_FIELDS = {f.name for f in fields(TransformerConfig)}
_ZEROS = dict.fromkeys(INDICES, 0)

_NUMBER = re.compile(r"[0-9]+|\x00(.)\x00")
_LONGEST = 4
"""Digits of a number that counts layers, experts or modules."""

_MOST_PARTS = 10**5
"""Slots of one tensor; a hostile shape asks for more experts than memory can list."""

_FEW = 16
"""Ends of numbers between which differences count, too."""


@dataclass(frozen=True)
class _Template:
    """A declared tensor name in one spelling: the name with `#` for numbers, and what each number is.

    Args:
        numbers: a placeholder, or a number that is part of the name.
        made_of: slot templates, with weight or bias filled in.
    """

    name: str
    numbers: tuple[str | int, ...]
    made_of: Stored

    @property
    def letters(self) -> tuple[str, ...]:
        """Placeholders to count through; the layer of a module follows from the module."""
        named = (_MODULE if n == _MODULE_LAYER else n for n in self.numbers if isinstance(n, str))
        return tuple(dict.fromkeys(named))

    def place(self, index: Mapping[str, int]) -> Place:
        return self.name, tuple(index[n] if isinstance(n, str) else n for n in self.numbers)


class _Watched(TransformerConfig):
    """A config that remembers which of its fields were read."""

    def __getattribute__(self, name: str) -> Any:
        if name in _FIELDS:
            vars(self)["_read"].add(name)
        return super().__getattribute__(name)


class Fit:
    """The tensors of one checkpoint, to hold configs of one architecture and class against.

    Args:
        config: the config as it is; its counts are among the numbers looked at.
    """

    def __init__(
        self,
        declaration: Architecture,
        hf_class: HFClass,
        spelling: Spelling,
        source: Checkpoint,
        config: TransformerConfig,
    ) -> None:
        self._declaration, self._hf_class, self._spelling = declaration, hf_class, spelling
        placed = {_place(name): entry.shape for name, entry in source.items()}
        positions = {
            (t.name, i): letter
            for t in self._templates(config)
            for i, letter in enumerate(t.numbers)
            if letter in _THINNED
        }
        counts: dict[str, set[int]] = {letter: {0, 1} for letter in _THINNED}
        for (name, numbers), _ in placed.items():
            for i, number in enumerate(numbers):
                letter = positions.get((name, i))
                if letter:
                    counts[str(letter)].add(number + 1)
        self._kept = {}
        for letter, found in counts.items():
            ends = {max(found), getattr(config, INDICES[letter])}
            self._kept[letter] = {0, *(n for end in ends for n in (end - 1, end))}
        self.found: Needed = {
            (name, numbers): shape
            for (name, numbers), shape in placed.items()
            if all(n in self._kept.get(str(positions.get((name, i))), (n,)) for i, n in enumerate(numbers))
        }
        declared = {template.name for template in self._templates(config)}
        counted = _ends(place for place in placed if place[0] in declared)
        self.numbers = tuple(n for n in counted if n <= len(placed))  # whatever is counted has a tensor each

    def misfits(self, config: TransformerConfig) -> int:
        """How many of the tensors looked at are missing, of another shape, or without a place.

        Raises:
            Exception: of any kind, where the config is not one that a model can have.
        """
        needed = self.needed(config)
        spare = self.found.keys() - needed.keys()
        return self.lacking(needed) + (len(spare - self._allowed(config)) if spare else 0)

    def lacking(self, needed: Needed) -> int:
        """How many tensors are missing or of another shape."""
        return sum(self.found.get(place) != shape for place, shape in needed.items())

    def needed(self, config: TransformerConfig) -> Needed:
        """The tensors, of those looked at, that such a model needs, with their shapes.

        As in a conversion, parts of which only the file can tell are needed if it has them.
        """
        return self._needed(self._with_optional_parts(config))

    def _needed(self, config: TransformerConfig) -> Needed:
        result: Needed = {}
        for template in self._templates(config):
            shape, present = None, dict[int, bool]()
            for index in self._indices(template.letters, config):
                layer = index.get(_LAYER, 0)
                if layer not in present:
                    present[layer] = _present(template, config, layer)
                if present[layer]:
                    shape = shape if shape is not None else _shape(template, config)
                    result[template.place(index)] = shape
        return result

    def read(self, config: TransformerConfig) -> set[str]:
        """The fields of which another value could change what is needed: all others are not looked at."""
        watched = object.__new__(_Watched)
        vars(watched).update({**vars(self._with_optional_parts(config)), "_read": set()})
        self._needed(watched)
        return set(vars(watched)["_read"])

    def _with_optional_parts(self, config: TransformerConfig) -> TransformerConfig:
        """The config with the parts switched off that the checkpoint lacks, as a conversion does."""
        off = {}
        for switch, slot in self._hf_class.optional.items():
            holders = (
                template.place(index)
                for template in self._templates(config)
                for part in template.made_of.parts
                if _place(_filled(part, _ZEROS))[0] == _place(slot)[0]
                for index in self._indices(template.letters, config)
                if _filled(part, index) == slot
            )
            if not any(place in self.found for place in holders):
                off[switch] = type(getattr(config, switch))(0)
        return replace(config, **off)

    def _allowed(self, config: TransformerConfig) -> set[Place]:
        """Tensors that a checkpoint may hold besides: copies of tied weights, and what is skipped."""
        unused = {**self._declaration.unused, **self._hf_class.unused}
        tied = {name: Stored((slot,)) for name, slot in self._declaration.tied.items()}
        listed = [*self._parsed(dict.fromkeys(unused, Stored(()))), *self._parsed(tied)]
        return {
            template.place(index)
            for template in listed
            for index in self._indices(template.letters, config)
            if not template.made_of.parts or _present(template, config, index.get(_LAYER, 0))
        }

    def _templates(self, config: TransformerConfig) -> list[_Template]:
        return list(self._parsed(tensors_of(self._declaration, config, self._spelling.table)))

    def _parsed(self, tensors: Mapping[str, str | Stored]) -> Iterator[_Template]:
        marks = {letter: f"\x00{letter}\x00" for letter in (*INDICES, _MODULE_LAYER)}
        for template, made_of in tensors.items():
            stored = Stored((made_of,)) if isinstance(made_of, str) else made_of
            for p in ("weight", "bias") if "{p}" in template else ("",):
                name = self._spelling.write(template.format(base=self._spelling.base, p=p, **marks))
                numbers = tuple(found.group(1) or int(found.group()) for found in _NUMBER.finditer(name))
                parts = tuple(part.replace("{p}", p) for part in stored.parts)
                yield _Template(_NUMBER.sub("#", name), numbers, Stored(parts, stored.ops))

    def _indices(self, letters: Iterable[str], config: TransformerConfig) -> Iterator[dict[str, int]]:
        letters = tuple(letters)
        for values in product(*(self._range(letter, config) for letter in letters)):
            index = dict(zip(letters, values, strict=True))
            yield {**index, _MODULE_LAYER: config.num_layers + index.get(_MODULE, 0)}

    def _range(self, letter: str, config: TransformerConfig) -> Iterable[int]:
        count = getattr(config, INDICES[letter])
        return sorted(n for n in self._kept[letter] if n < count) if letter in self._kept else range(count)


def _present(template: _Template, config: TransformerConfig, layer: int) -> bool:
    """Whether the tensor's slots exist in a layer.

    Raises:
        ValueError: only some of them do.
    """
    slots = [_SLOTS.get(part) for part in template.made_of.parts]
    present = [slot is not None and slot.when(config) and slot.layers(config, layer) for slot in slots]
    if any(present) and not all(present):
        raise ValueError(f"{template.name}: only some of {template.made_of.parts} exist")
    return all(present) and _repetitions(template, config) > 0


def _repetitions(template: _Template, config: TransformerConfig) -> int:
    """How often the parts repeat within one tensor: once for each value of the placeholders that only they have."""
    text = " ".join(template.made_of.parts)
    inner = (letter for letter in INDICES if f"{{{letter}}}" in text and letter not in template.letters)
    return prod(getattr(config, INDICES[letter]) for letter in inner)


def _shape(template: _Template, config: TransformerConfig) -> Shape:
    if _repetitions(template, config) > _MOST_PARTS:
        raise ValueError(f"{template.name}: too many parts")
    shapes = [evaluate(_SLOTS[part].shape, config) for part in template.made_of.parts]
    return template.made_of.bind(config).shape(shapes * _repetitions(template, config))


def _filled(part: str, index: Mapping[str, Any]) -> str:
    for letter, value in index.items():
        part = part.replace(f"{{{letter}}}", str(value))
    return part


def _place(name: str) -> Place:
    texts = re.findall("[0-9]+", name)
    return re.sub("[0-9]+", "#", name), tuple(int(text) if len(text) <= _LONGEST else -1 for text in texts)


def _ends(placed: Iterable[Place]) -> tuple[int, ...]:
    """Where the numbers in names begin and end: what counts of layers, experts and modules can be."""
    spans: dict[tuple[str, int], tuple[int, int]] = {}
    for name, numbers in placed:
        for i, number in enumerate(numbers):
            low, high = spans.get((name, i), (number, number))
            spans[name, i] = min(low, number), max(high, number)
    ends = sorted({end for low, high in spans.values() for end in (low, high + 1)})
    return tuple(sorted({*ends, *(a - b for a in ends[:_FEW] for b in ends[:_FEW] if a > b)}))
