"""How far two arrays are apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mindport.verify.gates import Gate


@dataclass(frozen=True)
class Difference:
    """One output of the two sides compared at the positions that are not padding.

    Args:
        what: which output, of which batch.
        positions: positions compared (each a vector).
        max_abs, mean_abs: of the error, in units of the output.
        scale: largest absolute reference value.
        cosine: of all compared values taken as one vector.
        top1: share of positions with the same largest entry; None for outputs that are not scores.
        top1_gap: by how much, at most, the reference prefers its own choice where the two differ; None likewise.
    """

    what: str
    positions: int
    max_abs: float
    mean_abs: float
    scale: float
    cosine: float
    top1: float | None
    top1_gap: float | None

    def bound(self, gate: Gate) -> float:
        """Largest absolute error the gate allows an output of this scale."""
        return gate.max_abs * max(1.0, self.scale)

    def choices_agree(self, gate: Gate) -> bool:
        """Whether enough positions make the same choice, or the others are ties.

        Two entries closer than twice the allowed error are a tie, which either side may decide either way.
        """
        if self.top1 is None or self.top1_gap is None:
            return True
        return self.top1 >= gate.top1 or self.top1_gap <= 2 * self.bound(gate)

    def passes(self, gate: Gate) -> bool:
        """Whether every bound holds. A NaN passes nothing."""
        return self.max_abs <= self.bound(gate) and self.cosine >= gate.cosine and self.choices_agree(gate)


def difference(what: str, ours: np.ndarray, reference: np.ndarray, *, scores: bool) -> Difference:
    """Compare two (positions, width) arrays.

    Args:
        scores: whether the largest entry of each position is a choice worth comparing.

    Raises:
        ValueError: the shapes differ or nothing is compared.
    """
    if ours.shape != reference.shape or not ours.size:
        raise ValueError(f"{what}: shapes {ours.shape} and {reference.shape}")
    ours, reference = ours.astype(np.float64), reference.astype(np.float64)
    error = np.abs(ours - reference)
    best, chosen = reference.argmax(-1), ours.argmax(-1)
    rows = np.arange(len(reference))
    norms = np.linalg.norm(ours) * np.linalg.norm(reference)
    return Difference(
        what=what,
        positions=len(ours),
        max_abs=float(error.max()),
        mean_abs=float(error.mean()),
        scale=float(np.abs(reference).max()),
        cosine=float((ours * reference).sum() / norms) if norms else float(np.array_equal(ours, reference)),
        top1=float((chosen == best).mean()) if scores else None,
        top1_gap=float((reference[rows, best] - reference[rows, chosen]).max()) if scores else None,
    )
