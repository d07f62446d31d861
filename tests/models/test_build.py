"""Parameters are the slots; what cannot be expressed is refused; initial values follow the configuration."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

ms = pytest.importorskip("mindspore")

from mindport.errors import MindportError  # noqa: E402
from mindport.models import build_model  # noqa: E402
from mindport.models.activations import ACTIVATIONS  # noqa: E402
from mindport.schema import TransformerConfig, slots_of  # noqa: E402
from mindport.schema.activations import ACTIVATIONS as NAMES  # noqa: E402

DECODER = TransformerConfig(
    vocab_size=131,
    hidden_size=48,
    num_layers=2,
    num_attention_heads=6,
    num_query_groups=2,
    kv_channels=20,
    ffn_hidden_size=112,
    max_position_embeddings=64,
    gated_linear_unit=True,
    softmax_scale=20**-0.5,
    head="causal_lm",
)
ENCODER = replace(
    DECODER,
    num_token_types=2,
    attention_mask_type="bidirectional",
    normalization="LayerNorm",
    norm_placement="post",
    embedding_layernorm=True,
    final_layernorm=False,
    gated_linear_unit=False,
    activation_func="gelu",
    add_qkv_bias=True,
    add_attention_output_bias=True,
    add_mlp_bias=True,
    position_embedding_type="learned_absolute",
    head="masked_lm",
)


@pytest.mark.parametrize(
    "config",
    [
        DECODER,
        replace(DECODER, tie_word_embeddings=True, add_qkv_bias=True),
        replace(DECODER, normalization="LayerNorm", add_mlp_bias=True, head="none"),
        ENCODER,
        replace(ENCODER, tie_word_embeddings=True),
        replace(ENCODER, head="none", add_pooler=True),
        replace(ENCODER, head="sequence_classification", add_pooler=True, num_labels=3),
        replace(ENCODER, head="token_classification", num_token_types=0),
        replace(ENCODER, embedding_size=32, add_embedding_projection_bias=True, layer_weights=[0, 0]),
        replace(ENCODER, embedding_size=32, embedding_projection_first=True, num_layers=3, layer_weights=[0, 1, 1]),
        replace(ENCODER, add_masked_lm_bias=False, add_head_transform_bias=False, first_attention_layernorm=False),
        replace(ENCODER, head="sequence_classification", classifier_pooling="cls", add_classifier_transform=True),
    ],
)
def test_parameters_are_the_slots(config: TransformerConfig) -> None:
    network = build_model(config, initialise=False)
    assert {p.name: tuple(p.shape) for p in network.get_parameters()} == slots_of(config)
    assert {name for name, _ in network.parameters_and_names()} == set(slots_of(config))
    assert not network.training


@pytest.mark.parametrize(
    "changes",
    [
        {"activation_func": "gelu_of_tomorrow"},
        {"normalization": "BatchNorm"},
        {"norm_placement": "sandwich"},
        {"position_embedding_type": "sinusoidal"},
        {"attention_mask_type": "prefix"},
        {"head": "sequence_classification"},
        {"head": "multiple_choice"},
        {"classifier_pooling": "max"},
        {"layer_types": ["full_attention"]},
        {"layer_weights": [0, 1, 1]},
        {"layer_weights": [0, 0], "first_attention_layernorm": False},
        {"layer_weights": [0, 0], "scale_attention_by_inverse_layer_idx": True},
        {"layer_weights": [0, 0], "window_size": 4, "layer_types": ["full_attention", "sliding_attention"]},
        {"rope_scaling": {"rope_type": "longrope", "factor": 2.0}},
        {"rope_scaling": {"rope_type": "llama3", "factor": 2.0}},
        {"qk_layernorm": "every_head"},
        {"parallel_block": "three_norms"},
        {"params_dtype": "float8"},
        {"compute_dtype": "bfloat16"},
    ],
)
def test_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(MindportError) as caught:
        build_model(replace(DECODER, **changes), initialise=False)
    assert caught.value.fix


def test_initial_values() -> None:
    config = replace(ENCODER, init_method_std=0.5)
    first, again, other = (build_model(config, seed=seed) for seed in (1, 1, 2))
    for name, parameter in first.parameters_and_names():
        values = parameter.asnumpy()
        np.testing.assert_array_equal(values, dict(again.parameters_and_names())[name].asnumpy())
        if values.ndim == 1:
            assert (values == (1.0 if name.endswith("norm.weight") else 0.0)).all()
        else:
            assert values.std() == pytest.approx(0.5, rel=0.2)
            assert (values != dict(other.parameters_and_names())[name].asnumpy()).any()


def test_every_activation_of_the_vocabulary_is_implemented() -> None:
    assert set(ACTIVATIONS) == set(NAMES)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_values(name: str) -> None:
    torch = pytest.importorskip("torch")
    activations = pytest.importorskip("transformers.activations")
    x = np.concatenate([np.linspace(-9, 9, 4001), np.linspace(-0.01, 0.01, 501)]).astype(np.float32)
    wanted = activations.ACT2FN[name](torch.from_numpy(x).double()).numpy()
    got = ACTIVATIONS[name](ms.Tensor(x)).asnumpy()
    assert np.abs(got - wanted).max() < 5e-6


def test_dropout_only_in_training() -> None:
    ids = ms.Tensor(np.arange(20, dtype=np.int32).reshape(1, 20))
    network = build_model(replace(ENCODER, init_method_std=0.5, hidden_dropout=0.3, attention_dropout=0.3))
    first, second = network(ids).logits.asnumpy(), network(ids).logits.asnumpy()
    np.testing.assert_array_equal(first, second)
    network.set_train()
    assert np.abs(network(ids).logits.asnumpy() - first).max() > 0.01


def test_a_row_of_padding_stays_finite() -> None:
    for config in (DECODER, ENCODER, replace(DECODER, compute_dtype="float16", softmax_compute_dtype="float16")):
        mask = np.ones((2, 20), np.int32)
        mask[1] = 0
        output = build_model(config)(ms.Tensor(np.ones((2, 20), np.int32)), ms.Tensor(mask))
        assert np.isfinite(output.logits.asnumpy()).all()
