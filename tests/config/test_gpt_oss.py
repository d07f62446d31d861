"""What a GPT-OSS config says without saying it: a scaling of RoPE, a window in every other layer, a gate."""

from __future__ import annotations

from typing import Any

import pytest

from mindport.config.hf import from_hf, to_hf
from mindport.errors import MindportError
from mindport.schema import TransformerConfig

BASE: dict[str, Any] = {"model_type": "gpt_oss", "num_hidden_layers": 4}
FULL, SLIDING = "full_attention", "sliding_attention"


def canonical(**changes: Any) -> TransformerConfig:
    return from_hf({**BASE, **changes}).transformer


def refusal(**changes: Any) -> str:
    with pytest.raises(MindportError) as error:
        canonical(**changes)
    assert error.value.fix
    return error.value.message


def test_a_config_that_says_nothing_of_scaling_has_the_one_of_the_class() -> None:
    scaling = canonical().rope_scaling
    assert scaling == {
        "rope_type": "yarn",
        "factor": 32.0,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "truncate": False,
        "original_max_position_embeddings": 4096,
    }
    assert canonical(rope_theta=5000.0).rope_scaling == scaling
    assert (canonical().rotary_base, canonical(rope_theta=5000.0).rotary_base) == (150000.0, 5000.0)


@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_a_scaling_that_is_given_replaces_all_of_it(key: str) -> None:
    given = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 512}
    assert canonical(**{key: given}).rope_scaling == given
    assert canonical(**{key: {"rope_type": "default"}}).rope_scaling is None


@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_a_null_scaling_is_refused(key: str) -> None:
    """transformers 4 takes it for none, 5 for the class's own."""
    assert f"{key} = None is no scaling in transformers 4" in refusal(**{key: None})


def test_no_scaling_is_written_out() -> None:
    written = to_hf(from_hf(BASE).with_transformer(rope_scaling=None))
    assert written["rope_scaling"] == {"rope_type": "default"}


def test_every_other_layer_has_a_window_from_the_first_on() -> None:
    config = canonical(sliding_window=7)
    assert (config.window_size, config.layer_types) == (7, [SLIDING, FULL, SLIDING, FULL])
    assert canonical(layer_types=None) == canonical()
    assert canonical(layer_types=[FULL] * 4).window_size is None
    assert canonical(layer_types=[SLIDING] * 4).layer_types is None


def test_a_window_without_width_is_refused() -> None:
    assert "no window is set" in refusal(sliding_window=None)
    assert canonical(sliding_window=None, layer_types=[FULL] * 4).window_size is None


@pytest.mark.parametrize("types", [[FULL] * 3, [FULL] * 5, ["chunked_attention"] * 4, [[FULL]] * 4, "full_attention"])
def test_a_list_of_other_layers_is_refused(types: Any) -> None:
    assert "layer_types must name" in refusal(layer_types=types)


def test_the_gate_is_not_the_activation_that_the_config_names() -> None:
    config = canonical(hidden_act="relu")
    assert (config.activation_func, config.glu_linear_offset) == ("quick_gelu", 1.0)
    assert config.activation_func_clamp_value == 7.0
    assert "swiglu_alpha" in refusal(swiglu_alpha=1.5)


def test_keys_that_older_files_repeat_do_not_count() -> None:
    config = canonical(num_experts_per_tok=2, experts_per_token=9, initial_context_length=77)
    assert config.moe_router_topk == 2
    assert config == canonical(num_experts_per_tok=2)


def test_quantised_weights_are_refused_by_name() -> None:
    quantised = {"modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"], "quant_method": "mxfp4"}
    assert "mxfp4" in refusal(quantization_config=quantised)
