"""ALBERT's config: which layers share weights, and what looks like BERT's and is not."""

from __future__ import annotations

from typing import Any

import pytest

from mindport.config.hf import from_hf, to_hf
from mindport.errors import MindportError
from mindport.schema import TransformerConfig

ALBERT: dict[str, Any] = {"architectures": ["AlbertForMaskedLM"], "model_type": "albert"}
SMALL = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "embedding_size": 4, "vocab_size": 9}


def canonical(**changes: Any) -> TransformerConfig:
    return from_hf({**ALBERT, **changes}).transformer


@pytest.mark.parametrize(("layers", "groups"), [(12, 1), (12, 3), (7, 3), (10, 4), (5, 4), (4, 4)])
def test_groups_of_layers_are_those_of_transformers(layers: int, groups: int) -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    keys = {**SMALL, "num_hidden_layers": layers, "num_hidden_groups": groups}
    model = transformers.AlbertModel(transformers.AlbertConfig(**keys))
    used: list[int] = []
    for index, group in enumerate(model.encoder.albert_layer_groups):
        group.register_forward_hook(lambda *_, index=index: used.append(index))
    model(torch.zeros((1, 3), dtype=torch.long))
    config = canonical(**keys)
    assert list(config.layer_weights or range(layers)) == used
    assert config.num_stored_layers == groups


def test_every_number_of_groups_uses_all_its_weights_in_order() -> None:
    for layers in range(1, 49):
        for groups in range(1, layers + 1):
            described = from_hf({**ALBERT, "num_hidden_layers": layers, "num_hidden_groups": groups})
            used = described.transformer.layer_weights or list(range(layers))
            assert used == sorted(used)
            assert set(used) == set(range(groups))
            assert to_hf(described) == described.hf


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_hidden_layers": 3, "num_hidden_groups": 4}, "3 layers cannot use 4 groups of weights."),
        ({"num_hidden_groups": 0}, "num_hidden_groups must be at least 1, not 0."),
        ({"num_hidden_groups": None}, "num_hidden_groups must be an integer, not None."),
        ({"inner_group_num": 2}, "inner_group_num = 2 is not supported: groups of several layers are not supported."),
        ({"embedding_size": None}, "embedding_size must be an integer, not None."),
        ({"num_hidden_layers": 2**50}, f"{2**50} layers are more than the 10000 that are supported."),
    ],
)
def test_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(MindportError) as error:
        canonical(**changes)
    assert error.value.message == message


def test_embeddings_are_projected_at_every_width() -> None:
    """Of the hidden width too: the projection is there all the same."""
    assert canonical().embedding_size == 128
    assert canonical(embedding_size=4096).embedding_size == 4096
    assert canonical(embedding_size=4096).add_embedding_projection_bias


def test_dropout_of_the_classifier_is_not_that_of_bert() -> None:
    """Its key has another name, and null is not the hidden dropout."""
    config = canonical(hidden_dropout_prob=0.3, classifier_dropout=0.4)
    assert config.classifier_dropout == 0.1
    with pytest.raises(MindportError):
        canonical(classifier_dropout_prob=None)
