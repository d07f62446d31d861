"""What the alignment minimises, and on which batches: one choice per head, the same arrays for both sides."""

from __future__ import annotations

from typing import Any

import numpy as np

from mindport.schema import TransformerConfig
from mindport.verify.batches import TEXTS

IGNORED = -100
"""Label of a position that does not count."""

Arrays = tuple[np.ndarray, ...]

ROWS, LENGTH = 2, 32
PAIRS, SENTENCE = 8, 24


def objective_of(config: TransformerConfig) -> str:
    """What a model is trained on: causal_lm, contrastive (without a head) or labelled (all other heads)."""
    return {"causal_lm": "causal_lm", "none": "contrastive"}.get(config.head, "labelled")


def training_batches(config: TransformerConfig, tokenizer: Any | None, steps: int, seed: int) -> list[Arrays]:
    """Inputs of each step, int32.

    Returns:
        causal_lm and labelled: (ids, mask, labels), (2, 32) each, the second row padded; labels (2,) for sequence
        classification, (2, 2) for question answering. contrastive: (anchor ids, anchor mask, positive ids, positive
        mask), (8, 24) each; a positive overlaps its anchor.
    """
    rng = np.random.default_rng(seed)
    stream = _stream(config, tokenizer, rng)
    if objective_of(config) == "contrastive":
        return [_pairs(stream, rng, min(SENTENCE, config.max_position_embeddings)) for _ in range(steps)]
    length = min(LENGTH, config.max_position_embeddings)
    mask_id = getattr(tokenizer, "mask_token_id", None) or 0
    return [_labelled(config, stream, rng, length, mask_id) for _ in range(steps)]


def _stream(config: TransformerConfig, tokenizer: Any | None, rng: np.random.Generator) -> np.ndarray:
    """A few thousand tokens to cut windows from: the texts over and over, or random ids."""
    ids = np.concatenate([tokenizer(text)["input_ids"] for text in TEXTS]) if tokenizer is not None else np.zeros(0)
    if not ids.size or ids.max() >= config.vocab_size:
        ids = rng.integers(0, config.vocab_size, 512)
    return np.tile(ids, -(-2048 // len(ids))).astype(np.int32)


def _window(stream: np.ndarray, rng: np.random.Generator, rows: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    starts = rng.integers(0, len(stream) - 2 * length, rows)
    return np.stack([stream[s : s + length] for s in starts]), starts


def _labelled(
    config: TransformerConfig, stream: np.ndarray, rng: np.random.Generator, length: int, mask_id: int
) -> Arrays:
    ids, _ = _window(stream, rng, ROWS, length)
    mask = np.ones_like(ids)
    mask[1, length - length // 4 :] = 0
    if config.head == "sequence_classification":
        return ids, mask, rng.integers(0, config.num_labels, ROWS, dtype=np.int32)
    if config.head == "question_answering":
        return ids, mask, rng.integers(0, length - length // 4, (ROWS, 2), dtype=np.int32)
    if config.head == "token_classification":
        labels = rng.integers(0, config.num_labels, ids.shape, dtype=np.int32)
    elif config.head == "masked_lm":
        hidden = rng.random(ids.shape) < 0.15
        hidden[:, 1] = True
        labels = np.where(hidden, ids, IGNORED).astype(np.int32)
        ids = np.where(hidden, mask_id, ids).astype(np.int32)
    else:
        labels = ids.copy()
    return ids, mask, np.where(mask == 1, labels, IGNORED).astype(np.int32)


def _pairs(stream: np.ndarray, rng: np.random.Generator, length: int) -> Arrays:
    anchors, starts = _window(stream, rng, PAIRS, length)
    positives = np.stack([stream[s + length // 3 : s + length // 3 + length] for s in starts])
    mask = np.ones_like(anchors)
    mask[PAIRS // 2 :, length - length // 4 :] = 0
    return anchors, mask, positives, np.ones_like(positives)
