"""Pass marks, fixed before anything is run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Gate:
    """Bounds a comparison has to keep.

    Args:
        max_abs: largest absolute error of an output, for outputs of scale 1; the bound grows with the largest
            reference value above 1, as rounding errors do.
        cosine: least cosine similarity of an output.
        top1: least share of positions where both sides choose the same token.
        loss: largest difference of a training loss.
        grad_norm: largest relative difference of a gradient norm.
    """

    name: str
    max_abs: float
    cosine: float
    top1: float
    loss: float
    grad_norm: float


STRICT = Gate("strict", max_abs=2e-5, cosine=0.99999, top1=1.0, loss=1e-4, grad_norm=1e-3)
"""Both sides compute in float32."""

ACCEPTANCE = Gate("acceptance", max_abs=1e-3, cosine=0.999, top1=0.99, loss=5e-3, grad_norm=0.1)
"""The usual pass marks of a migration: outputs within 1e-3 and cosine 0.999; the first loss within 0.005 and the
gradient norm within 10 % are those of MindFormers' precision guide."""

GATES = {gate.name: gate for gate in (STRICT, ACCEPTANCE)}
