"""Values that DeBERTa's code derives in silence, and keys that look as if they meant something else."""

from __future__ import annotations

from typing import Any

import pytest

from mindport.architectures import architecture
from mindport.architectures.naming import spellings
from mindport.config.audit import NAMES, REPEATS, audit
from mindport.config.hf import from_hf, to_hf
from mindport.errors import MindportError
from mindport.schema import TransformerConfig, slots_of

V3_BASE: dict[str, Any] = {
    "model_type": "deberta-v2",
    "hidden_size": 768,
    "num_attention_heads": 12,
    "relative_attention": True,
    "pos_att_type": "p2c|c2p",
    "position_buckets": 256,
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "position_biased_input": False,
}


def read(**keys: Any) -> TransformerConfig:
    return from_hf({**V3_BASE, **keys}).transformer


def lacking(*keys: str) -> TransformerConfig:
    return from_hf({key: value for key, value in V3_BASE.items() if key not in keys}).transformer


def test_a_published_config() -> None:
    config = read()
    assert config.pos_att_type == "c2p|p2c"
    assert config.softmax_scale == pytest.approx((64 * 3) ** -0.5)
    assert (config.max_relative_positions, config.position_buckets, config.relative_span) == (512, 256, 256)
    assert slots_of(config)["relative_embedding.weight"] == (512, 768)
    assert config.position_embedding_type == "none"


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("c2p|p2c", "c2p|p2c"),
        ("P2C | c2p", "c2p|p2c"),
        (["p2c", "c2p"], "c2p|p2c"),
        (["c2p", "c2p"], "c2p"),
        ("p2c", "p2c"),
    ],
)
def test_spellings_of_the_kinds_of_positions(given: Any, meant: str) -> None:
    config = read(pos_att_type=given)
    assert config.pos_att_type == meant
    assert config.softmax_scale == pytest.approx((64 * (2 + meant.count("|"))) ** -0.5)


@pytest.mark.parametrize("given", ["p2p", ["c2p", "p2p"], ["C2P"], "", 3, {"c2p": True}])
def test_other_kinds_are_refused(given: Any) -> None:
    with pytest.raises(MindportError, match=r"pos_att_type = .* is not supported"):
        read(pos_att_type=given)


def test_named_kinds_count_in_the_scale_without_relative_attention() -> None:
    """The class default of relative_attention is false; what a config names besides then still divides the scores."""
    config = lacking("relative_attention", "norm_rel_ebd")
    assert config.pos_att_type == "none"
    assert config.softmax_scale == pytest.approx((64 * 3) ** -0.5)
    assert "relative_embedding.weight" not in slots_of(config)


@pytest.mark.parametrize(("given", "meant"), [(-1, 512), (0, 512), (200, 200)])
def test_reach_of_relative_positions(given: int, meant: int) -> None:
    assert read(max_relative_positions=given).max_relative_positions == meant


@pytest.mark.parametrize("given", [-1, 0])
def test_no_buckets(given: int) -> None:
    config = read(position_buckets=given)
    assert config.position_buckets is None
    assert config.relative_span == 512


def test_values_of_the_code_for_keys_that_the_config_class_lacks() -> None:
    config = lacking("share_att_key", "position_buckets", "norm_rel_ebd")
    assert (config.share_att_key, config.position_buckets, config.norm_rel_ebd) == (False, None, "none")
    assert (config.conv_kernel_size, config.embedding_size) == (0, None)
    convolved = read(conv_kernel_size=3)
    assert (convolved.conv_kernel_size, convolved.conv_groups, convolved.conv_act) == (3, 1, "tanh")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"pos_att_type": None}, "relative_attention = true needs pos_att_type"),
        ({"pos_att_type": []}, "relative_attention = true needs pos_att_type"),
        ({"relative_attention": False}, "norm_rel_ebd = layer_norm needs relative_attention = true"),
        ({"norm_rel_ebd": "batch_norm"}, "norm_rel_ebd = 'batch_norm' is not supported"),
        ({"position_buckets": 1}, "position_buckets = 1 needs position_buckets >= 2"),
        ({"max_relative_positions": 129}, "position_buckets = 256 needs max_relative_positions >= 130"),
        ({"conv_kernel_size": 4}, "conv_kernel_size = 4 needs conv_kernel_size % 2 = 1"),
        ({"conv_kernel_size": 3, "conv_groups": 5}, "conv_groups = 5 needs hidden_size % 5 = 0"),
        ({"attention_head_size": 32}, "attention_head_size = 32 is not supported"),
        ({"pooler_hidden_size": 384}, "pooler_hidden_size = 384 is not supported"),
        ({"legacy": False, "embedding_size": 128}, "legacy = false needs embedding_size = hidden_size"),
        ({"legacy": None}, "legacy must be true or false"),
        ({"cls_dropout": 1.5}, "cls_dropout must be at most 1"),
    ],
)
def test_what_cannot_be(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(MindportError) as failure:
        read(**keys)
    assert message in failure.value.message
    assert failure.value.fix


def test_only_the_classifier_of_sequences_reads_cls_dropout() -> None:
    def dropout(name: str, **keys: Any) -> float:
        return read(architectures=[f"DebertaV2For{name}"], hidden_dropout_prob=0.1, **keys).classifier_dropout

    assert dropout("SequenceClassification", cls_dropout=0.3) == 0.3
    assert dropout("SequenceClassification", cls_dropout=0) == 0.0
    assert dropout("SequenceClassification", cls_dropout=None) == 0.1
    assert dropout("TokenClassification", cls_dropout=0.3) == 0.1


@pytest.mark.parametrize(("size", "canonical"), [(768, None), (128, 128)])
def test_embeddings_of_the_hidden_width_are_not_projected(size: int, canonical: int | None) -> None:
    config = read(embedding_size=size)
    assert config.embedding_size == canonical
    assert ("embedding.projection.weight" in slots_of(config)) == (canonical is not None)
    assert "embedding.projection.bias" not in slots_of(config)


def test_the_newer_head_is_always_tied() -> None:
    keys = {"architectures": ["DebertaV2ForMaskedLM"], "tie_word_embeddings": False}
    assert not read(**keys).tie_word_embeddings
    assert read(**keys, legacy=False).tie_word_embeddings


def test_the_config_says_how_the_head_is_named() -> None:
    declaration = architecture("deberta-v2")
    assert {spelling.table for spelling in spellings(declaration, V3_BASE)} == {0}
    assert {spelling.table for spelling in spellings(declaration, {**V3_BASE, "legacy": False})} == {1}


def test_keys_that_repeat_others_come_back_as_they_were() -> None:
    hf = {**V3_BASE, "attention_head_size": 64, "pooler_hidden_size": 768, "legacy": False}
    model = from_hf(hf)
    assert to_hf(model) == hf
    notes = {row.key: row.note for row in audit(model)}
    assert notes["attention_head_size"] == notes["pooler_hidden_size"] == REPEATS
    assert notes["legacy"] == NAMES
