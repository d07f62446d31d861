"""Loading is exact, complete, and reports everything at once."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

ms = pytest.importorskip("mindspore")

from mindport.errors import MindportError  # noqa: E402
from mindport.models import build_model, load_parameters  # noqa: E402
from mindport.schema import TransformerConfig, slots_of  # noqa: E402

CONFIG = TransformerConfig(
    vocab_size=17,
    hidden_size=12,
    num_layers=2,
    num_attention_heads=3,
    num_query_groups=1,
    kv_channels=6,
    ffn_hidden_size=20,
    max_position_embeddings=32,
    softmax_scale=6**-0.5,
    head="causal_lm",
)


def arrays(config: TransformerConfig = CONFIG) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    return {name: generator.standard_normal(shape, np.float32) for name, shape in slots_of(config).items()}


def test_every_value_arrives() -> None:
    network = build_model(CONFIG, initialise=False)
    given = arrays()
    load_parameters(network, given.items())
    for name, parameter in network.parameters_and_names():
        np.testing.assert_array_equal(parameter.asnumpy(), given[name])


def test_all_problems_in_one_message() -> None:
    network = build_model(CONFIG, initialise=False)
    given = arrays()
    del given["final_norm.weight"]
    given["model.final_norm.weight"] = np.ones(12, np.float32)
    given["layer.0.attention.q.weight"] = given["layer.0.attention.q.weight"].T
    given["layer.1.mlp.up.weight"] = given["layer.1.mlp.up.weight"].astype(np.float16)
    with pytest.raises(MindportError) as caught:
        load_parameters(network, [*given.items(), ("embedding.word.weight", given["embedding.word.weight"])])
    message = str(caught.value)
    assert message.count("\n") == 5
    for name in (
        "final_norm.weight",
        "model.final_norm.weight",
        "layer.0.attention.q.weight",
        "layer.1.mlp.up.weight",
        "embedding.word.weight",
    ):
        assert f"\n  {name}: " in message


def test_cast_only_when_asked() -> None:
    network = build_model(CONFIG, initialise=False)
    given = {name: array.astype(ml_dtypes.bfloat16) for name, array in arrays().items()}
    with pytest.raises(MindportError, match="dtype bfloat16"):
        load_parameters(network, given.items())
    load_parameters(network, given.items(), cast=True)
    for name, parameter in network.parameters_and_names():
        np.testing.assert_array_equal(parameter.asnumpy(), given[name].astype(np.float32))


def test_half_precision_parameters() -> None:
    config = replace(CONFIG, params_dtype="float16", compute_dtype="float16")
    network = build_model(config, initialise=False)
    load_parameters(network, ((name, array.astype(np.float16)) for name, array in arrays().items()))
    assert network.embedding.word.weight.dtype == ms.float16
    logits = network(ms.Tensor(np.arange(10, dtype=np.int32).reshape(1, 10))).logits
    assert logits.dtype == ms.float16
    assert np.isfinite(logits.asnumpy()).all()
