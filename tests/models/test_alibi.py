"""ALiBi bit by bit as Falcon's code has it, and why `eager` attention is not what Falcon is compared with."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
ms = pytest.importorskip("mindspore")

from transformers.models.falcon import modeling_falcon  # noqa: E402

from mindport.models.alibi import Alibi, biases  # noqa: E402
from mindport.schema import TransformerConfig  # noqa: E402

LENGTH = 2048


def reference(mask: np.ndarray, heads: int, width: int) -> np.ndarray:
    """(B, N, 1, S), scaled as transformers adds it to the mask."""
    alibi = modeling_falcon.build_alibi_tensor(torch.from_numpy(mask), heads, torch.float32) / math.sqrt(width)
    return np.asarray(alibi.reshape(len(mask), heads, 1, -1).numpy())


@pytest.mark.parametrize("heads", [1, 2, 3, 5, 6, 8, 12, 16, 24, 32, 40, 48, 64, 71, 128])
def test_biases_are_those_of_the_reference(heads: int) -> None:
    width = 64 if heads % 2 else 20
    (wanted,) = reference(np.ones((1, LENGTH), np.int64), heads, width)
    assert np.array_equal(biases(heads, width**-0.5, LENGTH), wanted[:, 0].T)


@pytest.mark.parametrize("mode", ["pynative", "graph"])
@pytest.mark.parametrize("given", [True, False])
def test_padding_has_no_position(mode: str, given: bool) -> None:
    heads, width, length = 6, 20, 300
    config = TransformerConfig(
        vocab_size=8,
        hidden_size=heads * width,
        num_layers=1,
        num_attention_heads=heads,
        num_query_groups=heads,
        kv_channels=width,
        ffn_hidden_size=8,
        max_position_embeddings=length,
        softmax_scale=width**-0.5,
        position_embedding_type="alibi",
    )
    mask = np.ones((3, length), np.int32)
    if given:
        mask[1, :17], mask[2, -20:] = 0, 0
    before = ms.get_context("mode")
    ms.set_context(mode={"pynative": ms.PYNATIVE_MODE, "graph": ms.GRAPH_MODE}[mode])
    found = Alibi(config)(ms.Tensor(mask) if given else None, length).asnumpy()
    ms.set_context(mode=before)
    wanted = reference(mask.astype(np.int64), heads, width)
    assert np.array_equal(np.broadcast_to(found, wanted.shape), wanted)


def outputs(attention: str, state: Any = None) -> tuple[Any, Any]:
    config = transformers.FalconConfig(
        vocab_size=97, hidden_size=48, num_hidden_layers=1, num_attention_heads=6, alibi=True, multi_query=False
    )
    config._attn_implementation = attention
    torch.manual_seed(0)
    model = transformers.FalconModel(config).eval()
    if state is None:
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)
    else:
        model.load_state_dict(state)
    with torch.no_grad():
        return model.state_dict(), model(torch.arange(40).reshape(1, 40)).last_hidden_state


def test_eager_attention_adds_alibi_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where this no longer holds, Falcon can be compared with `eager` like all others: docs/decisions, 0010."""
    state, wanted = outputs("sdpa")
    assert (outputs("eager", state)[1] - wanted).abs().max() > 1e-2
    whole = modeling_falcon.build_alibi_tensor
    monkeypatch.setattr(modeling_falcon, "build_alibi_tensor", lambda *args, **more: whole(*args, **more) / 2)
    assert (outputs("eager", state)[1] - wanted).abs().max() < 1e-5
