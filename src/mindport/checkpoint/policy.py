"""Which dtype each weight is written in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mindport.checkpoint.dtypes import FLOATS, NAMES
from mindport.errors import MindportError, brief
from mindport.i18n import tr
from mindport.schema.slots import is_norm

GROUPS = {
    "norm": is_norm,
    "router": lambda slot: ".router." in slot,
    "embedding": lambda slot: "embedding." in slot and slot.endswith("word.weight"),
    "head": lambda slot: "head.output." in slot,
}
"""Name on the command line -> whether a slot belongs to the group."""

SHORT = {"fp64": "F64", "fp32": "F32", "fp16": "F16", "bf16": "BF16"}
"""Usual abbreviations -> codes."""

_CODES = {**SHORT, **{NAMES[code]: code for code in FLOATS}}


@dataclass(frozen=True)
class DtypePolicy:
    """Dtypes of floating-point weights; whole numbers are never cast.

    Args:
        default: code; None = as in the source.
        groups: (name in GROUPS, code), each before the default.
    """

    default: str | None = None
    groups: tuple[tuple[str, str], ...] = ()

    def dtype(self, slot: str, source: str) -> str:
        """Code in which a slot is written whose values have the code `source`."""
        if source not in FLOATS:
            return source
        for group, code in self.groups:
            if GROUPS[group](slot):
                return code
        return self.default or source

    def check_used(self, slots: Iterable[str]) -> None:
        """Refuse a group that a model does not have.

        Raises:
            MindportError: no slot belongs to it.
        """
        known = list(slots)
        for group, _ in self.groups:
            if not any(GROUPS[group](slot) for slot in known):
                raise MindportError(
                    tr("The model has no weights of the group {group}.", group=group),
                    tr("Leave this dtype out. A tied head has the dtype of the embedding."),
                )


KEEP = DtypePolicy()
"""Everything as in the source, bit for bit."""


def parse_policy(words: Iterable[str]) -> DtypePolicy:
    """From words such as `bf16`, `router=fp32`, `norm=fp32`.

    Raises:
        MindportError: an unknown dtype or group, or one given twice.
    """
    default: str | None = None
    groups: dict[str, str] = {}
    for word in words:
        group, _, name = word.rpartition("=")
        if name not in _CODES:
            raise MindportError(
                tr("{word} names no dtype of weights.", word=brief(word)),
                tr("Known are: {names}.", names=", ".join(_CODES)),
            )
        if "=" in word and group not in GROUPS:
            raise MindportError(
                tr("{word} names no group of weights.", word=brief(word)),
                tr("Known are: {names}.", names=", ".join(GROUPS)),
            )
        if group in groups or (not group and default):
            raise MindportError(tr("Two dtypes are given for the same weights: {word}.", word=brief(word)))
        if group:
            groups[group] = _CODES[name]
        else:
            default = _CODES[name]
    return DtypePolicy(default, tuple(groups.items()))
