"""The same prompt continued greedily on both sides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mindspore as ms
import numpy as np

NextToken = Callable[[list[int]], int]

PROMPT = "The most important thing to check when a model moves from one framework to another is"


def greedy(next_token: NextToken, prompt: Sequence[int], tokens: int, stop: Sequence[int] = ()) -> list[int]:
    """Continue `prompt` by at most `tokens` ids, ending after an id in `stop`."""
    ids = list(prompt)
    for _ in range(tokens):
        ids.append(next_token(ids))
        if ids[-1] in stop:
            break
    return ids[len(prompt) :]


def native_next_token(network: Any, length: int, pad: int) -> NextToken:
    """The native model's most likely next token, run at one fixed length so that a graph is compiled once.

    Padding stands on the right, where a causal model cannot see it.
    """

    def next_token(ids: list[int]) -> int:
        padded = np.full((1, length), pad, np.int32)
        padded[0, : len(ids)] = ids
        logits = network(ms.Tensor(padded), None)[0]
        return int(logits.asnumpy()[0, len(ids) - 1].argmax())

    return next_token


def torch_greedy(network: Any, prompt: Sequence[int], tokens: int, stop: Sequence[int]) -> list[int]:
    """transformers' own greedy generation, with its key/value cache."""
    import torch

    with torch.no_grad():
        out = network.generate(
            torch.tensor([list(prompt)]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            generation_config=_plain_greedy(network, tokens, stop),
        )
    return out[0, len(prompt) :].tolist()


def _plain_greedy(network: Any, tokens: int, stop: Sequence[int]) -> Any:
    # Not the folder's generation_config: sampling or a repetition penalty there would not be greedy any more.
    from transformers import GenerationConfig

    return GenerationConfig(
        max_new_tokens=tokens, do_sample=False, num_beams=1, eos_token_id=list(stop) or None, pad_token_id=0
    )
