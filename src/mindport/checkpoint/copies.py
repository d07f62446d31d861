"""Tied copies: a tensor that repeats another must really repeat it."""

from __future__ import annotations

from mindport.checkpoint.content import Content
from mindport.checkpoint.digest import digest_of
from mindport.checkpoint.dtypes import NAMES
from mindport.checkpoint.files import Files
from mindport.checkpoint.plan import Output, Plan
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.layout import Stored


def check_copies(plan: Plan) -> None:
    """Compare every tied copy with its twin, byte by byte, in bounded memory.

    Raises:
        MindportError: a copy differs, so that dropping it would lose weights.
    """
    with Files() as files:
        content = Content(plan.unresized(), files)
        for name, slot in plan.copies.items():
            entry = plan.source[name]
            twin = Output(name, plan.source[plan.slots[slot][0]].dtype, entry.shape, Stored((slot,)))
            if entry.dtype != twin.dtype:
                raise MindportError(
                    tr(
                        "{name} is {dtype}, and {twin}, to which the config ties it, is {other}.",
                        name=name,
                        dtype=NAMES[entry.dtype],
                        twin=plan.slots[slot][0],
                        other=NAMES[twin.dtype],
                    ),
                    tr("Load the model and save it again, so that both are one."),
                )
            if digest_of(content.chunks(twin)) != digest_of(content.values(entry)):
                raise MindportError(
                    tr(
                        "{name} differs from {twin} although the config ties them.",
                        name=name,
                        twin=plan.slots[slot][0],
                    ),
                    tr('Set "tie_word_embeddings" to false in config.json if the model was trained untied.'),
                )
