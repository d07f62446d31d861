"""The PyTorch side of a training alignment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mindport.verify.alignment import Settings
from mindport.verify.objectives import IGNORED, Arrays
from mindport.verify.torch_model import logits_of


def train_torch(
    network: Any, objective: str, batches: Sequence[Arrays], settings: Settings
) -> tuple[list[float], list[float]]:
    """Train with torch.optim.AdamW, dropout off.

    Returns:
        loss and gradient norm before clipping, one per step.
    """
    import torch

    network.eval()  # dropout off; gradients flow all the same
    parameters = [p for p in network.parameters() if p.requires_grad]
    # Matrices and embeddings decay; norms and biases, which are vectors, do not.
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate, betas=settings.betas, eps=settings.eps)
    losses, norms = [], []
    for batch in batches:
        loss = _LOSSES[objective](network, *(torch.from_numpy(array).long() for array in batch))
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(parameters, settings.max_grad_norm)))
        losses.append(float(loss.detach()))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return losses, norms


def first_step(network: Any, ids: Any) -> tuple[float, float]:
    """Loss of the next token, and gradient norm, of (batch, sequence + 1) token ids; dropout off, nothing updated."""
    import torch
    from torch.nn.functional import cross_entropy

    network.eval()
    network.zero_grad()
    tokens = torch.as_tensor(ids).long()
    logits = network(input_ids=tokens[:, :-1]).logits
    loss = cross_entropy(logits.reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1))
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_([p for p in network.parameters() if p.requires_grad], 1.0)
    return float(loss.detach()), float(norm)


def _causal_lm(network: Any, ids: Any, mask: Any, labels: Any) -> Any:
    from torch.nn.functional import cross_entropy

    logits = network(input_ids=ids, attention_mask=mask).logits[:, :-1]
    return cross_entropy(logits.reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1), ignore_index=IGNORED)


def _labelled(network: Any, ids: Any, mask: Any, labels: Any) -> Any:
    from torch.nn.functional import cross_entropy

    logits = logits_of(network(input_ids=ids, attention_mask=mask))
    return cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), ignore_index=IGNORED)


def _contrastive(network: Any, anchors: Any, anchor_mask: Any, positives: Any, positive_mask: Any) -> Any:
    import torch
    from torch.nn.functional import cross_entropy, normalize

    def embed(ids: Any, mask: Any) -> Any:
        hidden = network(input_ids=ids, attention_mask=mask).last_hidden_state
        real = mask.unsqueeze(-1).to(hidden.dtype)
        return normalize((hidden * real).sum(1) / real.sum(1), dim=-1)

    scores = embed(anchors, anchor_mask) @ embed(positives, positive_mask).T * 20.0
    return cross_entropy(scores, torch.arange(len(scores)))


_LOSSES: dict[str, Callable[..., Any]] = {"causal_lm": _causal_lm, "labelled": _labelled, "contrastive": _contrastive}
