"""StableLM configs: a quarter of each head by default, norms of single heads, dropout after the MLP alone."""

from __future__ import annotations

from typing import Any

import pytest

from mindport.config.hf import from_hf, to_hf
from mindport.errors import MindportError
from mindport.schema import TransformerConfig, slots_of

STABLELM = {
    "model_type": "stablelm",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "vocab_size": 32,
}


def canonical(**changes: Any) -> TransformerConfig:
    return from_hf({**STABLELM, **changes}).transformer


def refusal(**changes: Any) -> str:
    with pytest.raises(MindportError) as error:
        from_hf({**STABLELM, **changes})
    return error.value.message


@pytest.mark.parametrize(
    ("keys", "part", "width"),
    [
        ({}, 0.25, 4),
        ({"partial_rotary_factor": 0.5}, 0.5, 8),
        ({"partial_rotary_factor": 1}, 1.0, 16),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}}, 0.5, 8),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}, 0.25, 4),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, 0.25, 4),
        ({"rope_scaling": {"type": "linear", "factor": 2.0, "partial_rotary_factor": 0.5}}, 0.5, 8),
    ],
)
def test_the_part_of_a_head_that_rope_turns(keys: dict[str, Any], part: float, width: int) -> None:
    config = canonical(**keys)
    assert (config.rotary_percent, config.rotary_width) == (part, width)


@pytest.mark.parametrize(
    "keys",
    [
        {"partial_rotary_factor": 0.2},  # 3 of 16 channels
        {"partial_rotary_factor": 0.05},
        {"partial_rotary_factor": 0.0},
        {"partial_rotary_factor": 1.5},
        {"partial_rotary_factor": None},
        {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": None}},
    ],
)
def test_parts_that_no_pairs_make_up_are_refused(keys: dict[str, Any]) -> None:
    assert "partial_rotary_factor" in refusal(**keys)


def test_two_parts_are_refused() -> None:
    inside = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
    assert canonical(rope_parameters=inside, partial_rotary_factor=0.5).rotary_percent == 0.5
    assert "disagree" in refusal(rope_parameters=inside, partial_rotary_factor=0.25)


def test_the_part_is_written_back() -> None:
    inside = {"rope_type": "linear", "factor": 2.0, "partial_rotary_factor": 0.5}
    source = {**STABLELM, "rope_parameters": inside}
    assert to_hf(from_hf(source)) == source
    changed = from_hf(source).with_transformer(rotary_percent=1.0)
    assert from_hf(to_hf(changed)).transformer == changed.transformer


def test_norms_of_single_heads_have_no_bias() -> None:
    shapes = slots_of(canonical(qk_layernorm=True))
    found = {
        slot: shape
        for slot, shape in shapes.items()
        if slot.startswith(("layer.1.attention.q_norm", "layer.1.attention.k_norm"))
    }
    wanted = [f"layer.1.attention.q_norm.{head}.weight" for head in range(4)]
    wanted += [f"layer.1.attention.k_norm.{head}.weight" for head in range(2)]
    assert found == dict.fromkeys(wanted, (16,))
    assert "layer.1.attention_norm.bias" in shapes


@pytest.mark.parametrize("parallel", [True, False])
def test_a_parallel_block_has_one_norm(parallel: bool) -> None:
    config = canonical(use_parallel_residual=parallel)
    assert config.parallel_block == ("one_norm" if parallel else "none")
    assert ("layer.0.mlp_norm.weight" in slots_of(config)) != parallel


def test_nothing_is_dropped_of_what_attention_gives() -> None:
    config = canonical(hidden_dropout=0.2, attention_dropout=0.3)
    assert (config.hidden_dropout, config.attention_output_dropout, config.attention_dropout) == (0.2, 0.0, 0.3)


def test_heads_have_no_width_of_their_own() -> None:
    assert canonical(head_dim=16) == canonical()
    assert "head_dim" in refusal(head_dim=32)


def test_biases_of_queries_keys_and_values_only() -> None:
    shapes = slots_of(canonical(use_qkv_bias=True))
    assert [f"layer.0.attention.{part}.bias" in shapes for part in "qkvo"] == [True, True, True, False]
    assert "layer.0.mlp.up.bias" not in shapes
