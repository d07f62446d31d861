"""The same prompt continued greedily on both sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mindspore as ms
import numpy as np

from mindport.models.rope_frequencies import steady_length

PROMPT = "The most important thing to check when a model moves from one framework to another is"


def native_greedy(network: Any, prompt: Sequence[int], draft: Sequence[int], stop: Sequence[int]) -> list[int]:
    """The native model's own greedy continuation, as long as `draft` at most, ending after an id in `stop`.

    One forward pass scores every position of prompt and draft. As far as the draft is what the model would have chosen
    it is kept; at the first other choice the model's own is taken, and the rest is scored again. The result does not
    depend on the draft, only the number of passes does: one where both sides agree, and one for each id beyond the
    length at which RoPE begins to depend on the length of a sequence.
    """
    chosen: list[int] = []
    tail = list(draft)
    steady = steady_length(network.config)
    while len(chosen) < len(draft):
        known = len(prompt) + len(chosen)
        end = len(prompt) + len(draft) - 1
        if steady is not None:
            end = min(end, max(known, steady))
        ids = np.array([[*prompt, *chosen, *tail[len(chosen) :]][:end]], np.int32)
        logits = network(ms.Tensor(ids), None)[0].asnumpy()[0]
        best = logits[len(prompt) - 1 :].argmax(-1).tolist()
        while len(chosen) < len(best):
            agreed = best[len(chosen)] == tail[len(chosen)]
            chosen.append(best[len(chosen)])
            if chosen[-1] in stop:
                return chosen
            if not agreed:
                break
    return chosen


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
