"""Forward parity: the same tokens through both models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mindport.verify.batches import Batch
from mindport.verify.compare import Difference, difference

Outputs = Callable[[Batch], Mapping[str, np.ndarray]]


def forward_parity(batches: Sequence[Batch], ours: Outputs, reference: Outputs) -> list[Difference]:
    """Every output that the reference has, on every batch, compared where tokens are real.

    What is not per token, such as the scores of all positions to be the start of an answer, is compared as a whole.
    """
    result = []
    for batch in batches:
        mine, theirs = ours(batch), reference(batch)
        for name, wanted in theirs.items():
            width = wanted.shape[-1]
            per_token = wanted.shape[:2] == batch.input_ids.shape and wanted.ndim == 3
            chosen = batch.real if per_token else np.ones(len(wanted), bool)
            result.append(
                difference(
                    f"{name}, {batch.name}",
                    mine[name][chosen].reshape(-1, width),
                    wanted[chosen].reshape(-1, width),
                    scores=name == "logits",
                )
            )
    return result
