"""Network and loss as one cell: inputs -> scalar loss.

Without `auto_prefix`: MindSpore would otherwise rename the network's parameters, and they are known by their slots.
"""

from __future__ import annotations

from typing import Any

from mindspore import Tensor, nn

from mindport.models.transformer import Transformer
from mindport.train.losses import causal_lm_loss, contrastive_loss, masked_lm_loss, sentence_embeddings


class CausalLMObjective(nn.Cell):
    """(input ids, attention mask or None, labels), each (B, T) -> mean next-token loss."""

    def __init__(self, network: Transformer) -> None:
        super().__init__(auto_prefix=False)
        self.network = network

    def construct(self, input_ids_BT: Tensor, attention_mask_BT: Any, labels_BT: Tensor) -> Tensor:
        return causal_lm_loss(self.network(input_ids_BT, attention_mask_BT, None, None)[0], labels_BT)


class MaskedLMObjective(nn.Cell):
    """(input ids, attention mask or None, labels), each (B, T) -> mean loss where there is a label.

    It serves classifiers too; labels are (B,) where the head classifies whole sequences. In question answering they
    are the positions of start and end, (B, 2).
    """

    def __init__(self, network: Transformer) -> None:
        super().__init__(auto_prefix=False)
        self.network = network

    def construct(self, input_ids_BT: Tensor, attention_mask_BT: Any, labels_BT: Tensor) -> Tensor:
        return masked_lm_loss(self.network(input_ids_BT, attention_mask_BT, None, None)[0], labels_BT)


class ContrastiveObjective(nn.Cell):
    """(anchor ids, anchor mask, positive ids, positive mask), each (B, T) -> in-batch contrastive loss."""

    def __init__(self, network: Transformer, scale: float = 20.0) -> None:
        super().__init__(auto_prefix=False)
        self.network = network
        self.scale = scale

    def construct(
        self,
        anchor_ids_BT: Tensor,
        anchor_mask_BT: Tensor,
        positive_ids_BS: Tensor,
        positive_mask_BS: Tensor,
    ) -> Tensor:
        anchors_BH = self._embed(anchor_ids_BT, anchor_mask_BT)
        positives_BH = self._embed(positive_ids_BS, positive_mask_BS)
        return contrastive_loss(anchors_BH, positives_BH, self.scale)

    def _embed(self, ids_BT: Tensor, mask_BT: Tensor) -> Tensor:
        return sentence_embeddings(self.network(ids_BT, mask_BT, None, None)[1], mask_BT)
