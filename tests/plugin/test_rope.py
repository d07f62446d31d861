"""RoPE scalings at the sizes of real models are transformers' own, to the last bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mindport.plugin.families import SCALINGS
from mindport.plugin.rope import plain, steady

LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
YARN = {"factor": 4.0, "original_max_position_embeddings": 32768}

CASES: list[tuple[str, float, int, dict[str, Any]]] = [
    ("linear", 10000.0, 128, {"factor": 4.0}),
    ("llama3", 500000.0, 128, LLAMA3),
    ("llama3", 500000.0, 64, {**LLAMA3, "factor": 32.0}),
    ("yarn", 1000000.0, 128, YARN),
    ("yarn", 150000.0, 64, {**YARN, "original_max_position_embeddings": 4096, "truncate": False, "beta_fast": 20.0}),
    ("yarn", 10000.0, 96, {**YARN, "mscale": 1.3, "mscale_all_dim": 0.4}),
    ("yarn", 10000.0, 96, {**YARN, "attention_factor": 1.7}),
]


@pytest.mark.parametrize(("kind", "base", "width", "settings"), CASES)
def test_a_scaling_is_that_of_transformers(kind: str, base: float, width: int, settings: dict[str, Any]) -> None:
    import transformers
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    scaling = {"rope_type": kind, **settings}
    config = transformers.LlamaConfig(
        hidden_size=4 * width,
        num_attention_heads=4,
        max_position_embeddings=131072,
        rope_parameters={**scaling, "rope_theta": base},
    )
    wanted, wanted_factor = ROPE_INIT_FUNCTIONS[kind](config, "cpu")
    found, factor = steady(base, width, scaling)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted.numpy(), rtol=3e-7)
    assert factor == pytest.approx(wanted_factor, rel=1e-12)
    assert not np.allclose(found, plain(base, width), rtol=1e-3)


def test_every_scaling_is_compared() -> None:
    assert {kind for kind, *_ in CASES} == set(SCALINGS)


@pytest.mark.parametrize("kind", SCALINGS)
def test_a_key_that_is_missing_is_named(kind: str) -> None:
    for key in SCALINGS[kind]:
        whole = {"rope_type": kind, "factor": 2.0, **LLAMA3}
        del whole[key]
        with pytest.raises(KeyError, match=key):
            steady(10000.0, 64, whole)
