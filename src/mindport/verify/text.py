"""Greedy text of both sides."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Text:
    """Greedy continuation of one prompt on both sides.

    Args:
        tokens: how many were generated.
    """

    prompt: str
    ours: str
    reference: str
    tokens: int
    equal: bool
