"""ModernBERT's config: two generations of keys for windows and RoPE, and the exact reach of a window."""

from __future__ import annotations

from typing import Any

import pytest

from mindport.architectures.windows import FULL, SLIDING
from mindport.config.hf import from_hf, to_hf
from mindport.errors import MindportError
from mindport.schema import TransformerConfig

MODERNBERT: dict[str, Any] = {
    "architectures": ["ModernBertForMaskedLM"],
    "model_type": "modernbert",
    "num_hidden_layers": 4,
}
YARN = {"rope_type": "yarn", "factor": 4.0}


def canonical(**changes: Any) -> TransformerConfig:
    return from_hf({**MODERNBERT, **changes}).transformer


def refusal(**changes: Any) -> str:
    with pytest.raises(MindportError) as error:
        canonical(**changes)
    assert error.value.fix
    return error.value.message


def by_layer(full: Any, sliding: Any) -> dict[str, Any]:
    return {"rope_parameters": {FULL: full, SLIDING: sliding}}


# --- windows ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [0, 1, 2, 3, 16, 17])
def test_the_mask_is_that_of_transformers(width: int) -> None:
    """`local_attention` keys, half on either side, and the query's own; on both sides, with padding."""
    torch, np = pytest.importorskip("torch"), pytest.importorskip("numpy")
    transformers, ms = pytest.importorskip("transformers"), pytest.importorskip("mindspore")
    from transformers.masking_utils import create_bidirectional_sliding_window_mask

    from mindport.models.masks import additive_mask

    length = 23
    real = np.ones((2, length), np.int32)
    real[1, :4], real[1, -3:] = 0, 0
    config = transformers.ModernBertConfig(local_attention=width)
    config._attn_implementation = "eager"
    theirs = create_bidirectional_sliding_window_mask(
        config=config, inputs_embeds=torch.zeros(2, length, 1), attention_mask=torch.from_numpy(real)
    )
    window = canonical(local_attention=width).window_size
    ours = additive_mask(ms.Tensor(real), length, False, ms.float32, window).asnumpy()
    assert ((ours == 0) == (theirs == 0).numpy()).all()


def test_which_layers_have_a_window() -> None:
    assert canonical().layer_types == [FULL, SLIDING, SLIDING, FULL]
    assert canonical(global_attn_every_n_layers=2).layer_types == [FULL, SLIDING, FULL, SLIDING]
    assert canonical(global_attn_every_n_layers=9).layer_types == [FULL, SLIDING, SLIDING, SLIDING]
    listed = [SLIDING, FULL, FULL, SLIDING]
    assert canonical(layer_types=listed).layer_types == listed
    for full in ({"global_attn_every_n_layers": 1}, {"layer_types": [FULL] * 4}):
        assert canonical(**full).window_size is None
    everywhere = canonical(layer_types=[SLIDING] * 4)
    assert (everywhere.window_size, everywhere.layer_types) == (65, None)


@pytest.mark.parametrize(
    "types",
    [[FULL, SLIDING, SLIDING, FULL], [FULL] * 4, [SLIDING] * 4, [SLIDING, FULL, FULL, FULL], [FULL] + 3 * [SLIDING]],
)
def test_windows_come_back(types: list[str]) -> None:
    wanted = canonical(layer_types=types, local_attention=10)
    changed = from_hf(MODERNBERT).with_transformer(window_size=wanted.window_size, layer_types=wanted.layer_types)
    assert from_hf(to_hf(changed)).transformer == wanted


@pytest.mark.parametrize(
    "changes",
    [
        {"global_attn_every_n_layers": 2, "layer_types": [FULL, SLIDING, SLIDING, FULL]},
        {"sliding_window": 128, "local_attention": 128},
    ],
)
def test_windows_that_disagree(changes: dict[str, Any]) -> None:
    assert "are the same setting and disagree." in refusal(**changes)


def test_windows_that_are_wrong() -> None:
    assert refusal(global_attn_every_n_layers=0) == "global_attn_every_n_layers must be at least 1, not 0."
    assert refusal(global_attn_every_n_layers=None) == "global_attn_every_n_layers must be an integer, not None."
    assert refusal(local_attention=None) == "local_attention must be an integer, not None."
    assert refusal(local_attention=-1) == "local_attention must be at least 0, not -1."
    assert "for each of the 4 layers" in refusal(layer_types=[FULL])
    assert refusal(num_hidden_layers=2**50) == f"{2**50} layers are more than the 10000 that are supported."
    assert canonical(sliding_window=64).window_size == 65


# --- RoPE ------------------------------------------------------------------------------------------------------------


def bases(config: TransformerConfig) -> tuple[float, float | None]:
    return config.rotary_base, config.sliding_rotary_base


def test_bases_of_both_generations() -> None:
    assert bases(canonical()) == (160000.0, 10000.0)
    assert bases(canonical(global_rope_theta=5e5, local_rope_theta=200)) == (5e5, 200.0)
    assert bases(canonical(global_rope_theta=10000.0)) == (10000.0, None)
    new = by_layer({"rope_type": "default", "rope_theta": 5e5}, {"rope_type": "default", "rope_theta": 200.0})
    assert bases(canonical(**new)) == (5e5, 200.0)
    assert bases(canonical(**new, global_rope_theta=5e5)) == (5e5, 200.0)
    assert bases(canonical(**by_layer(None, {"rope_theta": 200.0}))) == (160000.0, 200.0)
    assert bases(canonical(rope_theta=77.0)) == (160000.0, 10000.0)


def test_no_local_base_is_the_global_one() -> None:
    """Only where the file says null: left out, it is the class default."""
    assert bases(canonical(local_rope_theta=None)) == (160000.0, None)
    assert refusal(global_rope_theta="many") == "global_rope_theta must be a number, not 'many'."


def test_scaling_is_of_all_layers() -> None:
    wanted = {**YARN, "original_max_position_embeddings": 8192}
    assert canonical(rope_scaling=YARN).rope_scaling == wanted
    assert canonical(**by_layer(YARN, YARN)).rope_scaling == wanted
    assert canonical(**by_layer(YARN, YARN), rope_scaling=YARN).rope_scaling == wanted
    assert canonical(rope_scaling={"rope_type": "default"}).rope_scaling is None


@pytest.mark.parametrize(
    "changes",
    [
        by_layer({"rope_theta": 5e5}, {}) | {"global_rope_theta": 4e5},
        by_layer({}, {"rope_theta": 200.0}) | {"local_rope_theta": 100.0},
        by_layer(YARN, YARN) | {"rope_scaling": {"rope_type": "linear", "factor": 2.0}},
        {"rope_scaling": {**YARN, "rope_theta": 5e5}},
    ],
)
def test_rope_that_disagrees(changes: dict[str, Any]) -> None:
    assert "are the same setting and disagree." in refusal(**changes)


def test_rope_that_generations_of_transformers_read_differently() -> None:
    assert "transformers 5 ignores it" in refusal(rope_scaling={"type": "yarn", "factor": 4.0})
    assert "transformers 5 ignores it" in refusal(rope_scaling={**YARN, "truncate": False})
    assert canonical(rope_scaling={**YARN, "truncate": True}).rope_scaling


def test_rope_that_is_not_supported() -> None:
    assert "differ between full and sliding layers" in refusal(**by_layer(YARN, {"rope_type": "default"}))
    assert "differ between full and sliding layers" in refusal(**by_layer(None, YARN))
    assert FULL in refusal(rope_parameters={"rope_type": "default", "rope_theta": 5e5})
    assert "partial_rotary_factor" in refusal(partial_rotary_factor=0.5)
