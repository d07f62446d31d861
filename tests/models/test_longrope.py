"""LongRoPE changes its list of factors between one length and the next; both sides, and text that crosses over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
ms = pytest.importorskip("mindspore")

from mindport.checkpoint.convert import convert  # noqa: E402
from mindport.config.hf import from_hf  # noqa: E402
from mindport.models.folder import load_folder  # noqa: E402
from mindport.models.rope import RotaryTable  # noqa: E402
from mindport.verify.generation import native_greedy, torch_greedy  # noqa: E402

TRAINED = 32
HF: dict[str, Any] = {
    "vocab_size": 61,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "original_max_position_embeddings": TRAINED,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "rope_scaling": {
        "type": "longrope",
        "short_factor": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5],
        "long_factor": [1.0, 2.0, 4.0, 8.0, 16.0, 32.0],
    },
}


def reference() -> Any:
    config = transformers.Phi3Config(**{**HF, "rope_scaling": dict(HF["rope_scaling"])})
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    model = transformers.Phi3ForCausalLM(config).eval()
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)
    return model


@pytest.mark.parametrize("mode", ["pynative", "graph"])
@pytest.mark.parametrize("length", [TRAINED - 1, TRAINED, TRAINED + 1, 2 * TRAINED])
def test_the_list_follows_from_the_actual_length(length: int, mode: str) -> None:
    before = ms.get_context("mode")
    ms.set_context(mode={"pynative": ms.PYNATIVE_MODE, "graph": ms.GRAPH_MODE}[mode])
    position = np.arange(length)[None]
    cos, sin = RotaryTable(from_hf({"model_type": "phi3", **HF}).transformer)(ms.Tensor(position.astype(np.int32)))
    ms.set_context(mode=before)
    wanted = reference().model.rotary_emb(torch.zeros(1), torch.from_numpy(position))
    for ours, theirs in zip((cos, sin), wanted, strict=True):
        assert np.abs(ours.asnumpy()[:, :, 0] - theirs.numpy()[..., :6]).max() < 1e-6


def test_one_length_makes_a_difference() -> None:
    """Of the same tokens: else the test above could not tell."""
    rotary = reference().model.rotary_emb
    short, long = (rotary(torch.zeros(1), torch.arange(n)[None])[0][:, :TRAINED] for n in (TRAINED, TRAINED + 1))
    assert (short - long).abs().max() > 0.1


def test_text_that_outgrows_the_trained_length(tmp_path: Path) -> None:
    model = reference()
    model.save_pretrained(tmp_path / "source")
    convert(tmp_path / "source", tmp_path / "native")
    prompt = np.random.default_rng(0).integers(3, 61, TRAINED - 3).tolist()
    wanted = torch_greedy(model, prompt, 8, [])
    assert len(wanted) == 8
    assert native_greedy(load_folder(tmp_path / "native").network, prompt, wanted, []) == wanted
