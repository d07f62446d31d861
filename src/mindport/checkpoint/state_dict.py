"""Which tensors of a loaded torch checkpoint are the weights of the model, and what they are called."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

from mindport.checkpoint.torch_pickle import Special, Storage, Tensor
from mindport.errors import MindportError, brief
from mindport.i18n import tr

WRAPPERS = ("state_dict", "model_state_dict", "model", "module")
"""Keys under which training frameworks keep the weights beside the rest of a checkpoint."""

_TRAINING = re.compile(
    r"(?:^|[_\W])(?:optim|opt_|lr_|sched|rng|random|ema|scaler|amp|callback|loop|sampler|dataloader|rerun|hyper|loss|grad)"
)
"""Keys of what lies beside the weights: the state of training."""

_DEEPEST = 32
"""Levels of nesting."""

_MOST_ITEMS = 1 << 20
"""Named in one file. A dict that holds another twice doubles their number with each level."""

_MOST_TEXT = 64 << 20
"""Characters of all names together."""

_LEAVES = (Tensor, Special, Storage)


def weights_of(path: Path, value: Any) -> dict[str, Tensor | Special]:
    """Name -> tensor, with the wrapping of training frameworks taken off and nested modules joined by dots.

    Args:
        path: of the file, for messages.
        value: what its pickle holds.

    Raises:
        MindportError: not a dict, no tensors in it, or tensors of which it is not clear that they are the weights.
    """
    if not isinstance(value, dict):
        raise _no_state_dict(path)
    walk = _Walk(path)
    found = walk.flat(walk.unwrapped(value))
    if not found:
        raise _no_state_dict(path)
    return found


def _beside(key: Any, item: Any) -> bool:
    """Whether something is state of training, such as lies beside wrapped weights: by its name, or a single number."""
    number = isinstance(item, Tensor) and prod(item.shape) == 1
    return number or bool(_TRAINING.search(str(key).lower()))


class _Walk:
    """Visits each value a bounded number of times, however often it is shared."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._without: set[int] = set()  # ids of values in which there are no tensors

    def holds_tensors(self, value: Any) -> bool:
        """Whether a tensor lies anywhere in it."""
        waiting, seen = [value], set[int]()
        while waiting:
            value = waiting.pop()
            if isinstance(value, _LEAVES):
                return True
            if isinstance(value, dict | list | tuple) and id(value) not in seen and id(value) not in self._without:
                seen.add(id(value))
                waiting.extend(value.values() if isinstance(value, dict) else value)
        self._without |= seen
        return False

    def unwrapped(self, value: dict[Any, Any]) -> dict[Any, Any]:
        """The mapping of the weights, inside the wrappers."""
        for level in range(_DEEPEST):
            if any(isinstance(item, _LEAVES) and not _beside(key, item) for key, item in value.items()):
                break
            inside = [key for key in WRAPPERS if isinstance(value.get(key), dict) and self.holds_tensors(value[key])]
            if not inside:
                break
            beside = [
                key
                for key, item in value.items()
                if key != inside[0] and not _beside(key, item) and self.holds_tensors(item)
            ]
            if beside and level:
                break  # a module of this name among others
            if beside:
                raise MindportError(
                    tr(
                        "{path} holds tensors under {key} and also under {other}; which are the weights is not clear.",
                        path=self._path,
                        key=brief(inside[0]),
                        other=brief(beside[0]),
                    ),
                    tr("Save only model.state_dict()."),
                )
            value = value[inside[0]]
        return value

    def flat(self, mapping: dict[Any, Any]) -> dict[str, Tensor | Special]:
        """The tensors under their dotted names."""
        found: dict[str, Tensor | Special] = {}
        left = _MOST_TEXT
        for visited, (name, item) in enumerate(self._items("", mapping, 0)):
            left -= len(name)
            if visited >= _MOST_ITEMS or left < 0:
                raise self._unclear(name, tr("there are too many names"))
            if isinstance(item, _LEAVES):
                if name in found:
                    raise self._unclear(name, tr("two tensors have this name"))
                found[name] = Special(tr("a bare storage")) if isinstance(item, Storage) else item
            elif isinstance(item, list | tuple) and self.holds_tensors(item):
                raise self._unclear(name, tr("a list of tensors"))
        return found

    def _items(self, prefix: str, mapping: dict[Any, Any], level: int) -> Iterator[tuple[str, Any]]:
        """Everything in it, however deep; a dict comes before what it holds."""
        if level > _DEEPEST:
            raise self._unclear(prefix, tr("nested too deeply"))
        for key, item in mapping.items():
            if not isinstance(key, str):
                if self.holds_tensors(item):
                    raise self._unclear(prefix, tr("the key {key} is not text", key=brief(key)))
                continue
            name = f"{prefix}{key}"
            yield name, item
            if isinstance(item, dict):
                yield from self._items(f"{name}.", item, level + 1)

    def _unclear(self, name: str, reason: str) -> MindportError:
        return MindportError(
            tr("{path}: {name} cannot be read as weights: {reason}.", path=self._path, name=brief(name), reason=reason),
            tr("Save only model.state_dict()."),
        )


def _no_state_dict(path: Path) -> MindportError:
    return MindportError(
        tr("{path} does not hold a state dict (names with their tensors).", path=path),
        tr("Save model.state_dict() with torch.save."),
    )
