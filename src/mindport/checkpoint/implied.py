"""Where config.json contradicts the tensors: which of its keys is wrong, and what the tensors say it is.

No architecture is named. Each key of the config that its declaration reads is a candidate. What value would fit is
solved from the shapes (a dimension is linear in a size, or inversely proportional to a count that divides it), from the
numbers in names, or by flipping a switch; the config with that value is then read as a whole, so that what is derived
from the key follows, and the candidate counts only if tensors fit that did not.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from mindport.architectures.naming import Spelling, spellings
from mindport.architectures.vocabulary import Field, Repeats, Rule
from mindport.checkpoint.fit import Fit, Needed
from mindport.checkpoint.source import Checkpoint
from mindport.config.hf import ModelConfig, canonical, with_defaults
from mindport.i18n import tr
from mindport.schema import TransformerConfig

_MOST_KEYS = 5
"""A config that is wrong in more keys is that of another model."""

_MOST_VALUES = 6
"""Values tried for a key from shapes, the most frequent ones."""


@dataclass(frozen=True)
class Implied:
    """A key of the config that the tensors contradict.

    Args:
        field: the canonical field that it determines.
        keys: the key, as the file spells it, or the keys that say it together.
        config: what config.json says (or its class, where it says nothing): of the key, of the field where there are
            several keys.
        tensors: what the tensors imply.
        explains: how many tensors fit with this value that did not before; of the experts of a layer only a few count.
        alternatives: other keys that explain as many: the tensors cannot tell which of them is wrong.
    """

    field: str
    keys: tuple[str, ...]
    config: Any
    tensors: Any
    explains: int
    alternatives: tuple[Implied, ...] = ()


@dataclass(frozen=True)
class _Knob:
    """Something of the config to turn: a key, or keys that say one canonical field together."""

    rule: Rule
    field: str
    key: str | None
    value: Any


@dataclass(frozen=True)
class _State:
    """A config on the way to one that fits. What no model can have needs no tensors, and nothing fits it."""

    fit: Fit
    hf: Mapping[str, Any]
    config: TransformerConfig

    @cached_property
    def needed(self) -> Needed:
        try:
            return self.fit.needed(self.config)
        except Exception:  # a change of one key alone need not leave a model
            return {}

    @cached_property
    def misfits(self) -> int:
        try:
            return self.fit.misfits(self.config)
        except Exception:  # likewise
            return sys.maxsize

    @cached_property
    def read(self) -> set[str]:
        """The fields that have a part in what is needed."""
        return self.fit.read(self.config)

    def changed(self, other: _State) -> set[str]:
        """The fields that differ."""
        return {f.name for f in fields(self.config) if getattr(self.config, f.name) != getattr(other.config, f.name)}


def implied(model: ModelConfig, spelling: Spelling, source: Checkpoint) -> list[Implied]:
    """The keys that have to change for the tensors to fit, the one that explains most first.

    Each is worked out with those before it set right. Reads headers only.

    Returns:
        empty where all fit; and where a few keys do not explain most of it, or most of what the model then needs is
        not there: these are the tensors of another model.
    """
    fit = _fit(model, spelling, source)
    found, state = _guessed(model, fit)
    for other in spellings(model.declaration, model.hf):
        # With a wrong config, it may not show which of several tables of names the file follows.
        if state and state.misfits and replace(other, table=spelling.table) == spelling != other:
            fit = _fit(model, other, source)
            if replace(state, fit=fit).misfits <= state.misfits:
                more, after = _guessed(model, fit)
                found, state = (more, after) if after and after.misfits < state.misfits else (found, state)
    return found


def _fit(model: ModelConfig, spelling: Spelling, source: Checkpoint) -> Fit:
    return Fit(model.declaration, model.declared_class, spelling, source, model.transformer)


def _guessed(model: ModelConfig, fit: Fit) -> tuple[list[Implied], _State | None]:
    """See `implied`; and the config with all that set right, or as right as it gets."""
    # Keys that may only repeat others would contradict any change; null says nothing.
    repeated = [key for rule in model.declaration.rules if isinstance(rule, Repeats) for key in rule.keys]
    state = first = _read(model, fit, {**model.part.config, **dict.fromkeys(repeated)})
    found: list[Implied] = []
    if state is None or first is None or fit.found.keys().isdisjoint(state.needed):
        return found, state
    while state.misfits and len(found) < _MOST_KEYS:
        best = _best(model, state, {key for one in found for key in one.keys})
        if not best:
            break
        (one, state), *others = best
        found.append(replace(one, alternatives=tuple(other for other, _ in others)))
    explained = 2 * sum(one.explains for one in found) >= fit.lacking(first.needed)
    there = 2 * fit.lacking(state.needed) <= len(state.needed)
    return found if explained and there else [], state


def _best(model: ModelConfig, state: _State, done: set[str]) -> list[tuple[Implied, _State]]:
    """The changes that explain most, of keys that are not done; of several, those with which another explains most."""

    def most(given: _State) -> list[tuple[Implied, _State]]:
        tried = [(one, after) for one, after in _improvements(model, given) if done.isdisjoint(one.keys)]
        least = min((after.misfits for _, after in tried), default=0)
        return [(one, after) for one, after in tried if after.misfits == least]

    best = most(state)
    if len(best) > 1 and best[0][1].misfits:
        reached = [most(after) for _, after in best]
        left = [
            further[0][1].misfits if further else after.misfits
            for further, (_, after) in zip(reached, best, strict=True)
        ]
        best = [one for one, n in zip(best, left, strict=True) if n == min(left)]
    return best


def describe(found: Sequence[Implied]) -> str:
    """One sentence for each key, in the user's language; "" where there are none."""
    sentences = []
    for one in found:
        said = [_value(each) for each in (one, *one.alternatives)]
        text = said[0]
        for other in said[1:]:
            text = tr("{one} or {other}", one=text, other=other)
        sentences.append(tr("The tensors imply {what}.", what=text))
    return " ".join(sentences)


def _value(one: Implied) -> str:
    name = one.keys[0] if len(one.keys) == 1 else one.field
    return tr(
        "{name} = {tensors} (config.json: {config})",
        name=name,
        tensors=json.dumps(one.tensors),
        config=json.dumps(one.config),
    )


def _improvements(model: ModelConfig, state: _State) -> Iterator[tuple[Implied, _State]]:
    """What can be changed so that fewer tensors do not fit, and the config with the change."""
    for knob in _knobs(model, state):
        for value in _values(model, state, knob):
            after = _turned(model, state, knob, value)
            if after and after.misfits < state.misfits:
                yield _named(model, state, knob, value, after), after


def _knobs(model: ModelConfig, state: _State) -> Iterator[_Knob]:
    """Every key of which the value is a number, a switch or nothing; where a rule has none, its first number."""
    values = with_defaults(state.hf, model.declaration)
    for rule in model.declaration.rules:
        fields = rule.decode(values)
        if not fields:
            continue
        scalars = [key for key in rule.keys if key in values and isinstance(values[key], int | None)]
        for key in scalars:
            yield _Knob(rule, next(iter(fields)), key, values[key])
        number = next((name for name, value in fields.items() if type(value) is int), None)
        if number and not scalars:
            yield _Knob(rule, number, None, fields[number])


def _values(model: ModelConfig, state: _State, knob: _Knob) -> list[Any]:
    """Values that could be meant instead of the one that there is."""
    if isinstance(knob.value, bool):
        return [not knob.value]
    if isinstance(knob.rule, Field) and knob.rule.kind is bool:
        return [True, False]
    first = knob.value or 1  # no shape depends on nothing: what depends on any number, one of them shows
    base = state if knob.value else _turned(model, state, knob, first)
    if base is None:
        return []
    for second in (2 * first, 3 * first, first + 1, first // 2):
        probe = _turned(model, state, knob, second)
        if probe and base.read & base.changed(probe) and probe.needed not in ({}, base.needed):
            break
    else:
        return []
    before, after = base.needed, probe.needed
    solved = _solved(state.fit, before, after, first, second)
    found: list[Any] = [*(value for value, _ in solved.most_common(_MOST_VALUES)), 0]
    if not knob.value or before.keys() != after.keys():
        found += [1, *state.fit.numbers]
    if isinstance(knob.rule, Field) and knob.rule.nullable:
        found.append(None)
    return [value for value in dict.fromkeys(found) if value != knob.value]


def _solved(fit: Fit, before: Needed, after: Needed, first: int, second: int) -> Counter[int]:
    """The values with which a dimension would be what it is in the checkpoint, from what it is with two values.

    A dimension is linear in a size, and a + b / n in a number of heads that share out a width.
    """
    found: Counter[int] = Counter()
    for place, one in before.items():
        stored, other = fit.found.get(place), after.get(place)
        if stored is None or other is None or stored == one or not len(stored) == len(one) == len(other):
            continue
        for wanted, a, b in zip(stored, one, other, strict=True):
            if a in (b, wanted):
                continue
            linear = first + Fraction((wanted - a) * (second - first), b - a)
            shared = Fraction((a - b) * first * second, second - first)
            rest = wanted - a + shared / first
            inverse = shared / rest if rest else linear
            found.update(int(value) for value in {linear, inverse} if value > 0 and value.denominator == 1)
    return found


def _turned(model: ModelConfig, state: _State, knob: _Knob, value: Any) -> _State | None:
    """The config with another value of a key, and what follows from it; None where it is not one of a model."""
    if knob.key is not None:
        said = {knob.key: value}
    else:
        said = knob.rule.encode(replace(state.config, **{knob.field: value}))
    hf = {k: v for k, v in state.hf.items() if k not in knob.rule.aliases} | said
    after = _read(model, state.fit, hf)
    if after is None and knob.field == "num_layers":
        after = _read(model, state.fit, {k: _stretched(v, state.config.num_layers, value) for k, v in hf.items()})
    return after


def _stretched(listed: Any, layers: int, wanted: int) -> Any:
    """A list with an entry for each layer, for another number of layers."""
    if not isinstance(listed, list) or len(listed) != layers:
        return listed
    return [*listed, *listed[-1:] * wanted][:wanted]


def _read(model: ModelConfig, fit: Fit, hf: Mapping[str, Any]) -> _State | None:
    try:
        return _State(fit, hf, canonical(hf, model.declaration, model.hf_class))
    except Exception:  # a value that the key cannot have
        return None


def _named(model: ModelConfig, state: _State, knob: _Knob, value: Any, after: _State) -> Implied:
    changed = state.changed(after)
    decided = knob.rule.decode(with_defaults(after.hf, model.declaration))
    field = next((name for name in decided if name in changed), knob.field)
    if knob.key is None:
        keys = tuple(key for key in knob.rule.keys if state.hf.get(key) != after.hf.get(key))
    else:
        keys = (next((k for k in (knob.key, *knob.rule.aliases) if k in model.part.config), knob.key),)
    return Implied(field, keys, knob.value, value, state.misfits - after.misfits)
