"""MindFormers' weight layouts: there and back, from one to another, and row by row against a description by hand."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mindport.architectures.naming import spellings, tensor_map, tied_copies
from mindport.checkpoint import safetensors
from mindport.checkpoint.copies import check_copies
from mindport.checkpoint.files import read
from mindport.checkpoint.plan import Plan, make_plan
from mindport.checkpoint.source import Checkpoint
from mindport.config.hf import ModelConfig, from_hf
from mindport.errors import MindportError
from mindport.layout import TensorMap
from mindport.layout.trace import trace
from mindport.schema import TransformerConfig, slots_of
from mindport.targets import Target
from mindport.targets.mindformers import LegacyLayout, McoreLayout, inference, target, version_named

from ..checkpoint.writing import write

PATIENT = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])

VERSION = version_named("1.9")

MCORE = [
    target(VERSION, McoreLayout(attention, mlp, latent))
    for attention in (False, True)
    for mlp in (True, False)
    for latent in (True, False)
]
LEGACY = [target(VERSION, LegacyLayout(concatenated)) for concatenated in (False, True)]

Arrays = dict[str, np.ndarray]


def described(model_type: str, **values: Any) -> ModelConfig:
    names = {"qwen3_moe": "Qwen3Moe", "deepseek_v3": "DeepseekV3"}
    name = names.get(model_type, model_type.capitalize())
    return from_hf({"model_type": model_type, "architectures": [f"{name}ForCausalLM"], **values})


@st.composite
def dense(draw: st.DrawFn, *model_types: str) -> ModelConfig:
    groups, shared, width = draw(st.integers(1, 3)), draw(st.integers(1, 3)), 2 * draw(st.integers(1, 3))
    return described(
        draw(st.sampled_from(model_types)),
        vocab_size=draw(st.integers(1, 9)),
        hidden_size=groups * shared * width,
        intermediate_size=draw(st.integers(1, 7)),
        num_hidden_layers=draw(st.integers(1, 2)),
        num_attention_heads=groups * shared,
        num_key_value_heads=groups,
        head_dim=width,
        tie_word_embeddings=draw(st.booleans()),
    )


@st.composite
def experts(draw: st.DrawFn) -> ModelConfig:
    routed = {"num_experts": draw(st.integers(1, 4)), "num_experts_per_tok": 1}
    return described(
        **{**draw(dense("qwen3_moe")).hf, **routed, "moe_intermediate_size": draw(st.integers(1, 5))},
    )


@st.composite
def latent(draw: st.DrawFn) -> ModelConfig:
    heads, layers = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    return described(
        "deepseek_v3",
        vocab_size=draw(st.integers(1, 9)),
        hidden_size=draw(st.integers(1, 9)),
        intermediate_size=draw(st.integers(1, 7)),
        moe_intermediate_size=draw(st.integers(1, 5)),
        n_routed_experts=draw(st.integers(1, 3)),
        n_shared_experts=draw(st.integers(1, 2)),
        num_experts_per_tok=1,
        n_group=1,
        topk_group=1,
        first_k_dense_replace=draw(st.integers(0, layers - 1)),
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        q_lora_rank=draw(st.none() | st.integers(1, 5)),
        kv_lora_rank=draw(st.integers(1, 5)),
        qk_rope_head_dim=2 * draw(st.integers(1, 2)),
        qk_nope_head_dim=draw(st.integers(1, 4)),
        v_head_dim=draw(st.integers(1, 4)),
        num_nextn_predict_layers=draw(st.integers(0, 1)),
    )


def hugging_face(model: ModelConfig) -> TensorMap:
    return tensor_map(model.declaration, model.transformer, next(spellings(model.declaration)))


def values_of(config: TransformerConfig, shared: Mapping[str, str] | None = None) -> Arrays:
    """Slot -> random values; slots that share a parameter have the same."""
    rng = np.random.default_rng(0)
    values = {slot: rng.standard_normal(shape).astype(np.float32) for slot, shape in slots_of(config).items()}
    return values | {slot: values[of] for slot, of in (shared or {}).items()}


def joined(tensors: TensorMap, values: Arrays) -> Arrays:
    """The tensors of a side, as numpy makes them."""
    return {name: stored.join([values[part] for part in stored.parts]) for name, stored in tensors.items()}


def saved(path: Path, arrays: Arrays) -> Checkpoint:
    head, _ = safetensors.make_header([(name, "F32", array.shape) for name, array in arrays.items()], {})
    path.write_bytes(head + b"".join(np.ascontiguousarray(array).tobytes() for array in arrays.values()))
    return safetensors.read_header(path)


def carried_out(plan: Plan, path: Path) -> Arrays:
    assert not plan.problems
    check_copies(plan)
    write(plan, path)
    return {name: read(entry) for name, entry in safetensors.read_header(path).items()}


def same(found: Arrays, wanted: Arrays) -> bool:
    return {name: (a.shape, a.tobytes()) for name, a in found.items()} == {
        name: (a.shape, np.ascontiguousarray(a).tobytes()) for name, a in wanted.items()
    }


def all_ways(model: ModelConfig, sides: list[Target]) -> None:
    """HF -> each side -> HF, and each side -> each other, bit for bit, all by the engine."""
    config, slots = model.transformer, slots_of(model.transformer)
    values = values_of(config, sides[0].shared(config))
    file = hugging_face(model)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = saved(folder / "hf.safetensors", joined(file, values))
        there = {}
        for number, side in enumerate(sides):
            tensors, copies = side.sides(file, config)
            plan = make_plan(source, tensors, side.parameters(config), slots, copies=copies)
            path = folder / f"{number}.safetensors"
            assert same(carried_out(plan, path), joined(side.parameters(config), values))
            there[number] = safetensors.read_header(path)
            back = make_plan(there[number], side.parameters(config), tensors, slots)
            assert same(carried_out(back, folder / "back.safetensors"), joined(tensors, values))
        for number, entries in there.items():
            for other in sides:
                plan = make_plan(entries, sides[number].parameters(config), other.parameters(config), slots)
                assert same(carried_out(plan, folder / "over.safetensors"), joined(other.parameters(config), values))


@given(dense("llama", "qwen2", "qwen3"))
@PATIENT
def test_dense_models_go_every_way(model: ModelConfig) -> None:
    """The qwen3 and telechat3 graphs, the inference graph; and the legacy graph, where there are no norms of heads."""
    plain = model.transformer.qk_layernorm == "none"
    all_ways(model, [MCORE[0], MCORE[2], MCORE[4], MCORE[6], inference(), *(LEGACY if plain else [])])


@given(experts())
@PATIENT
def test_models_with_experts_go_every_way(model: ModelConfig) -> None:
    all_ways(model, [MCORE[0], MCORE[6], inference()])


@given(latent())
@PATIENT
def test_models_with_latent_attention_go_every_way(model: ModelConfig) -> None:
    all_ways(model, MCORE[:4])


@pytest.mark.parametrize("side", MCORE[:4])
def test_no_layout_has_to_be_put_together_as_a_whole(side: Target) -> None:
    """Else a layer of DeepSeek-V3's experts would be in memory at once."""
    model = described(
        "deepseek_v3", num_hidden_layers=2, n_routed_experts=8, n_group=1, topk_group=1, first_k_dense_replace=1
    )
    config = model.transformer
    sources = {part: (n, i, stored) for n, stored in hugging_face(model).items() for i, part in enumerate(stored.parts)}
    for name, stored in side.parameters(config).items():
        assert trace(stored, sources, slots_of(config)) is not None, name


def rows(tensor: np.ndarray) -> list[int]:
    """The first element of each row, as numbered in `numbered`."""
    return [int(row.flat[0]) for row in tensor]


def numbered(shapes: Mapping[str, tuple[int, ...]]) -> Arrays:
    """Slot -> array whose element in row r and column c is 1000 * place of the slot + 10 * r + c."""
    result = {}
    for place, (slot, shape) in enumerate(shapes.items()):
        numbers = 1000 * place + 10 * np.arange(shape[0])
        result[slot] = np.broadcast_to(numbers.reshape(-1, *[1] * (len(shape) - 1)), shape).astype(np.float32)
        if len(shape) > 1:
            result[slot] = result[slot] + np.arange(shape[1])
    return result


QKV = {f"layer.0.attention.{name}.weight": (8 if name == "q" else 4, 3) for name in "qkv"}
GATE_UP = {"layer.0.mlp.gate.weight": (3, 2), "layer.0.mlp.up.weight": (3, 2)}

SMALL: dict[str, Any] = {
    "hidden_size": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 2,
    "intermediate_size": 3,
    "num_hidden_layers": 1,
}


def made(side: Target, model: ModelConfig, name: str, shapes: Mapping[str, tuple[int, ...]]) -> np.ndarray:
    stored = side.parameters(model.transformer)[name]
    assert stored.parts == tuple(shapes)
    return stored.join(list(numbered(shapes).values()))


BY_GROUP = [0, 10, 20, 30, 1000, 1010, 2000, 2010, 40, 50, 60, 70, 1020, 1030, 2020, 2030]
END_TO_END = [*range(0, 80, 10), *range(1000, 1040, 10), *range(2000, 2040, 10)]
BY_TURNS, ONE_BY_ONE = [0, 1000, 10, 1010, 20, 1020], [0, 10, 20, 1000, 1010, 1020]


@pytest.mark.parametrize(
    ("side", "model_type", "name", "shapes", "wanted"),
    [
        (MCORE[0], "qwen3", "decoder.layers.0.self_attention.linear_qkv.weight", QKV, BY_GROUP),
        (MCORE[4], "qwen3", "decoder.layers.0.self_attention.linear_qkv.weight", QKV, END_TO_END),
        (inference(), "qwen3", "decoder.layers.0.self_attention.linear_qkv.weight", QKV, END_TO_END),
        (LEGACY[1], "llama", "model.layers.0.attention.w_qkv.weight", QKV, BY_GROUP),
        (MCORE[0], "qwen3", "decoder.layers.0.mlp.linear_fc1.weight", GATE_UP, BY_TURNS),
        (MCORE[2], "qwen3", "decoder.layers.0.mlp.linear_fc1.weight", GATE_UP, ONE_BY_ONE),
        (inference(), "qwen3", "decoder.layers.0.mlp.linear_fc1.weight", GATE_UP, ONE_BY_ONE),
        (LEGACY[1], "llama", "model.layers.0.feed_forward.w_gate_hidden.weight", GATE_UP, BY_TURNS),
    ],
)
def test_rows_of_fused_matrices(
    side: Target, model_type: str, name: str, shapes: dict[str, tuple[int, ...]], wanted: list[int]
) -> None:
    assert rows(made(side, described(model_type, **SMALL), name, shapes)) == wanted


def test_experts_lie_transposed_one_below_the_other_or_in_a_stack() -> None:
    model = described("qwen3_moe", **SMALL, num_experts=2, moe_intermediate_size=2, num_experts_per_tok=1)
    shapes = {f"layer.0.mlp.experts.{e}.{name}.weight": (2, 3) for e in range(2) for name in ("gate", "up")}
    whole = made(MCORE[0], model, "decoder.layers.0.mlp.experts.weight1", shapes)
    first = [[0, 10, 1000, 1010], [1, 11, 1001, 1011], [2, 12, 1002, 1012]]
    assert whole[:3].tolist() == first
    assert whole[3:].tolist() == [[n + 2000 for n in row] for row in first]
    stacked = made(inference(), model, "decoder.layers.0.mlp.experts.weight1", shapes)
    assert stacked.shape == (2, 3, 4)
    assert stacked.tobytes() == whole.tobytes()


def test_modules_for_multi_token_prediction_share_embedding_and_head(tmp_path: Path) -> None:
    """What DeepSeek's files hold twice must be alike, or the module would compute something else afterwards."""
    model = described(
        "deepseek_v3",
        num_hidden_layers=1,
        first_k_dense_replace=0,
        n_routed_experts=2,
        num_experts_per_tok=1,
        n_group=1,
        topk_group=1,
        hidden_size=8,
    )
    config, side = model.transformer, MCORE[0]
    assert side.shared(config) == {
        "mtp.0.embedding.word.weight": "embedding.word.weight",
        "mtp.0.head.output.weight": "head.output.weight",
    }
    tensors, copies = side.sides(hugging_face(model), config)
    values = {slot: np.zeros(shape, np.float32) for slot, shape in slots_of(config).items()}
    values["mtp.0.head.output.weight"] = values["mtp.0.head.output.weight"] + 1
    source = saved(tmp_path / "hf.safetensors", joined(hugging_face(model), values))
    plan = make_plan(source, tensors, side.parameters(config), slots_of(config), copies=copies)
    assert not plan.problems
    with pytest.raises(MindportError, match=r"shared_head\.head"):
        check_copies(plan)


@pytest.mark.parametrize("model_type", ["llama", "qwen2", "qwen3"])
def test_tied_heads_have_no_parameter(model_type: str) -> None:
    tied, free = (described(model_type, **SMALL, tie_word_embeddings=tie).transformer for tie in (True, False))
    assert {*MCORE[0].parameters(free)} - {*MCORE[0].parameters(tied)} == {"output_layer.weight"}
    assert {*LEGACY[0].parameters(free)} - {*LEGACY[0].parameters(tied)} == {"lm_head.weight"}
    model = described(model_type, **SMALL, tie_word_embeddings=True)
    spelling = next(spellings(model.declaration))
    assert "lm_head.weight" in tied_copies(model.declaration, model.transformer, spelling)


def test_the_inference_graph_has_latent_attention_in_an_order_of_its_own() -> None:
    with pytest.raises(MindportError, match="inference"):
        inference().parameters(described("deepseek_v3").transformer)


@pytest.mark.parametrize("version", ["1.0", "1.3", "1.5"])
def test_concatenated_matrices_depended_on_tensor_parallelism(version: str) -> None:
    assert target(version_named(version), LegacyLayout(False))
    with pytest.raises(MindportError, match="qkv_concat"):
        target(version_named(version), LegacyLayout(True))
