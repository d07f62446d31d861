"""The tokens both sides are run on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mindport.schema import TransformerConfig

TEXTS = (
    "A ship in harbour is safe, but that is not what ships are built for. The crew checked the ropes, counted the "
    "barrels twice, and wrote the numbers in the book: forty-two of water, seventeen of flour, nine of salted "
    "fish. By the time the tide had turned, the captain knew that nothing was missing and that the voyage could "
    "begin.",
    "def mean(values):\n    total = 0.0\n    for value in values:\n        total += value\n"
    "    return total / len(values)\n\nThe function above adds up all values and divides by how many there are; an "
    "empty list raises ZeroDivisionError. 把模型从一个框架搬到另一个框架，首先要证明权重、配置和数值都没有丢失。",
)
"""What a real tokenizer is given: English prose, code, Chinese."""


@dataclass(frozen=True)
class Batch:
    """Input of one forward pass: ids and mask are (batch, seq) int32; the mask is 1 on real tokens, 0 on padding."""

    name: str
    input_ids: np.ndarray
    attention_mask: np.ndarray

    @property
    def real(self) -> np.ndarray:
        """(batch, seq) bool, True where a position counts."""
        return self.attention_mask.astype(bool)


def load_tokenizer(model: Path) -> Any | None:
    """The tokenizer of a model folder through transformers, or None where the folder has none that loads."""
    if not any((model / name).is_file() for name in ("tokenizer.json", "tokenizer.model", "vocab.txt", "vocab.json")):
        return None
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(model, local_files_only=True, trust_remote_code=False)
    except Exception:  # parity does not depend on the tokenizer; random ids are compared instead
        return None


def token_rows(config: TransformerConfig, tokenizer: Any | None, length: int, seed: int = 0) -> np.ndarray:
    """Two rows of `length` real tokens: the texts where the tokenizer gives enough tokens, else random ids.

    Returns:
        (2, length) int32.
    """
    ids = np.random.default_rng(seed).integers(0, config.vocab_size, (2, length), dtype=np.int32)
    if tokenizer is not None:
        for row, text in enumerate(TEXTS):
            encoded = tokenizer(text + "\n" + text)["input_ids"]
            if len(encoded) >= length and max(encoded) < config.vocab_size:
                ids[row] = encoded[:length]
    return ids


def parity_batches(config: TransformerConfig, tokenizer: Any | None, length: int = 96) -> list[Batch]:
    """An unpadded batch, and the same tokens with a third of one row cut off and padded on the right, then the left.

    `length` is reduced to the positions the model has, if they are fewer.
    """
    length = min(length, config.max_position_embeddings)
    ids = token_rows(config, tokenizer, length)
    cut = length // 3
    pad = config.pad_token_id if config.pad_token_id is not None and config.pad_token_id >= 0 else 0
    batches = [Batch("unpadded", ids, np.ones_like(ids))]
    for side in ("right", "left"):
        padded, mask = ids.copy(), np.ones_like(ids)
        if side == "right":
            padded[1, length - cut :], mask[1, length - cut :] = pad, 0
        else:
            padded[1, cut:], padded[1, :cut], mask[1, :cut] = ids[1, : length - cut], pad, 0
        batches.append(Batch(f"{side}-padded", padded, mask))
    return batches
