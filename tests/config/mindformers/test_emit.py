"""What is emitted says the whole model, reads back as it, and loses nothing in silence."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindport.architectures import model_types
from mindport.config.hf import ModelConfig, from_hf
from mindport.config.mindformers.choice import chosen_graph
from mindport.config.mindformers.emit import emit
from mindport.config.mindformers.lint import lint
from mindport.config.mindformers.read import read
from mindport.config.mindformers.settings import Data, Parallel, Precision, Recompute, RunSettings, Schedule
from mindport.config.mindformers.validate import validate_file
from mindport.config.mindformers.writer import Alias, Entry, number, plain, render, scalar
from mindport.config.yaml_file import parse_yaml
from mindport.errors import MindportError
from mindport.schema import TransformerConfig
from mindport.targets.mindformers.choice import why_not
from mindport.targets.mindformers.graphs import FREE, GRAPHS
from mindport.targets.mindformers.versions import LEGACY, MCORE, PYNATIVE, VERSIONS, version_named

from ...architectures.generator import variants
from .models import trainable, versions_of

QWEN3 = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "sliding_window": None}
DEEPSEEK = {
    "model_type": "deepseek_v3",
    "architectures": ["DeepseekV3ForCausalLM"],
    "num_hidden_layers": 5,
    "first_k_dense_replace": 2,
    "tie_word_embeddings": False,
    "rope_scaling": None,
}
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_attention_heads": 32}


def parsed(text: str) -> dict[str, Any]:
    return parse_yaml(text, Path("emitted.yaml")).values


def section(text: str) -> dict[str, Any]:
    document = parsed(text)
    found: dict[str, Any] = document["model"].get("model_config", document["model"])
    return found


def test_there_is_something_to_test() -> None:
    kinds = {(model.model_type, generation) for model, generation in trainable()}
    assert {"llama", "qwen2", "mistral", "qwen3", "qwen3_moe", "deepseek_v3"} <= {name for name, _ in kinds}
    assert {generation for _, generation in kinds} == {LEGACY, MCORE, PYNATIVE}


@pytest.mark.parametrize(("model", "generation"), trainable(), ids=lambda value: getattr(value, "model_type", value))
def test_what_is_emitted_reads_back_as_the_model(model: ModelConfig, generation: str) -> None:
    emitted = 0
    for version in versions_of(generation):
        if why_not(model.transformer, version, generation, weights=False):
            continue
        text = emit(model, version.name, generation)
        found = read(text, version=version.name)
        assert (found.model.model_type, found.model.hf_class) == (model.model_type, model.hf_class)
        assert found.transformer == model.transformer
        assert not found.unknown
        assert not found.unsaid
        assert not lint(parsed(text), version.name)
        assert not validate_file(parse_yaml(text, Path("emitted.yaml")), version).findings
        emitted += 1
    assert emitted


@pytest.mark.parametrize(
    ("model", "generation"), trainable()[::7], ids=lambda value: getattr(value, "model_type", value)
)
def test_without_its_comments_a_yaml_still_says_what_the_model_computes(model: ModelConfig, generation: str) -> None:
    lines = emit(model, "1.9", generation).splitlines()
    bare = "\n".join(line.partition("  #")[0] for line in lines if not line.startswith("#"))
    found = read(bare).transformer
    graph = chosen_graph(model, version_named("1.9"), generation, None)
    for name in (*graph.told, *graph.fixed):
        if name not in ("rope_scaling", "pad_token_id"):  # of which the keys say the same in other words
            assert getattr(found, name) == getattr(model.transformer, name), name


@pytest.mark.parametrize("model_type", model_types())
def test_a_model_is_emitted_or_refused_with_reasons(model_type: str) -> None:
    for variant in variants(model_type)[:3]:
        model = from_hf(variant.hf)
        config = model.transformer
        for version in VERSIONS.values():
            if any(not why_not(config, version, generation, weights=False) for generation in version.generations):
                found = read(emit(model, version.name), version=version.name)
                assert found.transformer == model.transformer
                continue
            with pytest.raises(MindportError) as caught:
                emit(model, version.name)
            assert version.name in caught.value.message
            assert caught.value.fix


def test_the_reasons_are_those_of_the_graph_of_the_models_own_name() -> None:
    """Not those of the dense graph that lacks no more than the experts altogether."""
    with pytest.raises(MindportError, match=r"moe_layer_freq = \[0, 1\]") as caught:
        emit(from_hf({"model_type": "qwen3_moe", "num_hidden_layers": 2, "mlp_only_layers": [0]}), "1.9", MCORE)
    assert "num_moe_experts" not in caught.value.message


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=lambda graph: f"{graph.generation}-{graph.name}")
def test_every_field_that_a_graph_cannot_be_told_is_a_reason_to_refuse(graph: Any) -> None:
    """Change one field at a time to a value it does not have in the graph; nothing may pass unseen."""
    named = {LEGACY: "llama"}.get(graph.generation, graph.name)
    named = {"telechat3_moe": "deepseek_v3", "telechat3": "llama"}.get(named, named)  # which these stand in for
    version = version_named("1.9")
    model = next(
        m
        for m, g in trainable()
        if g == graph.generation
        and m.model_type == named
        and not why_not(m.transformer, version, g, graph.name, weights=False)
    )
    for field in fields(TransformerConfig):
        if field.name in FREE or field.name in graph.told or (field.default is None and field.name in graph.fixed):
            continue
        if graph.latent and field.name in ("kv_channels", "num_query_groups"):
            continue
        other = _another(getattr(model.transformer, field.name))
        if other is None or (
            not model.transformer.num_moe_experts
            and field.name in ("moe_router_pre_softmax", "norm_topk_prob", "moe_router_score_function")
        ):
            continue
        changed = replace(model.transformer, **{field.name: other})
        assert why_not(changed, version, graph.generation, graph.name, weights=False), field.name


def _another(value: Any) -> Any:
    if value is None:
        return 3
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return value + "x" if isinstance(value, str) else None


def test_silent_defaults_are_written_out() -> None:
    dense = section(emit(from_hf(QWEN3), "1.9", MCORE))
    assert dense["hidden_dropout"] == 0.0
    assert isinstance(dense["hidden_dropout"], float)
    assert dense["rope_theta"] == 10000.0
    latent = section(emit(from_hf(DEEPSEEK), "1.9", MCORE))
    assert latent["qk_layernorm"] is True
    assert latent["rotary_scaling_factor"] == 1.0
    assert latent["first_k_dense_replace"] == 2
    assert latent["moe_layer_freq"] == 1
    model = from_hf(DEEPSEEK).with_transformer(moe_layer_freq=[1, 0, 1, 1, 1])
    other = section(emit(model, "1.9", MCORE))
    assert (other["first_k_dense_replace"], other["moe_layer_freq"]) == (0, [1, 0, 1, 1, 1])
    for found in (dense, latent):
        assert not {"dtype", "torch_dtype", "rope_parameters", "num_layers", "kv_channels", "qk_head_dim"} & set(found)


def test_the_router_of_deepseek_in_the_first_version_that_trains_it() -> None:
    """1.6 converts scoring_func, which the class always has; the other name beside it would be a conflict."""
    first, later = (section(emit(from_hf(DEEPSEEK), version, MCORE)) for version in ("1.6", "1.7"))
    assert first["scoring_func"] == "sigmoid"
    assert "moe_router_score_function" not in first
    assert later["moe_router_score_function"] == "sigmoid"
    assert "scoring_func" not in later


def test_yarn_of_latent_attention() -> None:
    scaling = {
        "type": "yarn",
        "factor": 40,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 4096,
    }
    model = from_hf({**DEEPSEEK, "rope_scaling": scaling, "num_nextn_predict_layers": 1})
    found = section(emit(model, "1.9", MCORE))
    assert found["rope_scaling"] == {
        "type": "yarn",
        "factor": 40.0,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 4096,
    }
    assert (found["num_nextn_predict_layers"], found["mtp_loss_factor"]) == (1, 0.3)
    assert read(emit(model, "1.9", MCORE)).transformer == model.transformer


def test_a_user_may_change_what_a_comment_keeps() -> None:
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512, "beta_fast": 32.0}
    model = from_hf({**LLAMA, "rope_scaling": scaling})
    text = emit(model, "1.9", LEGACY)
    assert read(text).model.transformer.rope_scaling == model.transformer.rope_scaling
    changed = read(text.replace("factor: 4.0", "factor: 8.0")).model.transformer.rope_scaling
    assert changed is not None
    assert changed["factor"] == 8.0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"attention_bias": True}, "add_attention_output_bias"),
        ({"use_sliding_window": True, "sliding_window": 512, "max_window_layers": 2}, "window_size"),
        (
            {
                "rope_scaling": {
                    "rope_type": "llama3",
                    "factor": 8.0,
                    "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 8192,
                }
            },
            "rope_scaling",
        ),
        ({"hidden_size": 1000, "num_attention_heads": 3, "num_key_value_heads": 1}, "must be a multiple"),
    ],
)
def test_refused_of_qwen3(change: dict[str, Any], said: str) -> None:
    with pytest.raises(MindportError, match=said):
        emit(from_hf({**QWEN3, **change}), "1.9", MCORE)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rms_norm_eps": 1e-5}, "norms of its latents"),
        ({"num_experts_per_tok": 4}, "by its best 1"),
        ({"tie_word_embeddings": True}, "tie_word_embeddings"),
        ({"num_nextn_predict_layers": 2}, "at most one"),
        ({"rope_interleave": False}, "rotary_interleaved"),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}}, "mscale"),
        ({"v_head_dim": 256}, "v_head_dim"),
    ],
)
def test_refused_of_deepseek(change: dict[str, Any], said: str) -> None:
    with pytest.raises(MindportError, match=said):
        emit(from_hf({**DEEPSEEK, **change}), "1.9", MCORE)


def test_a_refusal_says_what_would_do() -> None:
    with pytest.raises(MindportError) as caught:
        emit(from_hf(LLAMA), "1.8", MCORE)
    assert "plug-in, which is made for MindFormers 1.9, not 1.8" in caught.value.message
    assert "legacy (1.0 - 2.1)" in caught.value.fix
    assert "mcore (1.9 - 2.1)" in caught.value.fix
    with pytest.raises(MindportError, match=r"came with 1\.3") as caught:
        emit(from_hf({**LLAMA, "tie_word_embeddings": True}), "1.2")
    assert "legacy (1.3 - 2.1)" in caught.value.fix
    with pytest.raises(MindportError, match=r"no version 1\.4"):
        emit(from_hf(LLAMA), "1.4")


def test_another_graph_that_computes_the_same() -> None:
    model = from_hf(LLAMA)
    text = emit(model, "1.9", MCORE, graph="telechat3")
    assert emit(model, "2.0", MCORE, graph="telechat3") == emit(model, "2.0", MCORE)
    assert section(emit(model, "2.0"))["type"] == "LlamaConfig"  # it only stands in: not without being asked for
    assert section(text)["model_type"] == "telechat3"
    assert read(text).transformer == model.transformer
    with pytest.raises(MindportError, match="no mcore graph bloom"):
        emit(model, "1.9", MCORE, graph="bloom")


@pytest.mark.parametrize("version", VERSIONS)
def test_names_change_with_the_version(version: str) -> None:
    document = parsed(emit(from_hf(LLAMA), version, LEGACY))
    old = version in ("1.0", "1.1")
    assert document["callbacks"][1]["type"] == ("CheckpointMointor" if old else "CheckpointMonitor")
    assert ("beta1" in document["optimizer"]) is old
    assert ("use_legacy" in document) is (version_named(version).order >= (1, 6))
    assert ("theta" in document["model"]["model_config"]) is (version != "1.0")
    assert document["train_dataset_task"]["dataset_config"] == document["train_dataset"]


def test_every_key_of_the_model_says_where_it_comes_from() -> None:
    for model, generation in ((from_hf(LLAMA), LEGACY), (from_hf(QWEN3), MCORE)):
        text = emit(model, "1.9", generation)
        assert re.search(r"rms_norm_eps: 1\.e-06  # from rms_norm_eps", text)
        graph = chosen_graph(model, version_named("1.9"), generation, None)
        for key in (
            *(key.name for key in graph.keys if key.name in section(text)),
            *graph.written_in(version_named("1.9")),
        ):
            assert re.search(rf"^    {key}: .*  # ", text, re.MULTILINE), key
    assert "num_heads: 32  # from num_attention_heads; num_attention_heads in mcore" in emit(
        from_hf(LLAMA), "1.9", LEGACY
    )


def test_the_header_says_what_is_known_of_the_version() -> None:
    assert "executed in MindFormers" in emit(from_hf(LLAMA), "1.9", LEGACY)
    assert "from documented facts" in emit(from_hf(LLAMA), "2.1", LEGACY)
    assert "checked against its schema" in emit(from_hf(QWEN3), "1.9", PYNATIVE)


SETTINGS = RunSettings(
    task="finetune",
    data=Data(format="megatron", path="/data/wiki", samples=7),
    seq_length=128,
    batch_size=3,
    schedule=Schedule("constant", 3e-4, warmup_steps=10, total_steps=99),
    precision=Precision(compute="float16"),
    parallel=Parallel(data=2, tensor=4, pipeline=2, micro_batches=8, sequence=True, offset=[1, -1]),
    recompute=Recompute(full=[1, 2]),
)


def test_settings_arrive() -> None:
    document = parsed(emit(from_hf({**QWEN3, "num_key_value_heads": 32}), "1.9", MCORE, SETTINGS))
    assert document["run_mode"] == "finetune"
    assert document["use_parallel"] is True
    assert document["train_dataset"]["data_loader"]["config"]["data_path"] == ["1", "/data/wiki"]
    assert document["train_dataset"]["data_loader"]["config"]["seq_length"] == 128
    assert document["parallel"]["dataset_strategy"] == [[2, 1]] * 4
    assert document["lr_schedule"] == {
        "type": "ConstantWarmUpLR",
        "learning_rate": 3e-4,
        "warmup_steps": 10,
        "total_steps": 99,
    }
    assert document["runner_wrapper"]["scale_sense"]["type"] == "DynamicLossScaleUpdateCell"
    assert document["recompute_config"]["recompute"] == [1, 2]
    assert document["model"]["model_config"]["offset"] == [1, -1]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seq_length": 10**6}, "positions"),
        ({"parallel": Parallel(micro_batches=2)}, "without a pipeline"),
        ({"parallel": Parallel(pipeline=2, micro_batches=2), "gradient_accumulation": 2}, "with a pipeline"),
        ({"parallel": Parallel(pipeline=4, micro_batches=2)}, "stages"),
        ({"parallel": Parallel(sequence=True)}, "Sequence parallelism"),
        ({"parallel": Parallel(tensor=3)}, "vocab_size"),
        ({"parallel": Parallel(context=2), "flash_attention": False}, "flash_attention"),
        ({"gradient_accumulation": 2}, "on one device"),
        ({"parallel": Parallel(data=2), "device": "CPU"}, "CPU"),
        ({"parallel": Parallel(data=2), "load_checkpoint": "/w/model.safetensors"}, "folder"),
        ({"parallel": Parallel(data=2), "load_checkpoint": "/w", "sink": False}, "sink"),
    ],
)
def test_settings_that_would_be_changed_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(MindportError, match=said):
        emit(from_hf(QWEN3), "1.9", MCORE, replace(RunSettings(), **changes))


@pytest.mark.parametrize(
    ("weights", "devices", "form", "cut"),
    [
        ("", 1, "safetensors", False),
        ("", 2, "safetensors", False),
        ("/w", 1, "safetensors", False),
        ("/w", 2, "safetensors", True),
        ("/w/model.safetensors", 1, "safetensors", False),
        ("/w/model.ckpt", 1, "ckpt", False),
        ("/w/model.ckpt", 2, "ckpt", True),
    ],
)
def test_weights_are_loaded_as_they_lie(weights: str, devices: int, form: str, cut: bool) -> None:
    settings = RunSettings(load_checkpoint=weights, parallel=Parallel(data=devices))
    document = parsed(emit(from_hf(QWEN3), "1.9", MCORE, settings))
    found = [document[key] for key in ("load_checkpoint", "load_ckpt_format", "auto_trans_ckpt")]
    assert found == [weights, form, cut]


def test_a_version_without_safetensors_is_given_none() -> None:
    assert "load_ckpt_format" not in parsed(emit(from_hf(LLAMA), "1.3", LEGACY, RunSettings(load_checkpoint="/w.ckpt")))
    with pytest.raises(MindportError, match="ckpt"):
        emit(from_hf(LLAMA), "1.3", LEGACY, RunSettings(load_checkpoint="/w.safetensors"))


def test_a_trial_on_a_cpu_is_one_that_a_cpu_can_run() -> None:
    document = parsed(emit(from_hf(LLAMA), "1.9", LEGACY, RunSettings(device="CPU", precision=Precision("bfloat16"))))
    assert document["runner_config"]["sink_mode"] is False
    section = document["model"]["model_config"]
    assert {value for key, value in section.items() if key.endswith("dtype") or key == "param_init_type"} == {"float32"}
    assert section["use_flash_attention"] is False


def test_settings_from_a_file() -> None:
    found = RunSettings.from_mapping({"batch_size": 2, "parallel": {"tensor": 4}, "schedule": {"peak": 1}})
    assert found == replace(RunSettings(), batch_size=2, parallel=Parallel(tensor=4), schedule=Schedule(peak=1.0))
    for wrong in (
        {"bach_size": 2},
        {"parallel": {"tensor": "4"}},
        {"batch_size": True},
        {"task": "eval"},
        {"parallel": 2},
    ):
        with pytest.raises(MindportError, match="run setting"):
            RunSettings.from_mapping(wrong)


@given(st.floats(allow_nan=False))
def test_floats_read_as_floats(value: float) -> None:
    read_back = parsed(f"a: {number(value)}\n")["a"]
    assert isinstance(read_back, float)
    assert read_back == value


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-99, 99) | st.floats(-9, 9) | st.text(), st.lists, max_leaves=9
    )
)
def test_values_read_as_they_are_meant(value: Any) -> None:
    assert parsed(f"a: {scalar(value)}\n") == {"a": value}


def test_the_document_and_its_text_say_the_same() -> None:
    entries = [
        Entry("a", 1, "why", "x"),
        Entry("b", (Entry("c", [Entry("d", 1.5)] and [1, [2, 3]]), Entry("e", Alias("x"))), "block", "y"),
        Entry("f", [(Entry("type", "p"), Entry("n", None)), (Entry("type", "q"),)]),
        Entry("g", Alias("y")),
        Entry("h", {"k": 1e-9}),
    ]
    assert parsed(render(entries)) == plain(entries)


def test_before_1_8_no_token_is_taken_for_padding() -> None:
    """There mcore is not told of pad_token_id, and takes token 0; only the compressed mask knows no padding."""
    mask = "use_attn_mask_compression"
    long, short = (
        from_hf({**QWEN3, "max_position_embeddings": 2048}),
        from_hf({**QWEN3, "max_position_embeddings": 2047}),
    )
    assert section(emit(long, "1.7"))[mask] is True
    assert mask not in section(emit(long, "1.8"))
    assert mask not in section(emit(from_hf({**long.hf, "pad_token_id": 0}), "1.7"))
    assert mask not in section(emit(from_hf({**short.hf, "pad_token_id": 0}), "1.7"))
    for model, settings in ((short, RunSettings()), (long, RunSettings(flash_attention=False))):
        assert emit(model, "1.8", settings=settings)
        with pytest.raises(MindportError, match=r"takes token 0 for padding.*1\.8"):
            emit(model, "1.7", settings=settings)


def test_what_1_6_reads_of_recomputation_only_in_the_model_is_written_there_too() -> None:
    plan = Recompute(full=True, select=[1, 2], tensor_communication=False)
    settings = RunSettings(parallel=Parallel(pipeline=2, micro_batches=4), recompute=plan)
    found = {version: section(emit(from_hf(DEEPSEEK), version, MCORE, settings)) for version in ("1.6", "1.7")}
    told = {"select_recompute": [1, 2], "mp_comm_recompute": False}
    assert {key: found["1.6"].get(key) for key in told} == told
    assert not told.keys() & found["1.7"].keys()
    assert "recompute" not in found["1.6"]
    text = emit(from_hf(DEEPSEEK), "1.6", MCORE, settings)
    assert not read(text, version="1.6").unknown
    assert "misplaced-key" not in {
        f.code for f in validate_file(parse_yaml(text, Path("x.yaml")), version_named("1.6")).findings
    }
