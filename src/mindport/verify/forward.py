"""Outputs of the native model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mindspore as ms
import numpy as np

from mindport.verify.batches import Batch

_NAMES = ("logits", "last_hidden_state", "pooler_output")


def mindspore_outputs(network: Any, batch: Batch) -> Mapping[str, np.ndarray]:
    """Outputs of one forward pass of the native model, by name."""
    output = network(ms.Tensor(batch.input_ids), ms.Tensor(batch.attention_mask))
    return {name: value.asnumpy() for name, value in zip(_NAMES, output, strict=False) if value is not None}
