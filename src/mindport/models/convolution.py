"""The convolution of DeBERTa-v2-xlarge: what neighbouring tokens add to the first block's output."""

from __future__ import annotations

from typing import Any

from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import initializer

from mindport.models.activations import activation
from mindport.models.dtypes import cast, to_mindspore
from mindport.models.norms import norm
from mindport.schema import TransformerConfig


class Convolution(nn.Cell):
    """norm(block output + act(convolution of the embeddings)), 0 at padding; (B, T, H) twice -> (B, T, H).

    `weight` is (H, channels of one group, K), as torch.nn.Conv1d stores it; K is odd and the length stays.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.width, self.groups = config.conv_kernel_size, config.conv_groups
        params_dtype, hidden = to_mindspore(config.params_dtype), config.hidden_size
        shape = (hidden, config.conv_group_width, self.width)
        self.weight = Parameter(initializer("zeros", shape, params_dtype), name="weight")
        self.bias = Parameter(initializer("zeros", (hidden,), params_dtype), name="bias")
        self.norm = norm(config)
        self.activation = activation(config.conv_act)
        self.dropout = nn.Dropout(p=config.hidden_dropout)
        self.compute_dtype = to_mindspore(config.compute_dtype)
        self.times_transposed = ops.BatchMatMul(transpose_b=True)

    def construct(self, embedded_BTH: Tensor, x_BTH: Tensor, real_BT1: Any) -> Tensor:
        x_BTH = self.norm(x_BTH + self.activation(self.dropout(self.convolved(embedded_BTH))))
        return x_BTH if real_BT1 is None else x_BTH * real_BT1

    def convolved(self, x_BTH: Tensor) -> Tensor:
        """One matrix product for each group, of each position's K neighbours."""
        B, T, H = x_BTH.shape
        G, K = self.groups, self.width
        beyond = ops.zeros((B, K // 2, H), x_BTH.dtype)
        padded = ops.concat((beyond, x_BTH, beyond), 1)
        near_BTHK = ops.stack([padded[:, tap : tap + T] for tap in range(K)], -1)
        near_GRI = near_BTHK.reshape(B * T, G, -1).transpose(1, 0, 2)
        weight_GOI = cast(self.weight, self.compute_dtype).reshape(G, H // G, -1)
        y_BTH = self.times_transposed(near_GRI, weight_GOI).transpose(1, 0, 2).reshape(B, T, H)
        return y_BTH + cast(self.bias, self.compute_dtype)
