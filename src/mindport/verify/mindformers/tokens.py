"""The tokens that MindFormers and transformers are both run on."""

from __future__ import annotations

from typing import Any

import numpy as np

from mindport.schema import TransformerConfig, VocabChange
from mindport.verify.batches import Batch, token_rows
from mindport.verify.mindformers.exchange import Tokens

LENGTH = 96
"""Tokens of a sequence, at most: what a small real model takes seconds for."""


def tokens_for(config: TransformerConfig, tokenizer: Any | None, length: int, change: VocabChange | None) -> Tokens:
    """Text, tokens from all over the vocabulary, and rows that end in padding; and a longer row of text to train on.

    MindFormers' training takes its padding token out of the attention and out of the loss wherever it occurs, so it is
    in no other place than at the end of padded rows.

    Args:
        config: of the converted model.
        tokenizer: of the source.
        length: tokens of a sequence.
        change: what the conversion made of the vocabulary, if anything.
    """
    pad = config.pad_token_id if config.pad_token_id is not None and config.pad_token_id >= 0 else None
    origins = np.array(change.origins) if change else np.arange(config.vocab_size)
    usable = np.array([row for row, origin in enumerate(origins) if origin >= 0 and row != pad], np.int32)
    text = _usable(_text_rows(config, tokenizer, length + 1, change), usable)
    spread = usable[np.random.default_rng(1).integers(0, len(usable), (2, length))]
    spread[0, 0], spread[0, -1] = usable[0], usable[-1]
    whole = np.ones((2, length), np.int32)
    padded, mask = text[:, :length].copy(), whole.copy()
    cut = length - length // 3
    padded[1, cut:], mask[1, cut:] = (0 if pad is None else pad), 0
    batches = (
        Batch("unpadded", text[:, :length], whole),
        Batch("all over the vocabulary", spread, whole),
        Batch("right-padded", padded, mask),
    )
    return Tokens(batches, text, None if change is None else np.flatnonzero(origins >= 0))


def in_source(tokens: np.ndarray, change: VocabChange | None) -> np.ndarray:
    """The same tokens by the source's numbers. Tokens that it does not have are padding there, and become 0."""
    return tokens if change is None else np.maximum(np.array(change.origins, np.int32)[tokens], 0)


def _text_rows(config: TransformerConfig, tokenizer: Any | None, length: int, change: VocabChange | None) -> np.ndarray:
    """Real text by the numbers of the converted vocabulary; -1 where that has no such token."""
    if change is None:
        return token_rows(config, tokenizer, length)
    from dataclasses import replace

    rows = token_rows(replace(config, vocab_size=change.before), tokenizer, length)
    place = np.full(change.before, -1, np.int32)
    for row, origin in enumerate(change.origins):
        if origin >= 0:
            place[origin] = row
    return place[rows]


def _usable(rows: np.ndarray, usable: np.ndarray) -> np.ndarray:
    """The rows, with other tokens in the place of those that may not be there."""
    others = usable[np.random.default_rng(2).integers(0, len(usable), rows.shape)]
    return np.where(np.isin(rows, usable), rows, others)
