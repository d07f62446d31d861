"""Silent losses about experts and their router."""

from __future__ import annotations

from collections.abc import Iterator

from mindport.config.mindformers.case import CONVERTED, LATENT, QWEN, Case, Check, Hit
from mindport.targets.mindformers.versions import MCORE


def _dense_layers(case: Case) -> Iterator[Hit]:
    if case.get("mlp_only_layers"):
        yield case.place("mlp_only_layers"), case.whole["mlp_only_layers"]
    if case.get("decoder_sparse_step", 1) != 1:
        yield case.place("decoder_sparse_step"), case.whole["decoder_sparse_step"]


def _dense_by_list(case: Case) -> Iterator[Hit]:
    layers = case.get("moe_layer_freq", 1)
    if layers != 1 and not (isinstance(layers, list) and all(layers)):
        yield case.place("moe_layer_freq"), layers
    if case.get("first_k_dense_replace"):
        yield case.place("first_k_dense_replace"), case.whole["first_k_dense_replace"]


def _balancing(case: Case) -> Iterator[Hit]:
    if case.get("router_aux_loss_coef") and case.get("moe_aux_loss_coeff") is None:
        yield case.place("router_aux_loss_coef"), case.whole["router_aux_loss_coef"]


def _score(case: Case) -> Iterator[Hit]:
    if case.get("scoring_func", "sigmoid") != "sigmoid" and case.get("moe_router_score_function") is None:
        yield case.place("scoring_func"), case.whole["scoring_func"]


def _groups(case: Case) -> Iterator[Hit]:
    top = case.first("num_experts_per_tok", "moe_router_topk", "num_experts_chosen")[1]
    groups, chosen = (case.first(*names)[1] for names in _GROUP_KEYS)
    known = all(isinstance(value, int) and value > 0 for value in (top, groups, chosen))
    if known and chosen < groups and top // chosen != 2:
        yield case.place("topk_group"), chosen


_GROUP_KEYS = (("n_group", "moe_router_num_groups"), ("topk_group", "moe_router_group_topk"))


def _single(case: Case) -> Iterator[Hit]:
    key, top = case.first("num_experts_per_tok", "moe_router_topk", "num_experts_chosen")
    if top == 1 and case.get("norm_topk_prob", True):
        yield case.place(key), top


def _moe_config(case: Case) -> Iterator[Hit]:
    if isinstance(case.run("moe_config"), dict) and case.run("moe_config", "expert_num") not in (None, 1):
        yield "moe_config", case.run("moe_config", "expert_num")


CHECKS = (
    Check(
        "MF041",
        "layers without experts are not possible: every layer gets them",
        "a model with such layers cannot be trained with this graph",
        _dense_layers,
        CONVERTED,
        ("qwen3_moe",),
        training=False,
        source="1.2",
    ),
    Check(
        "MF042",
        "the training graph is made of one kind of layer: every layer gets experts",
        "a model with layers without experts cannot be trained with this graph",
        _dense_by_list,
        CONVERTED,
        ("qwen3_moe",),
    ),
    Check(
        "MF043",
        "router_aux_loss_coef is dropped: experts are trained without the loss that balances them",
        "write moe_aux_loss_coeff",
        _balancing,
        CONVERTED,
        ("qwen3_moe",),
        source="1.2",
    ),
    Check(
        "MF044",
        "scoring_func is dropped: the router scores with a sigmoid",
        "write moe_router_score_function",
        _score,
        CONVERTED,
        LATENT,
        source="1.2",
    ),
    Check(
        "MF045",
        "MindFormers rates a group by its best topk / topk_group experts, Hugging Face always by its best 2",
        "a model with other groups chooses other experts in MindFormers",
        _groups,
        CONVERTED,
        LATENT,
        source="7",
    ),
    Check(
        "MF046",
        "with one expert per token norm_topk_prob does nothing: the expert's weight is its score, not 1",
        "write norm_topk_prob: False to say so; the model differs",
        _single,
        CONVERTED,
        (*QWEN[1:], *LATENT),
    ),
    Check(
        "MF047",
        "the section moe_config is not read by the mcore generation",
        "write its settings into model.model_config",
        _moe_config,
        (MCORE,),
        training=False,
        source="2.3",
    ),
)
