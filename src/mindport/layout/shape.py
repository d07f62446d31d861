"""Symbolic shapes: `"num_query_groups*kv_channels, hidden_size"` against an object that has those attributes."""

from __future__ import annotations

from math import prod


def evaluate(shape: str, sizes: object) -> tuple[int, ...]:
    """The shape in elements.

    Args:
        shape: dimensions separated by commas; each is a product of attribute names or integers.
        sizes: an object with those attributes, usually a `TransformerConfig`.

    Raises:
        AttributeError: a name that `sizes` does not have (a mistake in a declaration, not in user input).
    """
    return tuple(dimension(term, sizes) for term in shape.split(","))


def dimension(term: str, sizes: object) -> int:
    """One dimension: a product such as `"num_attention_heads*kv_channels"` or `"4"`."""
    factors = (factor.strip() for factor in term.split("*"))
    return prod(int(f) if f.isdigit() else getattr(sizes, f) for f in factors)
