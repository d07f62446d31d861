"""Losses that equal their PyTorch counterparts, as functions on tensors."""

from __future__ import annotations

import mindspore as ms
from mindspore import Tensor, ops

from mindport.models.dtypes import cast

IGNORED = -100
"""Label of a position that does not count, as in torch and transformers."""


def cross_entropy(logits_NV: Tensor, labels_N: Tensor) -> Tensor:
    """Mean of -log softmax(logits)[label] over the labels that are not `IGNORED`; float32, NaN without any."""
    logits_NV = cast(logits_NV, ms.float32)
    counts_N = labels_N != IGNORED
    safe_N1 = ops.select(counts_N, labels_N, ops.zeros_like(labels_N)).expand_dims(-1)
    # log softmax written out: only the label's column is needed, not a second array as large as the logits.
    largest_N1 = ops.stop_gradient(logits_NV.max(-1, keepdims=True))
    log_sum_N = ops.log(ops.exp(logits_NV - largest_N1).sum(-1)) + largest_N1.squeeze(-1)
    loss_N = log_sum_N - ops.gather_elements(logits_NV, 1, safe_N1).squeeze(-1)
    weight_N = cast(counts_N, ms.float32)
    return (loss_N * weight_N).sum() / weight_N.sum()


def masked_lm_loss(logits_BTV: Tensor, labels_BT: Tensor) -> Tensor:
    """Cross-entropy where there is a label; also of a classifier, (B, C) with (B,), or spans, (B, 2, T) with (B, 2)."""
    return cross_entropy(logits_BTV.reshape(-1, logits_BTV.shape[-1]), labels_BT.reshape(-1))


def causal_lm_loss(logits_BTV: Tensor, labels_BT: Tensor) -> Tensor:
    """Cross-entropy of each position with the next one's label; labels are the ids, `IGNORED` at padding."""
    # Shifting the labels instead of the logits spares a copy of the logits.
    last_B1 = ops.full_like(labels_BT[:, :1], IGNORED)
    return masked_lm_loss(logits_BTV, ops.concat((labels_BT[:, 1:], last_B1), 1))


def sentence_embeddings(hidden_BTH: Tensor, attention_mask_BT: Tensor) -> Tensor:
    """Mean over the real tokens, scaled to length 1: (B, T, H) -> (B, H), as sentence-transformers does."""
    real_BT1 = cast(attention_mask_BT, hidden_BTH.dtype).expand_dims(-1)
    mean_BH = (hidden_BTH * real_BT1).sum(1) / ops.maximum(real_BT1.sum(1), 1e-9)
    length_B1 = ops.sqrt((mean_BH * mean_BH).sum(-1, keepdims=True))
    return mean_BH / ops.maximum(length_B1, 1e-12)


def contrastive_loss(anchors_BH: Tensor, positives_BH: Tensor, scale: float = 20.0) -> Tensor:
    """Each anchor should be nearest to its own positive among all of the batch (Henderson et al., 2017).

    Args:
        anchors_BH, positives_BH: sentence embeddings of length 1; row i belongs to row i.
        scale: factor on the cosines before the softmax.
    """
    scores_BB = ops.matmul(anchors_BH, positives_BH.T) * scale
    return cross_entropy(scores_BB, ops.arange(anchors_BH.shape[0]))
