"""Phi-3 configs: LongRoPE under three names, its lists and its factor on attention, and keys that are not read."""

from __future__ import annotations

import math
from typing import Any

import pytest

from mindport.config.hf import from_hf, to_hf
from mindport.errors import MindportError
from mindport.schema import TransformerConfig, slots_of

SHORT, LONG = [1.0, 1.5, 2.0, 2.5], [1.0, 4.0, 16.0, 64.0]
LISTS = {"short_factor": SHORT, "long_factor": LONG}
PHI3 = {
    "model_type": "phi3",
    "hidden_size": 64,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": 96,
    "vocab_size": 32,
    "pad_token_id": 3,
    "max_position_embeddings": 4096,
    "original_max_position_embeddings": 512,
}
BY_LENGTHS = math.sqrt(1 + math.log(8) / math.log(512))
CANONICAL = {
    "rope_type": "longrope",
    **LISTS,
    "original_max_position_embeddings": 512,
    "attention_factor": BY_LENGTHS,
}


def canonical(**changes: Any) -> TransformerConfig:
    return from_hf({**PHI3, **changes}).transformer


def refusal(**changes: Any) -> str:
    with pytest.raises(MindportError) as error:
        from_hf({**PHI3, **changes})
    return error.value.message


@pytest.mark.parametrize("kind", ["su", "longrope"])
@pytest.mark.parametrize("name", ["type", "rope_type"])
@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_longrope_under_all_its_names(kind: str, name: str, key: str) -> None:
    config = canonical(**{key: {name: kind, **LISTS}})
    assert config.rope_scaling == CANONICAL
    assert config.rotary_base == 10000.0


def test_integers_in_the_lists_are_numbers() -> None:
    config = canonical(rope_scaling={"type": "longrope", "short_factor": [1, 1, 1, 1], "long_factor": LONG})
    assert (config.rope_scaling or {})["short_factor"] == [1.0] * 4


@pytest.mark.parametrize(
    ("keys", "scaling", "factor"),
    [
        ({}, {}, BY_LENGTHS),
        ({"max_position_embeddings": 512}, {}, 1.0),  # as in Phi-3.5-mini for a short context
        ({"max_position_embeddings": 256}, {}, 1.0),
        ({}, {"factor": 2.0}, math.sqrt(1 + math.log(2) / math.log(512))),
        ({}, {"factor": 1.0}, 1.0),
        ({}, {"factor": None, "attention_factor": None}, BY_LENGTHS),
        ({}, {"attention_factor": 1.25}, 1.25),
        ({}, {"attention_factor": 1.25, "factor": 2.0}, 1.25),
    ],
)
def test_the_factor_on_attention(keys: dict[str, Any], scaling: dict[str, Any], factor: float) -> None:
    found = canonical(**keys, rope_scaling={"type": "longrope", **LISTS, **scaling}).rope_scaling
    assert (found or {})["attention_factor"] == pytest.approx(factor, rel=1e-15)


def test_the_trained_length_is_the_classes_where_a_file_does_not_say() -> None:
    hf = {key: value for key, value in PHI3.items() if key != "original_max_position_embeddings"}
    config = from_hf({**hf, "rope_scaling": {"type": "longrope", **LISTS}}).transformer
    assert (config.rope_scaling or {})["original_max_position_embeddings"] == 4096


def test_two_trained_lengths_are_refused() -> None:
    """transformers takes the one beside the scaling, and its default where that is missing."""
    scaling = {"rope_type": "longrope", **LISTS, "original_max_position_embeddings": 512}
    assert canonical(rope_scaling=scaling).rope_scaling == CANONICAL
    assert "disagree" in refusal(rope_scaling={**scaling, "original_max_position_embeddings": 1024})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"short_factor": SHORT[:3]}, "LongRoPE has 3 factors for 4 frequencies"),
        ({"long_factor": [*LONG, 1.0]}, "LongRoPE has 5 factors for 4 frequencies"),
        ({"long_factor": None}, "lacks [long_factor]"),
        ({"long_factor": 2.0}, "long_factor must be a list"),
        ({"long_factor": [1.0, 2.0, "3", 4.0]}, "long_factor must be a number"),
        ({"short_factor": [0, 1, 1, 1]}, "short_factor must be at least"),
        ({"short_factor": [1, 1, 1, float("inf")]}, "short_factor must be finite"),
        ({"short_mscale": 1.0}, "unknown keys [short_mscale]"),
        ({"type": "yarn"}, "RoPE scaling 'yarn' is not supported"),
        ({"type": "linear", "factor": 2.0}, "RoPE scaling 'linear' is not supported"),
    ],
)
def test_scalings_that_do_not_fit_are_refused(changes: dict[str, Any], words: str) -> None:
    assert words in refusal(rope_scaling={"type": "longrope", **LISTS, **changes})


def test_the_lists_are_for_the_part_of_a_head_that_is_turned() -> None:
    part = {"short_factor": SHORT[:3], "long_factor": LONG[:3]}
    config = canonical(rope_scaling={"type": "longrope", **part}, partial_rotary_factor=0.75)
    assert (config.rotary_percent, config.rotary_width) == (0.75, 6)
    assert "LongRoPE has 4 factors for 3 frequencies" in refusal(
        rope_scaling={"type": "longrope", **LISTS}, partial_rotary_factor=0.75
    )


def test_a_scaling_is_written_as_both_generations_of_transformers_read_it() -> None:
    model = from_hf({**PHI3, "rope_scaling": {"rope_type": "su", **LISTS}})
    assert to_hf(model)["rope_scaling"] == {"rope_type": "su", **LISTS}, "as the file has it"
    changed = model.with_transformer(rope_scaling={**CANONICAL, "short_factor": LONG})
    assert to_hf(changed)["rope_scaling"] == {"type": "longrope", "short_factor": LONG, "long_factor": LONG}
    assert from_hf(to_hf(changed)).transformer == changed.transformer


def test_a_longer_context_alone_does_not_change_the_factor_on_attention() -> None:
    model = from_hf({**PHI3, "rope_scaling": {"type": "longrope", **LISTS}})
    changed = model.with_transformer(max_position_embeddings=8192)
    assert to_hf(changed)["rope_scaling"]["attention_factor"] == BY_LENGTHS
    assert from_hf(to_hf(changed)).transformer == changed.transformer


# --- the rest ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["attention_bias", "mlp_bias", "lm_head_bias"])
def test_biases_that_the_class_does_not_have(key: str) -> None:
    assert canonical(**{key: False}) == canonical()
    assert "no such bias" in refusal(**{key: True})


def test_dropouts() -> None:
    config = canonical(resid_pdrop=0.1, embd_pdrop=0.2, attention_dropout=0.3)
    found = (config.hidden_dropout, config.attention_output_dropout, config.embedding_dropout, config.attention_dropout)
    assert found == (0.1, None, 0.0, 0.3)


@pytest.mark.parametrize(
    ("keys", "window"), [({}, None), ({"sliding_window": 2047}, 2047), ({"sliding_window": None}, None)]
)
def test_the_window(keys: dict[str, Any], window: int | None) -> None:
    assert canonical(**keys).window_size == window


def test_widths() -> None:
    config = canonical(num_key_value_heads=None)
    assert (config.num_query_groups, config.kv_channels, config.softmax_scale) == (8, 8, 8**-0.5)
    assert canonical(head_dim=8) == canonical()
    assert "head_dim" in refusal(head_dim=16)


def test_projections_are_apart_in_the_canonical_model() -> None:
    shapes = slots_of(canonical())
    assert shapes["layer.0.attention.q.weight"] == (64, 64)
    assert shapes["layer.0.attention.k.weight"] == shapes["layer.0.attention.v.weight"] == (16, 64)
    assert shapes["layer.0.mlp.gate.weight"] == shapes["layer.0.mlp.up.weight"] == (96, 64)


def test_the_padding_row_is_not_trained_by_the_input() -> None:
    assert canonical().embedding_padding_idx == 3
    assert canonical(pad_token_id=None).embedding_padding_idx is None
