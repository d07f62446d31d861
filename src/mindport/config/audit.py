"""The check-up of a config: every key, where it goes, and what happens to it. Nothing is dropped in silence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mindport.architectures import Architecture, class_defaults
from mindport.architectures.quantisation import Quantisation
from mindport.architectures.vocabulary import RECORD, Computed, Field, Ignored, Naming, Only, Repeats
from mindport.config.hf import ModelConfig, with_defaults

MAPPED, DERIVED, IGNORED, UNHANDLED = "mapped", "derived", "ignored", "unhandled"

ONLY_VALUE = "the only value the native model expresses"
"""Note on a key that was checked and maps to nothing."""

REPEATS = "repeats what other keys say"
"""Note on a key that was checked against others."""

NAMES = "says how the file names its tensors"
"""Note on a key that chooses among tables of names."""

DEQUANTISED = "block-scaled fp8: dequantised on conversion, and left out of what is exported"
"""Note on a config of quantised weights."""

NOT_QUANTISED = "the weights are not quantised"
"""Note on a key that says nothing of quantisation."""

ASSUMED_CLASS = "the config names no class; this one is assumed"
"""Note on the class of a config that leaves it out."""


@dataclass(frozen=True)
class Row:
    """One key of a config.

    Args:
        key, value: as in the file, or the class default.
        layer: structure, training, runtime or record; "" where unknown.
        origin: "file", "class default", or "formula" for values no key holds.
        status: mapped, derived, ignored or unhandled.
        to: canonical fields it determines -> value.
        note: the reason why a key maps to nothing.
    """

    key: str
    value: Any
    layer: str
    origin: str
    status: str
    to: Mapping[str, Any]
    note: str = ""


def audit(model: ModelConfig) -> list[Row]:
    """Every key of the text model's config, in file order; class defaults that matter; then what formulas add."""
    declaration, hf = model.declaration, model.part.config
    values = with_defaults(hf, declaration)
    rows = [_row(declaration, key, hf[key], "file", values) for key in hf]
    spelled = {key for key in hf for rule in (declaration.rule_for(key),) if rule for key in rule.keys}
    for rule in declaration.rules:
        for key in rule.keys:
            if key in values and key not in spelled and not isinstance(rule, Ignored):
                row = _row(declaration, key, class_defaults(model.model_type).get(key), "class default", values)
                rows += [row] if row.to else []
    if not hf.get("architectures"):
        rows.append(Row("architectures", [model.hf_class], RECORD, "class default", DERIVED, {}, ASSUMED_CLASS))
    rows += [
        Row(
            name,
            getattr(model.transformer, name),
            "structure",
            "formula",
            DERIVED,
            {name: getattr(model.transformer, name)},
        )
        for name in declaration.computed
    ]
    return rows


def unhandled_keys(model: ModelConfig) -> list[str]:
    """Keys of the text model's config that no rule knows."""
    return [key for key in model.part.config if model.declaration.rule_for(key) is None]


def _row(declaration: Architecture, key: str, value: Any, origin: str, values: Mapping[str, Any]) -> Row:
    rule = declaration.rule_for(key)
    if rule is None:
        return Row(key, value, "", origin, UNHANDLED, {})
    if isinstance(rule, Ignored):
        return Row(key, value, rule.layer, origin, IGNORED, {}, rule.reason)
    derived = value is None and isinstance(rule, Field | Computed) and rule.derive
    note = next((note for kind, note in _NOTES.items() if isinstance(rule, kind)), "")
    if isinstance(rule, Quantisation):
        note = NOT_QUANTISED if value is None else DEQUANTISED
    return Row(key, value, rule.layer, origin, DERIVED if derived else MAPPED, rule.decode(values), note)


_NOTES = {Only: ONLY_VALUE, Repeats: REPEATS, Naming: NAMES}
"""What to say of rules that decode to nothing."""
