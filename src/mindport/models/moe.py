"""Mixture of experts: a router, the experts it chooses from, and an expert that every token goes through."""

from __future__ import annotations

from typing import Any

from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import initializer

from mindport.config.sanity import wrong_routing
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.models.dtypes import cast, to_mindspore
from mindport.models.linear import project
from mindport.models.mlp import MLP, Hidden
from mindport.schema import TransformerConfig

_NEVER = -1.0e38


class Router(nn.Cell):
    """Weights of the experts for each token: (N, H) -> (N, E), zero but for the chosen.

    Scores are softmax or sigmoid of the logits; the best `moe_router_topk` are chosen, in the best groups only where
    experts are grouped (DeepSeek-V3, section 2.1.2: a group counts by the sum of its two best). A correction is
    added for the choice alone. Computed in float32.

    Experts of other groups are out of the question whatever their scores, as in DeepSeek's own code since March 2025
    and transformers 5. Transformers 4 gives them the score 0, which beats an open expert whose correction makes it
    negative.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        _check_counts(config)
        experts = config.num_moe_experts
        params_dtype = to_mindspore(config.params_dtype)
        self.weight = Parameter(initializer("zeros", (experts, config.hidden_size), params_dtype), name="weight")
        self.bias = (
            Parameter(initializer("zeros", (experts,), params_dtype), name="bias") if config.add_router_bias else None
        )
        self.score_correction = (
            # Not learned by gradient: whoever trains moves it by the experts' load (DeepSeek-V3, section 2.1.2).
            Parameter(initializer("zeros", (experts,), params_dtype), name="score_correction", requires_grad=False)
            if config.moe_router_enable_expert_bias
            else None
        )
        self.experts, self.topk = experts, config.moe_router_topk
        self.sigmoid = config.moe_router_score_function == "sigmoid"
        self.softmax_first = config.moe_router_pre_softmax
        self.groups, self.topk_groups = config.moe_router_num_groups, config.moe_router_group_topk
        self.normalised = config.norm_topk_prob
        self.factor = config.moe_router_topk_scaling_factor
        self.dtype = to_mindspore("float32")

    def construct(self, x_NH: Tensor) -> Tensor:
        logits_NE = project(x_NH, self.weight, self.dtype)
        if self.bias is not None:
            logits_NE = logits_NE + cast(self.bias, self.dtype)
        scores_NE = logits_NE
        if self.sigmoid:
            scores_NE = ops.sigmoid(logits_NE)
        elif self.softmax_first:
            scores_NE = ops.softmax(logits_NE, -1)
        chosen_NE = self.choose(scores_NE)
        if not self.sigmoid and not self.softmax_first:
            scores_NE = ops.softmax(ops.select(chosen_NE > 0, logits_NE, ops.full_like(logits_NE, _NEVER)), -1)
        weights_NE = scores_NE * chosen_NE
        if self.normalised:
            weights_NE = weights_NE / (weights_NE.sum(-1, keepdims=True) + 1e-20)
        return weights_NE * self.factor

    def choose(self, scores_NE: Tensor) -> Tensor:
        """1 for the chosen experts of each token, 0 for the others; (N, E)."""
        if self.score_correction is not None:
            scores_NE = scores_NE + cast(self.score_correction, self.dtype)
        if self.groups is not None and self.topk_groups is not None and self.topk_groups < self.groups:
            scores_NGK = scores_NE.reshape(-1, self.groups, self.experts // self.groups)
            best_two, _ = ops.topk(scores_NGK, 2)
            _, groups = ops.topk(best_two.sum(-1), self.topk_groups)
            open_NG1 = ops.one_hot(groups, self.groups).sum(1).expand_dims(-1)
            scores_NGK = ops.select(
                ops.broadcast_to(open_NG1 > 0, scores_NGK.shape), scores_NGK, ops.full_like(scores_NGK, _NEVER)
            )
            scores_NE = scores_NGK.reshape(-1, self.experts)
        _, experts = ops.topk(scores_NE, self.topk)
        return cast(ops.one_hot(experts, self.experts).sum(1), self.dtype)


def _check_counts(config: TransformerConfig) -> None:
    if wrong_routing(config):
        groups = 1 if config.moe_router_num_groups is None else config.moe_router_num_groups
        raise MindportError(
            tr(
                "{topk} of {experts} experts cannot be chosen from {best} of {groups} groups.",
                topk=config.moe_router_topk,
                experts=config.num_moe_experts,
                best=groups if config.moe_router_group_topk is None else config.moe_router_group_topk,
                groups=groups,
            ),
            tr("The groups must divide the experts into two or more each, and those considered hold enough of them."),
        )


class ExpertLinear(nn.Cell):
    """A projection of each expert, stacked: `weight` (E, out, in), `bias` (E, out)."""

    def __init__(self, experts: int, in_width: int, out_width: int, *, bias: bool, params_dtype: Any) -> None:
        super().__init__()
        self.weight = Parameter(initializer("zeros", (experts, out_width, in_width), params_dtype), name="weight")
        self.bias = Parameter(initializer("zeros", (experts, out_width), params_dtype), name="bias") if bias else None


class Experts(nn.Cell):
    """The routed experts, each an MLP: (N, H) and weights (N, E) -> (N, H).

    Every expert computes every token, and the weights, mostly zero, pick the sum: E / topk times the work
    that is needed, in products of one static shape, the same in both modes and on every device.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        experts, outer, inner = config.num_moe_experts, config.hidden_size, config.moe_ffn_hidden_size
        settings = {"bias": config.add_mlp_bias, "params_dtype": to_mindspore(config.params_dtype)}
        self.gate = ExpertLinear(experts, outer, inner, **settings) if config.gated_linear_unit else None
        self.up = ExpertLinear(experts, outer, inner, **settings)
        self.down = ExpertLinear(experts, inner, outer, **settings)
        self.hidden = Hidden(config)
        self.compute_dtype = to_mindspore(config.compute_dtype)
        self.times_transposed = ops.BatchMatMul(transpose_b=True)

    def construct(self, x_NH: Tensor, weights_NE: Tensor) -> Tensor:
        gate = None if self.gate is None else self.inner(self.gate, x_NH)
        hidden_ENF = self.hidden(gate, self.inner(self.up, x_NH)).transpose(1, 0, 2)
        y_ENH = self.times_transposed(hidden_ENF, cast(self.down.weight, self.compute_dtype))
        if self.down.bias is not None:
            y_ENH = y_ENH + cast(self.down.bias, self.compute_dtype).expand_dims(1)
        weights_EN1 = cast(weights_NE, self.compute_dtype).transpose(1, 0).expand_dims(-1)
        return (y_ENH * weights_EN1).sum(0)

    def inner(self, projection: ExpertLinear, x_NH: Tensor) -> Tensor:
        """(N, H) -> (N, E, F), as one product."""
        E, F, H = projection.weight.shape
        y_NEF = project(x_NH, projection.weight.reshape(E * F, H), self.compute_dtype).reshape(-1, E, F)
        return y_NEF if projection.bias is None else y_NEF + cast(projection.bias, self.compute_dtype)


class MoE(nn.Cell):
    """Routed experts and, where the configuration has one, the shared expert; (B, T, H) -> (B, T, H)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.router = Router(config)
        self.experts = Experts(config)
        shared = config.moe_shared_expert_intermediate_size
        self.shared = MLP(config, shared) if shared > 0 else None

    def construct(self, x_BTH: Tensor) -> Tensor:
        x_NH = x_BTH.reshape(-1, x_BTH.shape[-1])
        y_BTH = self.experts(x_NH, self.router(x_NH)).reshape(x_BTH.shape)
        return y_BTH if self.shared is None else y_BTH + self.shared(x_BTH)
