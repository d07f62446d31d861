"""The router on numbers worked out by hand, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

ms = pytest.importorskip("mindspore")

from mindport.errors import MindportError  # noqa: E402
from mindport.models import build_model  # noqa: E402
from mindport.models.moe import Router  # noqa: E402
from mindport.schema import TransformerConfig  # noqa: E402

GROUPED = TransformerConfig(
    vocab_size=11,
    hidden_size=4,
    num_layers=1,
    num_attention_heads=1,
    num_query_groups=1,
    kv_channels=4,
    ffn_hidden_size=4,
    max_position_embeddings=8,
    softmax_scale=0.5,
    gated_linear_unit=True,
    num_moe_experts=4,
    moe_router_topk=2,
    moe_ffn_hidden_size=3,
    moe_router_score_function="sigmoid",
    moe_router_num_groups=2,
    moe_router_group_topk=1,
    moe_router_enable_expert_bias=True,
)


def weights_of(config: TransformerConfig, logits: list[float], correction: list[float] | None = None) -> np.ndarray:
    """Weights of the experts for one token that gives these logits."""
    router = Router(config)
    router.weight.set_data(ms.Tensor(np.diag(np.ones(4, np.float32))))
    if correction is not None:
        router.score_correction.set_data(ms.Tensor(np.array(correction, np.float32)))
    found: np.ndarray = router(ms.Tensor(np.array([logits], np.float32))).asnumpy()[0]
    return found


def sigmoid(x: float) -> float:
    return float(1 / (1 + np.exp(-x)))


def test_only_experts_of_the_best_group_are_chosen() -> None:
    """The best single expert is in the group whose two best are together worse."""
    found = weights_of(GROUPED, [3.0, -9.0, 1.0, 2.0], [0.0] * 4)
    assert found == pytest.approx([0, 0, sigmoid(1), sigmoid(2)], abs=1e-6)


def test_an_expert_of_another_group_is_out_of_the_question() -> None:
    """Also where all corrected scores are negative, and 0 in place of a closed expert's would win."""
    found = weights_of(GROUPED, [1.0, 2.0, -1.0, -2.0], [-2.0] * 4)
    assert found == pytest.approx([sigmoid(1), sigmoid(2), 0, 0], abs=1e-6)


def test_the_correction_chooses_and_does_not_weigh() -> None:
    one_group = replace(GROUPED, moe_router_num_groups=None, moe_router_group_topk=None, moe_router_topk=1)
    assert weights_of(one_group, [0.0, 1.0, 2.0, 3.0], [0.9, 0, 0, 0]) == pytest.approx([0.5, 0, 0, 0], abs=1e-6)


def test_the_correction_is_not_learned() -> None:
    network = build_model(GROUPED)
    names = {name for name, _ in network.parameters_and_names()}
    trained = {parameter.name for parameter in network.trainable_params()}
    assert names - trained == {"layer.0.mlp.router.score_correction"}
    assert not network.layer[0].mlp.router.score_correction.asnumpy().any()


def test_a_softmax_over_the_chosen_alone() -> None:
    config = replace(
        GROUPED,
        moe_router_score_function="softmax",
        moe_router_pre_softmax=False,
        moe_router_num_groups=None,
        moe_router_group_topk=None,
        moe_router_enable_expert_bias=False,
    )
    assert weights_of(config, [0.0, 1.0, 2.0, 4.0]) == pytest.approx([0, 0, sigmoid(-2), sigmoid(2)], abs=1e-6)


@pytest.mark.parametrize(
    "wrong",
    [
        {"moe_router_topk": 0},
        {"moe_router_topk": 3},  # the one open group has two
        {"moe_router_num_groups": 3},
        {"moe_router_num_groups": 0},
        {"moe_router_num_groups": 4, "moe_router_topk": 1},  # no two best in a group of one
        {"moe_router_group_topk": 0},
        {"moe_router_group_topk": 3},
    ],
)
def test_counts_that_do_not_fit(wrong: dict[str, Any]) -> None:
    with pytest.raises(MindportError, match="experts cannot be chosen"):
        Router(replace(GROUPED, **wrong))
