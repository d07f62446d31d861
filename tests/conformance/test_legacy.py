"""MindFormers' legacy LlamaForCausalLM computes, with the weights we write, what transformers computes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mindport.targets.mindformers import (
    LEGACY,
    LegacyLayout,
    family_named,
    refusals,
    target,
    version_named,
    within,
)

from .models import Case, note, token_ids

if TYPE_CHECKING:
    from mindport.verify.mindformers.graphs import Graph

pytestmark = pytest.mark.conformance

VERSION = version_named("1.9")
LENGTH = 21
LOGITS, STEP = 1e-5, 1e-4

SEPARATE, CONCATENATED = LegacyLayout(), LegacyLayout(qkv_concat=True)

SHAPE: dict[str, Any] = {
    "vocab_size": 131,
    "hidden_size": 48,
    "intermediate_size": 52,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "rms_norm_eps": 3e-6,
    "rope_theta": 54321.0,
    "tie_word_embeddings": False,
}

LLAMA3: dict[str, Any] = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
YARN: dict[str, Any] = {"factor": 4.0, "original_max_position_embeddings": 16}


@dataclass(frozen=True)
class Graphs:
    """One model.

    Args:
        hf: class of transformers' config.
        changes: values of it besides SHAPE.
    """

    hf: str = "LlamaConfig"
    changes: dict[str, Any] = field(default_factory=dict)
    layouts: tuple[LegacyLayout, ...] = (SEPARATE,)
    trained: bool = False


CASES: dict[str, Graphs] = {
    "llama": Graphs(layouts=(SEPARATE, CONCATENATED), trained=True),
    "llama tied": Graphs(changes={"tie_word_embeddings": True}, trained=True),
    "llama with all attention biases": Graphs(changes={"attention_bias": True}),
    "llama linear": Graphs(changes={"rope_scaling": {"rope_type": "linear", "factor": 3.0}}),
    "llama dynamic": Graphs(changes={"rope_scaling": {"rope_type": "dynamic", "factor": 3.0}}),
    "llama llama3": Graphs(changes={"rope_scaling": {"rope_type": "llama3", **LLAMA3}}),
    "llama yarn": Graphs(changes={"rope_scaling": {"rope_type": "yarn", **YARN}}),
    "qwen2": Graphs("Qwen2Config", layouts=(SEPARATE, CONCATENATED), trained=True),
    "mistral-shaped": Graphs("MistralConfig", {"sliding_window": LENGTH, "num_key_value_heads": 3}),
    "yi-shaped": Graphs(changes={"rope_theta": 5e6, "num_key_value_heads": 1, "rms_norm_eps": 1e-5}),
}


def graph_of(case: Case, layout: LegacyLayout) -> Graph:
    """As the YAML that we emit says it."""
    from mindport.verify.mindformers.graphs import build

    family = family_named("llama", LEGACY)
    assert family is not None
    return build(family, case.settings("llama", LEGACY, layout, LENGTH))


@pytest.mark.parametrize("name", CASES)
def test_the_graph_computes_what_transformers_computes(name: str, tmp_path: Path) -> None:
    import transformers

    graphs = CASES[name]
    case = Case.of(tmp_path / "hf", getattr(transformers, graphs.hf)(**{**SHAPE, **graphs.changes}))
    family = family_named("llama", LEGACY)
    assert family is not None
    assert refusals(within(case.config, LENGTH), family, VERSION) == []
    ids = token_ids(131, LENGTH + 1)
    wanted = case.logits(ids[:, :-1])
    for layout in graphs.layouts:
        graph = graph_of(case, layout)
        weights = case.in_layout(target(VERSION, layout))
        graph.load(weights)
        assert all(before.tobytes() == after.tobytes() for _, before, after in case.back(target(VERSION, layout)))
        difference = abs(graph.logits(ids[:, :-1]) - wanted).max()
        assert note(f"legacy {name}: logits, qkv_concat={layout.qkv_concat}", difference) <= LOGITS
        if layout.qkv_concat:
            end_to_end = {name: _contiguous(array, case.config) for name, array in weights.items()}
            for part in ("w_qkv.weight", "w_qkv.bias", "w_gate_hidden.weight"):
                wrong = {name: end_to_end[name] if name.endswith(part) else weights[name] for name in weights}
                if any(name.endswith(part) for name in weights):
                    graph.load(wrong)
                    assert abs(graph.logits(ids[:, :-1]) - wanted).max() > 100 * LOGITS, part
        elif graphs.trained:
            loss, norm = case.first_step(ids)
            step = graph.step(ids)
            assert note(f"legacy {name}: loss of the first step", abs(step.loss - loss)) <= STEP
            assert note(f"legacy {name}: gradient norm of the first step", abs(step.gradient_norm - norm)) <= STEP


def _contiguous(array: Any, config: Any) -> Any:
    """Rows of fused q, k and v, or of gate and up, end to end instead of in turns."""
    import numpy as np

    if len(array) == config.kv_channels * (config.num_attention_heads + 2 * config.num_query_groups):
        shared = config.num_attention_heads // config.num_query_groups
        grouped = array.reshape(config.num_query_groups, shared + 2, config.kv_channels, -1)
        parts = (grouped[:, :shared], grouped[:, shared : shared + 1], grouped[:, shared + 1 :])
        return np.concatenate([part.reshape(-1, *array.shape[1:]) for part in parts])
    return np.concatenate([array[0::2], array[1::2]])
