"""What a target has to say about itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mindport.layout import TensorMap
from mindport.schema import TransformerConfig


@dataclass(frozen=True)
class Target:
    """A destination of a conversion.

    Args:
        name: as given on the command line.
        title: for people.
        parameters: config -> parameter name -> the slots it is made of, in the order they are written.
    """

    name: str
    title: str
    parameters: Callable[[TransformerConfig], TensorMap]
