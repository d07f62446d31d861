"""What differs between two configs, and what each difference changes.

Two configs mean the same where their `TransformerConfig`s are equal and they agree on the keys that nobody knows. How a
Hugging Face file spells that (`torch_dtype` or `dtype`, a default written or left out) is no difference in meaning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from math import isnan
from pathlib import Path
from typing import Any

from mindport.architectures.common import Labels
from mindport.architectures.vocabulary import RECORD, RUNTIME, TRAINING, Ignored, Rule
from mindport.config.audit import unhandled_keys
from mindport.config.behind import keys_behind
from mindport.config.hf import ModelConfig
from mindport.config.kinds import HF, Kind, read_config
from mindport.schema import NUMERICS, RUN, TransformerConfig, slots_of
from mindport.schema import TRAINING as TRAINING_ONLY

WEIGHT_SHAPES, UNKNOWN, BOOKKEEPING, SAME = "weight shapes", "unknown", "record", "same meaning"
EFFECTS = (WEIGHT_SHAPES, NUMERICS, UNKNOWN, TRAINING_ONLY, RUN, BOOKKEEPING, SAME)
"""What a difference changes, the gravest first: which weights there are or their shapes; what an evaluation computes;
nobody knows; training; the run; nothing (notes in the file); nothing (another spelling)."""

_OF_LAYER = {TRAINING: TRAINING_ONLY, RUNTIME: RUN, RECORD: BOOKKEEPING}
"""Layer of an ignored key -> effect."""

ADDED, REMOVED, CHANGED = "added", "removed", "changed"


@dataclass(frozen=True)
class Change:
    """One difference.

    Args:
        path: field or key; dots lead into objects and lists.
        change: added, removed or changed, on the way from A to B.
        a, b: the values; None where there is none.
        effect: one of `EFFECTS`.
        fields: of a key: the canonical fields that it changes.
        note: of a key that is ignored: why.
    """

    path: str
    change: str
    a: Any
    b: Any
    effect: str
    fields: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Slots:
    """How many weights B has that A has not, lacks, and has in another shape."""

    added: int
    removed: int
    reshaped: int


@dataclass(frozen=True)
class Side:
    """One of the two configs: kind (`hf` or `native`), model_type and Hugging Face class."""

    path: Path
    kind: str
    model_type: str
    hf_class: str


@dataclass(frozen=True)
class ConfigDiff:
    """The differences of two configs.

    Args:
        fields: of the canonical config.
        keys: of the files, where both are Hugging Face configs of one model_type; else only keys nobody knows.
        slots: of the weights.
    """

    a: Side
    b: Side
    fields: tuple[Change, ...]
    keys: tuple[Change, ...]
    slots: Slots

    @property
    def equal(self) -> bool:
        """Whether both mean the same, as far as anybody knows."""
        return not self.fields and all(change.effect == SAME or change.note for change in self.keys)


def diff(a: Path, b: Path) -> ConfigDiff:
    """Compare two configs, each a file or a folder of any kind.

    Raises:
        MindportError: one of them cannot be read or is not supported.
    """
    (kind_a, one), (kind_b, other) = read_config(a), read_config(b)
    one, other = _told_by_files(kind_a, one, kind_b, other), _told_by_files(kind_b, other, kind_a, one)
    before, after = slots_of(one.transformer), slots_of(other.transformer)
    changes = tuple(_field_changes(one.transformer, other.transformer))
    raw = kind_a is kind_b is HF and one.declaration is other.declaration
    return ConfigDiff(
        Side(a, kind_a.name, one.model_type, one.hf_class),
        Side(b, kind_b.name, other.model_type, other.hf_class),
        changes,
        tuple(_key_changes(one, other, changes) if raw else _unknown_changes(one, other)),
        Slots(
            len(after.keys() - before.keys()),
            len(before.keys() - after.keys()),
            sum(before[name] != after[name] for name in before.keys() & after.keys()),
        ),
    )


def _told_by_files(kind: Kind, model: ModelConfig, other_kind: Kind, other: ModelConfig) -> ModelConfig:
    """The model with those parts of which only the weights tell as the other side has them, which has seen weights."""
    if kind is not HF or other_kind is HF:
        return model
    return model.with_transformer(**{name: getattr(other.transformer, name) for name in model.declared_class.optional})


# --- canonical fields ------------------------------------------------------------------------------------------------


def _field_changes(a: TransformerConfig, b: TransformerConfig) -> Iterator[Change]:
    shapes = _reshaping(a, b)
    for name, effect in TransformerConfig.effects().items():
        effect = WEIGHT_SHAPES if name in shapes else effect
        for path, change, one, other in _differences({name: getattr(a, name)}, {name: getattr(b, name)}):
            yield Change(path, change, one, other, effect)


def _reshaping(a: TransformerConfig, b: TransformerConfig) -> set[str]:
    """The differing fields that have a part in which weights there are, or in their shapes.

    A field has where it alone, set to the other side's value, moves one of the slots that differ.
    """
    before, after = slots_of(a), slots_of(b)
    moved = _moved(before, after)
    if not moved:
        return set()
    differing = _differing(a, b)
    found = set()
    for name in differing:
        for config, slots, value in ((a, before, getattr(b, name)), (b, after, getattr(a, name))):
            try:
                mixed = slots_of(replace(config, **{name: value}))
            except Exception:  # a mixture of two models need not be one; then the field matters to the shapes
                found.add(name)
                break
            if _moved(slots, mixed) & moved:
                found.add(name)
                break
    return found or {name for name in differing if TransformerConfig.effects()[name] == NUMERICS}


def _moved(a: Mapping[str, tuple[int, ...]], b: Mapping[str, tuple[int, ...]]) -> set[str]:
    return {name for name, _ in a.items() ^ b.items()}


def _differing(a: TransformerConfig, b: TransformerConfig) -> set[str]:
    return {f.name for f in fields(a) if not _equal(getattr(a, f.name), getattr(b, f.name))}


# --- keys of Hugging Face configs ------------------------------------------------------------------------------------


def _key_changes(a: ModelConfig, b: ModelConfig, fields_changed: tuple[Change, ...]) -> Iterator[Change]:
    """Every difference of two files of one architecture, in file order."""
    effects = {_head(change.path): change.effect for change in fields_changed}
    behind = [keys_behind(model) for model in (a, b)]
    for key in dict.fromkeys((*a.hf, *b.hf)):
        rule = a.declaration.rule_for(key)
        declared = {*rule.keys} if rule and key in rule.aliases else {key}
        changed = tuple(name for name in effects if any(declared & keys.get(name, set()) for keys in behind))
        effect = min((effects[name] for name in changed), key=EFFECTS.index, default=_unmapped(rule))
        note = rule.reason if isinstance(rule, Ignored) and not changed else ""
        before, after = ({k: m.hf[k] for k in (key,) if k in m.hf} for m in (a, b))
        for path, change, one, other in _differences(before, after):
            yield Change(path, change, one, other, effect, changed, note)


def _unmapped(rule: Rule | None) -> str:
    """What a key changes that changes no field."""
    if rule is None:
        return UNKNOWN
    if isinstance(rule, Ignored):
        return _OF_LAYER.get(rule.layer, UNKNOWN)
    return RUN if isinstance(rule, Labels) else SAME  # as many labels, but other names


def _unknown_changes(a: ModelConfig, b: ModelConfig) -> Iterator[Change]:
    """Differences in keys that no rule knows, which are all that is not in the canonical configs."""
    one, other = ({key: model.hf[key] for key in unhandled_keys(model)} for model in (a, b))
    for path, change, before, after in _differences(one, other):
        yield Change(path, change, before, after, UNKNOWN)


# --- values ----------------------------------------------------------------------------------------------------------


def _differences(a: Mapping[str, Any], b: Mapping[str, Any], inside: str = "") -> Iterator[tuple[str, str, Any, Any]]:
    """(path, change, value in A, value in B) of every leaf that differs. Lists of equal length are gone into where
    they hold objects."""
    for key in dict.fromkeys((*a, *b)):
        path = f"{inside}{key}"
        if key not in b:
            yield path, REMOVED, a[key], None
        elif key not in a:
            yield path, ADDED, None, b[key]
        elif _equal(a[key], b[key]):
            continue
        elif isinstance(a[key], dict) and isinstance(b[key], dict):
            yield from _differences(a[key], b[key], f"{path}.")
        elif _objects(a[key]) and _objects(b[key]) and len(a[key]) == len(b[key]):
            one, other = ({str(i): item for i, item in enumerate(side[key])} for side in (a, b))
            yield from _differences(one, other, f"{path}.")
        else:
            yield path, CHANGED, a[key], b[key]


def _objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _equal(a: Any, b: Any) -> bool:
    """As JSON: true is not 1, 1 is 1.0, NaN is NaN."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, float) and isinstance(b, float) and isnan(a) and isnan(b):
        return True
    return isinstance(a, bool) == isinstance(b, bool) and a == b


def _head(path: str) -> str:
    return path.split(".")[0]


def count_effects(changes: tuple[Change, ...]) -> dict[str, int]:
    """Effect -> how many changes have it, the gravest first."""
    counts = Counter(change.effect for change in changes)
    return {effect: counts[effect] for effect in EFFECTS if counts[effect]}
