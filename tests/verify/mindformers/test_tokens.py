"""The tokens that both sides are run on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mindport.config.hf import from_hf
from mindport.schema import TransformerConfig, VocabChange
from mindport.verify.mindformers.exchange import Tokens
from mindport.verify.mindformers.tokens import in_source, tokens_for


def config(**changes: Any) -> TransformerConfig:
    return from_hf({"model_type": "llama", "vocab_size": 40, **changes}).transformer


class Words:
    """A tokenizer of words."""

    def __call__(self, text: str) -> dict[str, list[int]]:
        return {"input_ids": [len(word) % 20 for word in text.split()]}


@pytest.mark.parametrize("tokenizer", [None, Words()])
@pytest.mark.parametrize("pad", [None, -1, 0, 5, 39])
def test_padding_is_at_the_end_of_padded_rows_alone(pad: int | None, tokenizer: Any) -> None:
    """In MindFormers it would count for less anywhere else."""
    tokens = tokens_for(config(pad_token_id=pad), tokenizer, 12, None)
    text, spread, padded = tokens.batches
    assert tokens.step.shape == (2, 13)
    assert (tokens.step[:, :12] == text.input_ids).all()
    for batch in tokens.batches:
        assert batch.input_ids.shape == batch.attention_mask.shape == (2, 12)
        assert batch.input_ids.dtype == np.int32
        assert ((batch.input_ids >= 0) & (batch.input_ids < 40)).all()
    if pad is not None and pad >= 0:
        assert pad not in text.input_ids
        assert pad not in spread.input_ids
        assert pad not in tokens.step
        assert ((padded.input_ids == pad) == (padded.attention_mask == 0)).all()
    assert padded.attention_mask.tolist() == [[1] * 12, [1] * 8 + [0] * 4]
    ends = [row for row in (0, 1, 38, 39) if row != pad]
    assert {int(spread.input_ids[0, 0]), int(spread.input_ids[0, -1])} <= {min(ends), max(ends)}
    assert len(set(spread.input_ids.reshape(-1))) > 8
    assert (text.input_ids != spread.input_ids).any()


def test_real_text_is_used() -> None:
    first = Words()("A ship in harbour is safe, but that is not what ships are built for.")["input_ids"][:12]
    assert tokens_for(config(), Words(), 12, None).batches[0].input_ids[0].tolist() == first


def test_only_rows_that_both_sides_have() -> None:
    mapping = (7, None, 3, 39, 0, None, 12)
    change = VocabChange(40, 7, "mean", mapping)
    tokens = tokens_for(config(vocab_size=7, pad_token_id=4), Words(), 12, change)
    assert tokens.rows is not None
    assert tokens.rows.tolist() == [0, 2, 3, 4, 6]
    for batch in tokens.batches[:2]:
        assert set(batch.input_ids.reshape(-1)) <= {0, 2, 3, 6}
        assert set(in_source(batch.input_ids, change).reshape(-1)) <= {7, 3, 39, 12}
        assert [mapping[row] for row in batch.input_ids[0]] == in_source(batch.input_ids, change)[0].tolist()
    assert (in_source(np.array([[1]]), change) == 0).all()


def test_words_keep_their_meaning_where_rows_have_moved() -> None:
    change = VocabChange(40, 40, "mean", tuple((row + 1) % 40 for row in range(40)))
    moved = tokens_for(config(), Words(), 12, change).batches[0].input_ids
    assert (in_source(moved, change) == tokens_for(config(), Words(), 12, None).batches[0].input_ids).all()


def test_there_and_back(tmp_path: Any) -> None:
    for change in (None, VocabChange(40, 44, "mean")):
        tokens = tokens_for(config(vocab_size=44 if change else 40), None, 5, change)
        tokens.write(tmp_path)
        found = Tokens.read(tmp_path)
        assert [batch.name for batch in found.batches] == [batch.name for batch in tokens.batches]
        for one, other in zip(found.batches, tokens.batches, strict=True):
            assert (one.input_ids == other.input_ids).all()
            assert (one.attention_mask == other.attention_mask).all()
        assert (found.step == tokens.step).all()
        assert (found.rows is None) == (change is None)
