"""Falcon configs: five keys that mean something together, older spellings, and dropout in two places."""

from __future__ import annotations

from typing import Any

import pytest

from mindport.architectures import architecture
from mindport.architectures.naming import spellings, tensor_map
from mindport.config.hf import from_hf, to_hf
from mindport.errors import MindportError
from mindport.schema import TransformerConfig, slots_of

FALCON = {
    "model_type": "falcon",
    "hidden_size": 64,
    "num_attention_heads": 8,
    "num_hidden_layers": 2,
    "vocab_size": 32,
}
NEW = {"new_decoder_architecture": True}
RW = {"alibi": True, "multi_query": False, "parallel_attn": False, "bias": True}


def canonical(**changes: Any) -> TransformerConfig:
    return from_hf({**FALCON, **changes}).transformer


def refusal(**changes: Any) -> str:
    with pytest.raises(MindportError) as error:
        from_hf({**FALCON, **changes})
    return error.value.message


@pytest.mark.parametrize(
    ("keys", "groups", "block"),
    [
        ({}, 1, "one_norm"),
        ({"multi_query": True, "num_kv_heads": 8}, 1, "one_norm"),  # not read where one key is shared by all
        ({"multi_query": False}, 8, "one_norm"),
        ({"multi_query": None}, 8, "one_norm"),
        (RW, 8, "none"),
        ({**RW, "num_ln_in_parallel_attn": 2}, 8, "none"),  # nothing is parallel
        ({**NEW, "num_kv_heads": 2}, 2, "two_norms"),
        ({**NEW, "num_kv_heads": 2, "multi_query": True}, 2, "two_norms"),
        ({**NEW, "num_kv_heads": 2, "num_ln_in_parallel_attn": 2}, 2, "two_norms"),
        ({**NEW, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1}, 2, "one_norm"),
        (NEW, 8, "two_norms"),
    ],
)
def test_which_heads_share_a_key_and_how_a_block_lies(keys: dict[str, Any], groups: int, block: str) -> None:
    config = canonical(**keys)
    assert (config.num_query_groups, config.parallel_block) == (groups, block)
    assert slots_of(config)["layer.0.attention.k.weight"] == (groups * 8, 64)
    assert ("layer.0.mlp_norm.weight" in slots_of(config)) == (block != "one_norm")


@pytest.mark.parametrize(
    "keys",
    [
        {"multi_query": False, "num_kv_heads": 2},
        {"num_ln_in_parallel_attn": 2},
        {**NEW, "parallel_attn": False},
        {**NEW, "num_ln_in_parallel_attn": 3},
    ],
)
def test_combinations_with_which_the_class_fails_are_refused(keys: dict[str, Any]) -> None:
    assert refusal(**keys).startswith("Falcon's class cannot run with")


@pytest.mark.parametrize(
    ("keys", "norms"),
    [
        ({}, {"input_layernorm"}),
        (RW, {"input_layernorm", "post_attention_layernorm"}),
        ({**NEW, "num_ln_in_parallel_attn": 1}, {"input_layernorm"}),
        (NEW, {"ln_attn", "ln_mlp"}),
    ],
)
def test_norms_are_named_by_the_kind_of_block(keys: dict[str, Any], norms: set[str]) -> None:
    declaration = architecture("falcon")
    for spelling in spellings(declaration):
        names = {name.split(".")[-2] for name in tensor_map(declaration, canonical(**keys), spelling)}
        assert {name for name in names if name.startswith("ln_") or name.endswith("layernorm")} == {*norms, "ln_f"}


@pytest.mark.parametrize(
    ("groups", "block"),
    [(1, "one_norm"), (8, "one_norm"), (2, "one_norm"), (1, "none"), (8, "none"), (1, "two_norms"), (2, "two_norms")],
)
def test_every_block_is_written_back(groups: int, block: str) -> None:
    changed = from_hf(FALCON).with_transformer(num_query_groups=groups, parallel_block=block)
    changed = changed.with_transformer(attention_output_dropout=0.0 if block == "none" else None)
    assert from_hf(to_hf(changed)).transformer == changed.transformer


def test_a_block_that_falcon_does_not_have_is_not_written() -> None:
    changed = from_hf(FALCON).with_transformer(num_query_groups=2, parallel_block="none")
    with pytest.raises(MindportError):
        to_hf(changed)


# --- spellings of the first release, whose code had other keys ---------------------------------------------------


@pytest.mark.parametrize("key", ["n_layer", "n_head", "n_head_kv"])
def test_a_key_that_the_class_does_not_read_is_not_lost(key: str) -> None:
    """Alone, it would leave the class default in force."""
    wanted = {"n_layer": "num_hidden_layers", "n_head": "num_attention_heads", "n_head_kv": "num_kv_heads"}[key]
    hf = {k: v for k, v in {**FALCON, **NEW}.items() if k != wanted}
    with pytest.raises(MindportError, match=key):
        from_hf({**hf, key: 2})
    assert from_hf({**hf, key: 2, wanted: 2}).transformer == from_hf({**hf, wanted: 2}).transformer


@pytest.mark.parametrize(("key", "value", "wanted"), [("hidden_act", "relu", "gelu"), ("layer_norm_eps", 1e-6, 1e-5)])
def test_common_names_of_falcons_keys_may_not_contradict_them(key: str, value: Any, wanted: Any) -> None:
    assert key in refusal(**{key: value})
    assert canonical(**{key: wanted}) == canonical()


def test_an_older_name_that_the_class_does_read() -> None:
    hf = {key: value for key, value in FALCON.items() if key != "hidden_size"}
    config = from_hf({**hf, "n_embed": 48}).transformer
    assert (config.hidden_size, config.ffn_hidden_size) == (48, 192)


@pytest.mark.parametrize("model_type", ["RefinedWeb", "RefinedWebModel"])
def test_the_first_release_under_its_own_model_type_is_refused(model_type: str) -> None:
    """transformers' class does not read its keys, so that a 40B would become a 7B."""
    assert model_type in refusal(model_type=model_type, n_head=8, n_layer=2, n_head_kv=2)


def test_residuals_taken_after_the_norm_are_refused() -> None:
    assert "Falcon's class does not read it" in refusal(apply_residual_connection_post_layernorm=True)


# --- values ------------------------------------------------------------------------------------------------------


def test_defaults_that_surprise() -> None:
    config = canonical()
    assert (config.tie_word_embeddings, config.activation_func, config.ffn_hidden_size) == (True, "gelu", 256)
    assert (config.normalization, config.embedding_padding_idx) == ("LayerNorm", None)


def test_alibi_takes_the_place_of_rope() -> None:
    assert canonical().position_embedding_type == "rope"
    assert canonical(alibi=True).position_embedding_type == "alibi"


@pytest.mark.parametrize(
    ("keys", "weights", "output"),
    [
        ({}, 0.0, None),
        ({"alibi": True}, 0.3, None),
        ({"parallel_attn": False, "multi_query": True}, 0.0, 0.3),
        (RW, 0.3, 0.3),
    ],
)
def test_attention_dropout_acts_in_two_places(keys: dict[str, Any], weights: float, output: float | None) -> None:
    config = canonical(**keys, attention_dropout=0.3, hidden_dropout=0.2)
    found = (config.attention_dropout, config.attention_output_dropout, config.hidden_dropout)
    assert found == (weights, output, 0.2)


@pytest.mark.parametrize("value", [-0.1, 1.5, "0.1", None])
def test_a_dropout_that_is_none_is_refused(value: Any) -> None:
    assert "attention_dropout must be" in refusal(attention_dropout=value)
