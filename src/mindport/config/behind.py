"""Which config keys stand behind a canonical field: found by watching which keys the declared rules read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mindport.architectures.vocabulary import Field
from mindport.config.hf import ModelConfig, with_defaults


def keys_behind(model: ModelConfig) -> dict[str, set[str]]:
    """Canonical field -> the Hugging Face keys that determine it, under the names that the rules give them.

    A key that was null stands for those that its value is derived from, and for itself.
    """
    declaration = model.declaration
    values = with_defaults(model.hf, declaration)
    derived: dict[str, set[str]] = {}
    found = {name: {"architectures"} for name in model.declared_class.fields}
    for rule in declaration.rules:
        if isinstance(rule, Field) and rule.derive:
            written = next((model.hf[key] for key in (rule.key, *rule.aliases) if key in model.hf), None)
            if written is None:
                watched = _Watched(values)
                rule.derive(watched)
                derived[rule.key] = _expanded(watched.read, derived)
        watched = _Watched(values)
        names = rule.decode(watched)
        found |= {name: _expanded(watched.read, derived) for name in names}
    for name, compute in declaration.computed.items():
        watched = _Watched(values)
        compute(watched)
        found[name] = _expanded(watched.read, derived)
    return found


def _expanded(keys: set[str], derived: Mapping[str, set[str]]) -> set[str]:
    return keys.union(*(derived.get(key, set()) for key in keys))


class _Watched(Mapping[str, Any]):
    """A config that remembers what was read of it."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self.read: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)
