"""Whether a declaration says anything that the canonical vocabulary does not know.

The package's own are held to far more by the tests; this is for those that come from elsewhere, and costs microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator

from mindport.architectures.vocabulary import Architecture, Field
from mindport.errors import brief
from mindport.i18n import tr
from mindport.schema import SLOTS, TransformerConfig


def mistakes(declaration: Architecture) -> list[str]:
    """What is wrong, in words; empty where nothing is."""
    found: list[str] = []
    if not declaration.classes:
        found.append(tr("it declares no class"))
    found += [
        tr("class {name} does not say its head", name=name)
        for name, hf_class in declaration.classes.items()
        if "head" not in hf_class.fields
    ]
    known = TransformerConfig.describe()
    unknown = sorted({name for name in _fields(declaration) if name not in known})
    if unknown:
        found.append(tr("TransformerConfig has no fields {names}", names=", ".join(map(brief, unknown))))
    slots = {slot.name for slot in SLOTS}
    unknown = sorted({name for name in _slots(declaration) if name not in slots})
    if unknown:
        found.append(tr("there are no slots {names}", names=", ".join(map(brief, unknown))))
    return found


def _fields(declaration: Architecture) -> Iterator[str]:
    """Canonical fields that it names."""
    yield from (*declaration.constants, *declaration.computed)
    for hf_class in declaration.classes.values():
        yield from (*hf_class.fields, *hf_class.optional)
    for rule in declaration.rules:
        if isinstance(rule, Field):
            yield from rule.targets


def _slots(declaration: Architecture) -> Iterator[str]:
    """Slot templates that it names. A `{p}` stands for a weight, and for a bias where the slot has one."""
    named = [*declaration.tied.values()]
    tables = (declaration.tensors, *declaration.alternatives, *(table for _, table in declaration.conditional))
    for made_of in (made_of for table in tables for made_of in table.values()):
        named += [made_of] if isinstance(made_of, str) else made_of.parts
    for slot in named:
        yield slot.replace("{p}", "weight")
