"""What is known of models that are not declared: why not, and which declared family is nearest.

`families.json` is the table. `model_types` lists names that are in use; `hints` lists keys by which a config under an
unknown name, or none, gives away what it is: the first hint that fits counts. `nearest` is in order of preference; the
first that is declared counts, so a list may name families that are not declared yet.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mindport.architectures.registry import model_types, source_of

_TABLE = Path(__file__).parent / "families.json"

NO_MODEL = "it has none of the keys of a Transformer's config"
"""Reason where not even a size is given."""


@dataclass(frozen=True)
class Verdict:
    """Why a config cannot be read, and what comes nearest.

    Args:
        reason: a clause in English, a template for `tr`.
        nearest: declared model_type; None where none is near.
        known: the table lists the model_type; otherwise keys were the hint.
        same: the nearest declaration reads the config as it is, but for its model_type.
    """

    reason: str
    nearest: str | None
    known: bool = False
    same: bool = False


def verdict(hf: Mapping[str, Any]) -> Verdict:
    """What a config is that no declaration reads."""
    name = hf.get("model_type")
    for family in _table()["model_types"]:
        if name in family["names"]:
            nearest = _declared(family["nearest"])
            same = family.get("same", False) and nearest == family["nearest"][0]
            return Verdict(family["reason"], nearest, known=True, same=same)
    for hint in _table()["hints"]:
        if _fits(hint, hf):
            return Verdict(hint["reason"], _alike(name, hint["nearest"]) or _declared(hint["nearest"]))
    return Verdict(NO_MODEL, _alike(name, model_types()))


def is_declared(hf: Mapping[str, Any]) -> bool:
    """Whether a declaration exists for a config's own model_type."""
    name = hf.get("model_type")
    return isinstance(name, str) and source_of(name) is not None


def text_parts() -> tuple[str, ...]:
    """Keys under which composite configs hold that of their text model."""
    return tuple(_table()["text_parts"])


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(_TABLE.read_text(encoding="utf-8"))
    return table


def _fits(hint: Mapping[str, Any], hf: Mapping[str, Any]) -> bool:
    """Keys count where they say something: neither null, nor false, nor empty."""
    if not all(hf.get(key) for key in hint.get("all", ())):
        return False
    wanted = hint.get("contains", {}).items()
    listed = any(isinstance(hf.get(key), list) and any(x in hf[key] for x in values) for key, values in wanted)
    return listed or any(hf.get(key) for key in hint.get("any", ())) or not (hint.get("any") or wanted)


def _declared(families: Iterable[str]) -> str | None:
    declared = model_types()
    return next((family for family in families if family in declared), None)


def _alike(name: object, families: Iterable[str]) -> str | None:
    """The declared one of these families whose name is most like this one."""
    import difflib  # for a refusal alone

    known = model_types()
    declared = [family for family in families if family in known]
    near = difflib.get_close_matches(str(name)[:64].lower(), declared, n=1, cutoff=0.5)
    return near[0] if near else None
