"""The native model against transformers, every tensor random, in fp32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
ms = pytest.importorskip("mindspore")

from mindport.models import build_model, load_parameters  # noqa: E402

BOUND = 2e-5
CASES = {
    "llama": ("llama", {}),
    "llama-tied": ("llama", {"tie_word_embeddings": True}),
    "llama-biases": ("llama", {"attention_bias": True, "mlp_bias": True, "hidden_act": "gelu_pytorch_tanh"}),
    "llama-no-groups": ("llama", {"groups": 6}),
    "llama-one-group": ("llama", {"groups": 1, "rope_theta": 100000.0}),
    "gpt2": ("gpt2", {}),
    "gpt2-layer-scale": ("gpt2", {"scale_attn_by_inverse_layer_idx": True}),
    "bert-mlm": ("bert", {}),
    "bert-mlm-untied": ("bert", {"tie_word_embeddings": False}),
    "bert-bare": ("bert", {"head": "none"}),
    "bert-sequence": ("bert", {"head": "sequence_classification"}),
    "bert-token": ("bert", {"head": "token_classification", "hidden_act": "relu"}),
}
ROPE_SCALINGS: dict[str, dict[str, Any]] = {
    "linear": {"factor": 2.5},
    "dynamic": {"factor": 3.0},
    "llama3": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    },
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 32},
    "yarn-explicit": {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 32,
        "beta_fast": 16.0,
        "beta_slow": 2.0,
        "mscale": 0.7,
        "mscale_all_dim": 0.9,
        "truncate": False,
    },
}


def native(ref: Any) -> Any:
    network = build_model(ref.config, initialise=False)
    load_parameters(network, ref.weights.items())
    return network


def run_torch(ref: Any, inputs: dict[str, np.ndarray]) -> Any:
    with torch.no_grad():
        return ref.model(**{name: torch.from_numpy(value) for name, value in inputs.items()})


def run_native(network: Any, inputs: dict[str, np.ndarray]) -> Any:
    return network(**{name: ms.Tensor(value.astype(np.int32)) for name, value in inputs.items()})


def takes_segments(ref: Any) -> bool:
    return ref.config.num_token_types > 0


def padding(side: str) -> np.ndarray:
    mask = np.ones((2, 80), np.int64)
    mask[1, slice(0, 17) if side == "left" else slice(63, 80)] = 0
    return mask


def difference(ours: Any, theirs: Any, rows: np.ndarray | None = None) -> float:
    ours, theirs = ours.asnumpy(), theirs.numpy()
    assert ours.shape == theirs.shape
    if rows is not None:
        ours, theirs = ours[rows], theirs[rows]
    assert 0.3 < theirs.std() < 4.0, "a parity test needs values of about unit scale"
    return float(np.abs(ours - theirs).max())


def compare(ref: Any, ours: Any, theirs: Any, rows: np.ndarray | None = None) -> None:
    if ref.config.head == "none":
        assert difference(ours.last_hidden_state, theirs.last_hidden_state, rows) < BOUND
        assert difference(ours.pooler_output, theirs.pooler_output) < BOUND
    else:
        per_row = ref.config.head == "sequence_classification"
        assert difference(ours.logits, theirs.logits, None if per_row else rows) < BOUND
        assert ours[0] is ours.logits


@pytest.mark.parametrize("case", CASES)
def test_logits(case: str, reference: Any, batch: dict[str, np.ndarray]) -> None:
    family, changes = CASES[case]
    ref = reference(family, **changes)
    inputs = dict(batch) if takes_segments(ref) else {"input_ids": batch["input_ids"]}
    compare(ref, run_native(native(ref), inputs), run_torch(ref, inputs))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("case", ["llama", "gpt2", "bert-mlm", "bert-bare"])
def test_padding(case: str, side: str, reference: Any, batch: dict[str, np.ndarray]) -> None:
    family, changes = CASES[case]
    ref = reference(family, **changes)
    inputs = {"input_ids": batch["input_ids"], "attention_mask": padding(side)}
    theirs, ours = run_torch(ref, inputs), run_native(native(ref), inputs)
    compare(ref, ours, theirs, rows=inputs["attention_mask"] == 1)
    # What a padded position computes does not matter, yet its uniform attention is the same on both sides.
    compare(ref, ours, theirs)


@pytest.mark.parametrize("kind", ROPE_SCALINGS)
def test_rope_scaling(kind: str, reference: Any, batch: dict[str, np.ndarray]) -> None:
    scaling = {"rope_type": kind, "rope_theta": 10000.0} | ROPE_SCALINGS[kind]
    # Shorter than the sequence, so that dynamic scaling has to act.
    positions = 64 if kind == "dynamic" else 128
    ref = reference("llama", rope_parameters=scaling, max_position_embeddings=positions)
    inputs = {"input_ids": batch["input_ids"]}
    compare(ref, run_native(native(ref), inputs), run_torch(ref, inputs))


def test_position_ids(reference: Any, batch: dict[str, np.ndarray]) -> None:
    for family in ("llama", "gpt2"):
        ref = reference(family)
        positions = np.stack([np.arange(80) + 9, np.arange(80)[::-1]]).astype(np.int64)
        inputs = {"input_ids": batch["input_ids"], "position_ids": positions}
        compare(ref, run_native(native(ref), inputs), run_torch(ref, inputs))


def test_graph_mode(reference: Any, batch: dict[str, np.ndarray], graph_mode: Any) -> None:
    """One compiled case per kind of code: every optional input, dynamic RoPE, tying, heads, a pooler."""
    dynamic = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 3.0}
    cases = [
        reference("llama", rope_parameters=dynamic, max_position_embeddings=64, tie_word_embeddings=True),
        reference("gpt2", scale_attn_by_inverse_layer_idx=True),
        reference("bert"),
        reference("bert", head="sequence_classification"),
    ]
    for ref in cases:
        inputs = {"input_ids": batch["input_ids"], "attention_mask": padding("left")}
        if takes_segments(ref):
            inputs["token_type_ids"] = batch["token_type_ids"]
        network = native(ref)
        compiled = run_native(network, inputs)
        compare(ref, compiled, run_torch(ref, inputs))
        ms.set_context(mode=ms.PYNATIVE_MODE)
        stepwise = run_native(network, inputs)
        ms.set_context(mode=ms.GRAPH_MODE)
        assert np.abs(compiled.logits.asnumpy() - stepwise.logits.asnumpy()).max() <= 1e-6


def test_hidden_states(reference: Any, batch: dict[str, np.ndarray]) -> None:
    ref = reference("gpt2")
    network = build_model(ref.config, initialise=False, keep_hidden_states=True)
    load_parameters(network, ref.weights.items())
    ours = run_native(network, {"input_ids": batch["input_ids"]}).hidden_states
    with torch.no_grad():
        theirs = ref.model(torch.from_numpy(batch["input_ids"]), output_hidden_states=True).hidden_states
    assert len(ours) == len(theirs) == ref.config.num_layers + 1
    # The last of theirs is after the final norm, the last of ours before it.
    for mine, other in zip(ours[:-1], theirs[:-1], strict=True):
        assert np.abs(mine.asnumpy() - other.numpy()).max() < BOUND
