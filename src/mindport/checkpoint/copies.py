"""Tied copies: a tensor that repeats another must really repeat it."""

from __future__ import annotations

from collections.abc import Iterable

from mindport.checkpoint.execute import Reader
from mindport.checkpoint.plan import Output, Plan
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.layout import Stored
from mindport.layout.trace import trace


def check_copies(plan: Plan) -> None:
    """Compare every tied copy with its twin, byte by byte, in bounded memory.

    Raises:
        MindportError: a copy differs, so that dropping it would lose weights.
    """
    with Reader(plan) as reader:
        for name, slot in plan.copies.items():
            entry, twin = plan.source[name], Stored((slot,))
            runs = trace(twin, plan.slots, plan.slot_shapes)
            dtype = plan.source[plan.slots[slot][0]].dtype
            output = Output(name, dtype, entry.shape, twin, None if runs is None else tuple(runs))
            same = entry.dtype == dtype and _digest(reader.content(output)) == _digest(reader.bytes_of(entry))
            if not same:
                raise MindportError(
                    tr(
                        "{name} differs from {twin} although the config ties them.",
                        name=name,
                        twin=plan.slots[slot][0],
                    ),
                    tr('Set "tie_word_embeddings" to false in config.json if the model was trained untied.'),
                )


def _digest(chunks: Iterable[bytes]) -> bytes:
    import hashlib  # slow to load, and a config alone has no weights to compare

    digest = hashlib.blake2b()
    for chunk in chunks:
        digest.update(chunk)
    return digest.digest()
