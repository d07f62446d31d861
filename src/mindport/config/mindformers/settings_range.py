"""Bounds of run settings that hold for every model and every version of MindFormers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from mindport.i18n import tr

_FROM_ONE_WORDS = """
    seq_length batch_size gradient_accumulation epochs steps checkpoint_interval keep_checkpoints data.samples
    data.workers schedule.total_steps parallel.data parallel.tensor parallel.pipeline parallel.context parallel.expert
    parallel.micro_batches parallel.interleave parallel.optimizer_shard_size parallel.gradient_aggregation
"""
_FROM_ZERO_WORDS = """
    seed device_id data.end_of_document schedule.final schedule.warmup_ratio schedule.warmup_steps optimizer.eps
    optimizer.weight_decay
"""
_FROM_ONE, _FROM_ZERO = frozenset(_FROM_ONE_WORDS.split()), frozenset(_FROM_ZERO_WORDS.split())
_ABOVE_ZERO = frozenset(("schedule.peak", "optimizer.max_grad_norm"))
_BETAS = "optimizer.betas"


def bound_missed(name: str, value: Any) -> str | None:
    """What a setting must be, in the user's language, where the value is not; None where it is.

    Args:
        name: with its section, such as "schedule.peak".
        value: of the setting's type; None is in bounds.
    """
    if name == _BETAS:
        return None if _are_betas(value) else tr("two numbers, each at least 0 and less than 1")
    rules: tuple[tuple[frozenset[str], Callable[[Any], bool], str], ...] = (
        (_FROM_ONE, lambda number: number >= 1, tr("at least 1")),
        (_FROM_ZERO, lambda number: number >= 0, tr("at least 0, and finite")),
        (_ABOVE_ZERO, lambda number: number > 0, tr("more than 0, and finite")),
    )
    for names, holds, said in rules:
        if name in names and value is not None and not (math.isfinite(value) and holds(value)):
            return said
    return None


def _are_betas(value: list[Any]) -> bool:
    return len(value) == 2 and all(type(beta) in (int, float) and 0 <= beta < 1 for beta in value)
