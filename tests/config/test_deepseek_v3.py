"""What a DeepSeek-V3 config says without saying it, and keys whose other values would be another model."""

from __future__ import annotations

import math
from typing import Any

import pytest

from mindport.config.audit import IGNORED, audit
from mindport.config.hf import from_hf, to_hf
from mindport.errors import MindportError
from mindport.schema import TransformerConfig

BASE: dict[str, Any] = {
    "model_type": "deepseek_v3",
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "qk_nope_head_dim": 48,
    "qk_rope_head_dim": 16,
}
YARN = {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "mscale": 1.0}


def canonical(**changes: Any) -> TransformerConfig:
    return from_hf({**BASE, **changes}).transformer


def refusal(**changes: Any) -> str:
    with pytest.raises(MindportError) as error:
        canonical(**changes)
    assert error.value.fix
    return error.value.message


def test_a_null_query_rank_is_no_latent_and_a_missing_one_is_the_class_default() -> None:
    assert canonical(q_lora_rank=None).q_lora_rank is None
    assert canonical().q_lora_rank == 1536


def test_the_norms_of_the_latents_do_not_take_the_epsilon_of_the_others() -> None:
    config = canonical(rms_norm_eps=1e-3)
    assert (config.layernorm_epsilon, config.latent_layernorm_epsilon) == (1e-3, 1e-6)


@pytest.mark.parametrize("count", [8, None])
def test_every_head_has_a_key_of_its_own(count: int | None) -> None:
    assert canonical(num_key_value_heads=count).num_query_groups == 8


@pytest.mark.parametrize(
    ("key", "value", "right"),
    [("num_key_value_heads", 4, 8), ("head_dim", 64, 16), ("qk_head_dim", 48, 64)],
)
def test_a_key_that_repeats_others_must_repeat_them(key: str, value: int, right: int) -> None:
    assert refusal(**{key: value}).startswith(f"{key} = {value} is not supported: ")
    assert canonical(**{key: right}) == canonical(**{key: None}) == canonical()


def test_a_missing_number_of_key_heads_is_the_class_default_and_not_the_number_of_heads() -> None:
    """transformers would build a model of no heads from it."""
    with pytest.raises(MindportError, match="num_key_value_heads = 128 is not supported"):
        from_hf({key: value for key, value in BASE.items() if key != "num_key_value_heads"})


def test_the_second_magnitude_of_yarn_goes_onto_the_softmax_scale_twice() -> None:
    plain = 64**-0.5
    assert canonical().softmax_scale == plain
    magnitude = 0.1 * 0.7 * math.log(40) + 1
    assert canonical(rope_scaling={**YARN, "mscale_all_dim": 0.7}).softmax_scale == plain * magnitude * magnitude
    for without in ({}, {"mscale_all_dim": 0}, {"mscale_all_dim": None}, {"mscale_all_dim": 0.7, "factor": 1.0}):
        assert canonical(rope_scaling={**YARN, **without}).softmax_scale == plain


def test_the_first_layers_are_dense() -> None:
    assert canonical(first_k_dense_replace=1).moe_layer_freq == [0, 1, 1, 1]
    assert canonical(first_k_dense_replace=0).moe_layer_freq is None
    assert canonical(first_k_dense_replace=9).moe_layer_freq == [0, 0, 0, 0]
    assert "first_k_dense_replace" in refusal(first_k_dense_replace=None)


def test_no_list_of_absurdly_many_layers_is_made() -> None:
    assert "layers are more than" in refusal(num_hidden_layers=2**50)


def test_shared_experts_are_counted_and_not_measured() -> None:
    assert canonical(n_shared_experts=2, moe_intermediate_size=30).moe_shared_expert_intermediate_size == 60
    assert "n_shared_experts" in refusal(n_shared_experts=0)
    assert "n_shared_experts" in refusal(n_shared_experts=None)


def test_modules_for_multi_token_prediction_have_two_names() -> None:
    assert canonical().mtp_num_layers == 1
    assert canonical(num_nextn_predict_layers=0).mtp_num_layers == canonical(num_mtp_layers=0).mtp_num_layers == 0
    assert "disagree" in refusal(num_nextn_predict_layers=0, num_mtp_layers=1)


@pytest.mark.parametrize(
    ("key", "right", "wrong"),
    [("scoring_func", "sigmoid", "softmax"), ("topk_method", "noaux_tc", "greedy"), ("moe_layer_freq", 1, 2)],
)
def test_another_router_is_refused(key: str, right: Any, wrong: Any) -> None:
    """transformers does not read these keys and would compute with its only router."""
    assert canonical(**{key: right}) == canonical()
    assert key in refusal(**{key: wrong})


def test_keys_of_a_loss_that_the_class_does_not_have_are_ignored_with_a_reason() -> None:
    rows = audit(from_hf({**BASE, "aux_loss_alpha": 0.001, "seq_aux": True, "ep_size": 8}))
    found = {row.key: row for row in rows if row.key in ("aux_loss_alpha", "seq_aux", "ep_size")}
    assert [row.status for row in found.values()] == [IGNORED] * 3
    assert all(row.note for row in found.values())


def test_the_fp8_release_is_the_same_model() -> None:
    fp8 = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
    assert canonical(quantization_config=fp8) == canonical()
    assert to_hf(from_hf({**BASE, "quantization_config": fp8})) == BASE


def test_a_changed_number_of_experts_goes_back_under_the_older_name() -> None:
    described = from_hf(BASE).with_transformer(num_moe_experts=64, moe_router_num_groups=4)
    written = to_hf(described)
    assert (written["n_routed_experts"], written["n_group"]) == (64, 4)
    assert "head_dim" not in written
