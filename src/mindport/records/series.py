"""Series of measured numbers, with NaN never stepped over."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest

from mindport.verify.alignment import Alignment, worst


@dataclass(frozen=True)
class Step:
    """One training step of both sides."""

    loss: float
    reference_loss: float
    loss_difference: float
    grad_norm: float
    reference_grad_norm: float
    grad_norm_difference: float


def steps_of(alignment: Alignment) -> list[Step]:
    """Every step of an alignment, with its differences."""
    # A side that stopped early fails the missing steps; it must not take the report with it.
    series = zip_longest(
        alignment.losses,
        alignment.reference_losses,
        alignment.grad_norms,
        alignment.reference_grad_norms,
        fillvalue=math.nan,
    )
    return [
        Step(loss, loss_ref, abs(loss - loss_ref), norm, norm_ref, _relative(norm, norm_ref))
        for loss, loss_ref, norm, norm_ref in series
    ]


def _relative(value: float, reference: float) -> float:
    if reference:
        return abs(value - reference) / abs(reference)
    return 0.0 if value == reference else math.inf


def nan_first(value: float) -> float:
    """For sorting: a NaN is worse than any error."""
    return math.inf if math.isnan(value) else value


def least(values: Iterable[float]) -> float:
    """The smallest; NaN if any is."""
    return -worst(-value for value in values)
