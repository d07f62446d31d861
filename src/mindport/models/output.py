"""What a model returns."""

from __future__ import annotations

from typing import Any, NamedTuple


class ModelOutput(NamedTuple):
    """The results of one forward pass; a tuple with names, always of this length and order.

    Inside a compiled graph it is the plain tuple, so code that runs there reads it by index.
    """

    logits: Any
    """(B, T, V) of a language model, (B, C) or (B, T, C) of a classifier, (B, 2, T) of start and end in question
    answering; None without a head."""
    last_hidden_state: Any
    """(B, T, H) after the final norm."""
    pooler_output: Any
    """(B, H), or None without a pooler."""
    hidden_states: Any
    """The embedding output, then the output of each block, (B, T, H) each, all before the final norm;
    None unless the model was built with `keep_hidden_states`."""
