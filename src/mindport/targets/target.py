"""What a target has to say about itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mindport.layout import Stored, TensorMap
from mindport.schema import TransformerConfig


def _nothing(_: TransformerConfig) -> dict[str, str]:
    return {}


@dataclass(frozen=True)
class Target:
    """A destination of a conversion.

    Args:
        name: as given on the command line.
        title: for people.
        parameters: config -> parameter name -> the slots it is made of, in the order they are written.
        shared: config -> slot that has no parameter of its own -> the slot whose parameter serves it. A tensor of such
            a slot must hold the same values (a plan's `copies`), or the model cannot be brought there.
    """

    name: str
    title: str
    parameters: Callable[[TransformerConfig], TensorMap]
    shared: Callable[[TransformerConfig], Mapping[str, str]] = _nothing

    def sides(self, tensors: TensorMap, config: TransformerConfig) -> tuple[TensorMap, dict[str, str]]:
        """A file's tensors as this target sees them: those with a place of their own, and copies -> their slot.

        Args:
            tensors: what the tensors of the other side are made of.
        """
        shared = self.shared(config)
        own = {name: stored for name, stored in tensors.items() if not set(stored.parts) & set(shared)}
        return own, {name: shared[tensors[name].parts[0]] for name in tensors if name not in own}


def served(tensors: TensorMap, shared: Mapping[str, str]) -> TensorMap:
    """Tensors to be written, made of the slots that the other side has: those that serve, in place of the served.

    Args:
        shared: of the side that is read; see `Target.shared`.
    """
    if not shared:
        return tensors
    return {
        name: Stored(tuple(shared.get(part, part) for part in stored.parts), stored.ops)
        for name, stored in tensors.items()
    }
