"""Sentence embeddings of an encoder: masked mean of the last hidden state, L2-normalised."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mindport.verify.batches import Batch

SENTENCES = (
    "A man is eating a piece of bread.",
    "Someone is having something to eat.",
    "The new train leaves the station every hour.",
    "从昨天起，这台服务器上的训练损失没有再下降。",
)


def sentence_embeddings(outputs: Mapping[str, np.ndarray], batch: Batch) -> np.ndarray:
    """(batch, hidden) unit vectors from an encoder's outputs, as Sentence Transformers' mean pooling makes them."""
    hidden = outputs["last_hidden_state"].astype(np.float64)
    mask = batch.real[..., None]
    mean = (hidden * mask).sum(1) / mask.sum(1)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)
