"""Each rule sees what it is for, says a value that works, and leaves what is right alone."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mindport.config.mindformers.findings import ERROR, NOTE, WARNING, ConfigFinding
from mindport.config.mindformers.known import TEMPLATE_SINCE, in_span, since, table, versions_in
from mindport.config.mindformers.plan_rules import check_plan
from mindport.config.mindformers.validate import validate, validate_file
from mindport.config.yaml_file import parse_yaml
from mindport.errors import MindportError
from mindport.targets.mindformers import VERSIONS, version_named

MCORE = {
    "run_mode": "train",
    "use_parallel": True,
    "use_legacy": False,
    "trainer": {"type": "CausalLanguageModelingTrainer", "model_name": "x"},
    "runner_config": {"batch_size": 2, "epochs": 1},
    "optimizer": {"type": "AdamW", "betas": [0.9, 0.95]},
    "lr_schedule": {"type": "CosineWithWarmUpLR", "learning_rate": 0.001},
    "runner_wrapper": {"type": "MFTrainOneStepCell", "scale_sense": 1.0},
    "train_dataset": {"data_loader": {"type": "MindDataset"}},
    "callbacks": [{"type": "MFLossMonitor"}],
    "parallel": {"parallel_mode": 1, "full_batch": True},
    "parallel_config": {
        "data_parallel": 2,
        "model_parallel": 2,
        "pipeline_stage": 2,
        "micro_batch_num": 4,
        "use_seq_parallel": True,
    },
    "recompute_config": {"recompute": True},
    "model": {
        "model_config": {
            "model_type": "qwen3",
            "architectures": ["Qwen3ForCausalLM"],
            "num_hidden_layers": 8,
            "hidden_size": 64,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "intermediate_size": 96,
            "vocab_size": 512,
            "seq_length": 4096,
            "hidden_dropout": 0.0,
            "rope_theta": 10000.0,
            "pad_token_id": 0,
            "compute_dtype": "bfloat16",
        }
    },
}
"""A plan on 8 devices with which nothing is wrong."""

LEGACY: dict[str, Any] = copy.deepcopy(MCORE)
del LEGACY["use_legacy"]
LEGACY["model"] = {
    "arch": {"type": "LlamaForCausalLM"},
    "model_config": {
        "type": "LlamaConfig",
        "num_layers": 8,
        "hidden_size": 64,
        "num_heads": 8,
        "n_kv_heads": 4,
        "intermediate_size": 96,
        "vocab_size": 512,
        "seq_length": 4096,
        "compute_dtype": "bfloat16",
    },
}

M, P = "model.model_config", "parallel_config"
MLA_MOE = {f"{M}.kv_lora_rank": 16, f"{M}.num_experts": 8}


def changed(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A YAML with keys set, `section.key`, or taken out (None)."""
    content: dict[str, Any] = copy.deepcopy(dict(base))
    for path, value in changes.items():
        *sections, key = path.split(".")
        part: Any = content
        for section in sections:
            part = part[int(section)] if section.isdigit() else part.setdefault(section, {})
        if value is None:
            part.pop(key, None)
        else:
            part[key] = value
    return content


def found(content: Mapping[str, Any], version: str = "1.9", devices: int | None = 8) -> list[ConfigFinding]:
    return validate_file(parse_yaml(json.dumps(content), Path("run.yaml")), version_named(version), devices).findings


@pytest.mark.parametrize("version", ["1.7", "1.8", "1.9", "2.0", "2.1"])
def test_nothing_is_wrong_with_a_sound_mcore_plan(version: str) -> None:
    assert found(MCORE, version) == []


@pytest.mark.parametrize("version", [name for name in VERSIONS if name not in ("1.0", "1.1")])
def test_nothing_is_wrong_with_a_sound_legacy_plan(version: str) -> None:
    assert found(LEGACY, version) == []


Wrong = tuple[dict[str, Any], dict[str, Any], str, str, str]
"""A base, what is changed, the code, the level, and the key."""

WRONG: list[Wrong] = [
    (MCORE, {f"{P}.data_parallel": 4}, "devices", ERROR, f"{P}.data_parallel"),
    (MCORE, {f"{M}.num_attention_heads": 12, f"{M}.hidden_size": 100}, "hidden-heads", ERROR, f"{M}.hidden_size"),
    (LEGACY, {f"{M}.hidden_size": 100}, "hidden-heads", ERROR, f"{M}.hidden_size"),
    (MCORE, {f"{M}.num_attention_heads": 1, f"{M}.num_key_value_heads": 2}, "heads-tp", ERROR, f"{P}.model_parallel"),
    (MCORE, {f"{M}.num_key_value_heads": 1}, "kv-heads-tp", ERROR, f"{P}.model_parallel"),
    (LEGACY, {f"{M}.n_kv_heads": 1}, "kv-heads-tp", ERROR, f"{P}.model_parallel"),
    (LEGACY, {f"{M}.intermediate_size": 97}, "width-tp", ERROR, f"{M}.intermediate_size"),
    (MCORE, {f"{M}.vocab_size": 513}, "vocab-tp", WARNING, f"{M}.vocab_size"),
    (MCORE, {f"{P}.model_parallel": 1, f"{P}.data_parallel": 4}, "sp-without-tp", ERROR, f"{P}.use_seq_parallel"),
    (LEGACY, {f"{P}.model_parallel": 1, f"{P}.data_parallel": 4}, "sp-without-tp", WARNING, f"{P}.use_seq_parallel"),
    (
        LEGACY,
        {f"{M}.fine_grain_interleave": 2, f"{P}.use_seq_parallel": False},
        "fine-grain-without-sp",
        ERROR,
        f"{M}.fine_grain_interleave",
    ),
    (MCORE, {f"{M}.max_position_embeddings": 2048}, "seq-positions", WARNING, f"{M}.seq_length"),
    (MCORE, {f"{P}.context_parallel_algo": "ring"}, "cp-algorithm", ERROR, f"{P}.context_parallel_algo"),
    (
        MCORE,
        {f"{P}.context_parallel": 2, f"{P}.data_parallel": 1, f"{M}.use_flash_attention": False},
        "cp-flash-attention",
        ERROR,
        f"{P}.context_parallel",
    ),
    (
        MCORE,
        {f"{P}.context_parallel": 2, f"{P}.data_parallel": 1, f"{M}.seq_length": 4095},
        "cp-seq",
        ERROR,
        f"{P}.context_parallel",
    ),
    (
        LEGACY,
        {f"{P}.context_parallel": 4, f"{P}.context_parallel_algo": "ulysses_cp"},
        "ulysses-heads",
        ERROR,
        f"{P}.context_parallel",
    ),
    (
        LEGACY,
        {f"{P}.context_parallel": 4, f"{P}.context_parallel_algo": "hybrid_cp", f"{P}.ulysses_degree_in_cp": 3},
        "ulysses-degree",
        ERROR,
        f"{P}.ulysses_degree_in_cp",
    ),
    (
        MCORE,
        {f"{P}.context_parallel": 2, f"{P}.context_parallel_algo": "hybrid_cp"},
        "hybrid-mcore",
        ERROR,
        f"{P}.context_parallel_algo",
    ),
    (MCORE, {f"{M}.num_experts": 6, f"{P}.expert_parallel": 4}, "experts-ep", ERROR, f"{P}.expert_parallel"),
    (MCORE, {f"{M}.num_experts": 8, f"{P}.expert_parallel": 8}, "ep-ranks", ERROR, f"{P}.expert_parallel"),
    (LEGACY, {"moe_config": {"expert_num": 8}, f"{P}.expert_parallel": 4}, "ep-ranks", ERROR, f"{P}.expert_parallel"),
    (
        MCORE,
        {**MLA_MOE, f"{M}.moe_token_dispatcher_type": "alltoall_deredundency"},
        "dispatcher-ep",
        ERROR,
        f"{M}.moe_token_dispatcher_type",
    ),
    (MCORE, {**MLA_MOE, f"{P}.use_seq_parallel": False}, "moe-tp-without-sp", ERROR, f"{P}.use_seq_parallel"),
    (MCORE, {"parallel.full_batch": False}, "dataset-strategy", ERROR, "parallel.dataset_strategy"),
    (
        MCORE,
        {"parallel.full_batch": False, "parallel.dataset_strategy": [[4, 1]]},
        "dataset-strategy",
        ERROR,
        "parallel.dataset_strategy",
    ),
    (LEGACY, {"optimizer.type": "Muon"}, "muon", ERROR, "optimizer.type"),
    (MCORE, {f"{P}.pipeline_stage": 16}, "layers-stages", ERROR, f"{P}.pipeline_stage"),
    (MCORE, {f"{M}.pp_interleave_num": 2}, "interleave-off", WARNING, f"{M}.pp_interleave_num"),
    (MCORE, {f"{M}.num_hidden_layers": 9}, "offset-sum", ERROR, f"{M}.offset"),
    (LEGACY, {f"{M}.num_layers": 9}, "offset-sum", ERROR, f"{M}.offset"),
    (MCORE, {f"{M}.offset": [1, 0, -1]}, "offset-form", ERROR, f"{M}.offset"),
    (MCORE, {f"{M}.offset": [[0, 0], [0, 0], [0, 0]]}, "offset-form", ERROR, f"{M}.offset"),
    (MCORE, {f"{M}.offset": "even"}, "offset-form", ERROR, f"{M}.offset"),
    (MCORE, {f"{M}.offset": [5, -5]}, "offset-empty", ERROR, f"{M}.offset"),
    (MCORE, {f"{P}.micro_batch_num": 1}, "micro-batches", ERROR, f"{P}.micro_batch_num"),
    (MCORE, {f"{P}.micro_batch_num": 3}, "few-micro-batches", WARNING, f"{P}.micro_batch_num"),
    (MCORE, {f"{P}.pipeline_stage": 1, f"{P}.data_parallel": 4}, "micro-batch-reset", NOTE, f"{P}.micro_batch_num"),
    (
        MCORE,
        {"runner_config.gradient_accumulation_steps": 4},
        "accumulation-reset",
        NOTE,
        "runner_config.gradient_accumulation_steps",
    ),
    (MCORE, {"micro_batch_interleave_num": 2}, "interleaved-copies", ERROR, "micro_batch_interleave_num"),
    (
        LEGACY,
        {"parallel.pipeline_config.pipeline_scheduler": "seqvpp"},
        "seqvpp-split",
        ERROR,
        "parallel.pipeline_config.pipeline_scheduler",
    ),
    (LEGACY, {f"{P}.seq_split_num": 2}, "seqpipe-recompute", ERROR, "recompute_config.recompute"),
    (MCORE, {f"{P}.seq_split_num": 2}, "seqpipe-mcore", ERROR, f"{P}.seq_split_num"),
    (
        MCORE,
        {"parallel.pipeline_config.pipeline_scheduler": "zero_bubble_v"},
        "zero-bubble",
        ERROR,
        f"{M}.pp_interleave_num",
    ),
    (MCORE, {"recompute_config.recompute": [1, 1, 1]}, "recompute-stages", ERROR, "recompute_config.recompute"),
    (MCORE, {"recompute_config.select_recompute": "all"}, "recompute-form", ERROR, "recompute_config.select_recompute"),
    (
        MCORE,
        {"recompute_config.recompute_slice_activation": True},
        "recompute-slice",
        ERROR,
        "recompute_config.recompute_slice_activation",
    ),
    (MCORE, {f"{P}.model_parallel": "2"}, "wrong-type", ERROR, f"{P}.model_parallel"),
    (MCORE, {"use_parallel": "Flase"}, "wrong-type", ERROR, "use_parallel"),
    (MCORE, {"run_mode": "training"}, "run-mode", ERROR, "run_mode"),
    (MCORE, {"optimizer.type": None}, "missing", ERROR, "optimizer.type"),
    (MCORE, {"train_dataset": None}, "missing", ERROR, "train_dataset"),
    (MCORE, {"lr_schedule": None}, "missing", ERROR, "lr_schedule"),
    (MCORE, {f"{M}.model_type": None, f"{M}.architectures": None}, "missing", ERROR, f"{M}.model_type"),
    (MCORE, {"callbacks": {"type": "MFLossMonitor"}}, "section-shape", ERROR, "callbacks"),
    (MCORE, {"optimizer": "AdamW"}, "section-shape", ERROR, "optimizer"),
    (MCORE, {f"{P}.data_paralel": 2}, "unknown-key", ERROR, f"{P}.data_paralel"),
    (MCORE, {f"{P}.recompute": True}, "misplaced-key", ERROR, f"{P}.recompute"),
    (MCORE, {"runner_config.weight_decay": 0.1}, "misplaced-key", ERROR, "runner_config.weight_decay"),
    (MCORE, {"parallel.micro_batch_num": 4}, "misplaced-key", WARNING, "parallel.micro_batch_num"),
    (MCORE, {"recompute": True}, "misplaced-key", WARNING, "recompute"),
    (MCORE, {"runner_config.image_size": 224}, "key-of-another-version", ERROR, "runner_config.image_size"),
    (MCORE, {"profiler_level": 1}, "unknown-key", WARNING, "profiler_level"),
    (MCORE, {"base_config": "base.yaml"}, "base-config", NOTE, "base_config"),
    (MCORE, {"optimizer.type": "FP32StateAdamWeightDecay"}, "component-version", ERROR, "optimizer.type"),
    (MCORE, {"callbacks.0.type": "CheckpointMointor"}, "component-version", ERROR, "callbacks[0].type"),
    (MCORE, {"callbacks.0.type": "MFLosMonitor"}, "component-name", ERROR, "callbacks[0].type"),
    (MCORE, {"lr_schedule.type": "MyOwnSchedule"}, "component-unknown", NOTE, "lr_schedule.type"),
    (LEGACY, {f"{M}.type": "BloomConfig"}, "component-version", ERROR, f"{M}.type"),
    (MCORE, {f"{M}.model_type": "glm4"}, "family-training", ERROR, f"{M}.model_type"),
    (MCORE, {f"{M}.model_type": "mine"}, "family-unknown", NOTE, f"{M}.model_type"),
    (MCORE, {"run_mode": "predict"}, "pipeline-inference", ERROR, f"{P}.pipeline_stage"),
    (LEGACY, {f"{M}.use_past": True}, "use-past", NOTE, f"{M}.use_past"),
    (MCORE, {f"{M}.params_dtype": "float33"}, "dtype", ERROR, f"{M}.params_dtype"),
    (MCORE, {f"{M}.rotary_dtype": "float16"}, "rotary-float16", ERROR, f"{M}.rotary_dtype"),
    (MCORE, {f"{M}.compute_dtype": "float16"}, "scale-float16", WARNING, "runner_wrapper.scale_sense"),
    (
        MCORE,
        {"runner_wrapper.scale_sense": {"type": "DynamicLossScaleUpdateCell"}},
        "scale-bfloat16",
        NOTE,
        "runner_wrapper.scale_sense",
    ),
    (MCORE, {f"{M}.hidden_dropout": 0}, "dropout", ERROR, f"{M}.hidden_dropout"),
    (MCORE, {f"{M}.position_embedding_type": "llama3"}, "mcore-refuses", ERROR, f"{M}.position_embedding_type"),
    (
        MCORE,
        {f"{M}.use_attn_mask_compression": True, f"{M}.seq_length": 1024},
        "mcore-refuses",
        ERROR,
        f"{M}.use_attn_mask_compression",
    ),
    (MCORE, {f"{M}.num_nextn_predict_layers": 2}, "mcore-refuses", ERROR, f"{M}.num_nextn_predict_layers"),
    (MCORE, {**MLA_MOE, f"{M}.moe_grouped_gemm": False}, "mcore-refuses", ERROR, f"{M}.moe_grouped_gemm"),
    (
        MCORE,
        {**MLA_MOE, f"{M}.moe_router_load_balancing_type": "aux_loss"},
        "mcore-refuses",
        ERROR,
        f"{M}.moe_router_load_balancing_type",
    ),
    (MCORE, {**MLA_MOE, f"{M}.n_group": 3}, "mcore-refuses", ERROR, f"{M}.n_group"),
    (MCORE, {**MLA_MOE, f"{M}.apply_rope_fusion": True}, "mcore-refuses", ERROR, f"{M}.apply_rope_fusion"),
    (MCORE, {"lr_schedule.warmup_ratio": 3}, "lr-ratio", ERROR, "lr_schedule.warmup_ratio"),
    (MCORE, {"lr_schedule.warmup_steps": 0.5}, "lr-steps", ERROR, "lr_schedule.warmup_steps"),
    (MCORE, {"lr_schedule.type": "polynomial", "lr_schedule.lr_end": 0.5}, "lr-end", ERROR, "lr_schedule.lr_end"),
    (MCORE, {"load_checkpoint": "/x", "run_mode": "predict"}, "ckpt-format", ERROR, "load_ckpt_format"),
    (LEGACY, {"load_checkpoint": "/x.safetensors"}, "ckpt-format", ERROR, "load_ckpt_format"),
    (MCORE, {"load_checkpoint": "/x.safetensors"}, "load-file", ERROR, "load_checkpoint"),
    (MCORE, {"load_checkpoint": "/x", "runner_config.sink_mode": False}, "load-sink", ERROR, "runner_config.sink_mode"),
    (MCORE, {"auto_trans_ckpt": True}, "load-nothing", WARNING, "auto_trans_ckpt"),
    (MCORE, {"use_legacy_format": False, "resume_training": "x.ckpt"}, "resume-form", ERROR, "resume_training"),
    (MCORE, {"use_legacy_format": False, "only_save_strategy": True}, "only-strategy", ERROR, "only_save_strategy"),
    (
        MCORE,
        {"callbacks.0": {"type": "CheckpointMonitor", "prefix": "my_rank"}},
        "prefix-rank",
        ERROR,
        "callbacks[0].prefix",
    ),
    (
        MCORE,
        {"callbacks.0": {"type": "CheckpointMonitor", "remove_redundancy": True}},
        "redundancy-ckpt",
        ERROR,
        "callbacks[0].remove_redundancy",
    ),
    (
        MCORE,
        {"train_dataset.data_loader.config": {"seq_length": 2048}},
        "data-seq",
        ERROR,
        "train_dataset.data_loader.config.seq_length",
    ),
    (
        LEGACY,
        {"train_dataset.data_loader.type": "BlendedMegatronDatasetDataLoader"},
        "sliced-inputs",
        ERROR,
        f"{M}.input_sliced_sig",
    ),
]


@pytest.mark.parametrize("wrong", WRONG, ids=[f"{code}-{number}" for number, (_, _, code, _, _) in enumerate(WRONG)])
def test_a_rule_sees_what_it_is_for(wrong: Wrong) -> None:
    base, changes, code, level, path = wrong
    content = changed(base, {k: v for k, v in changes.items() if not k.startswith("callbacks.0")})
    if "callbacks.0" in changes:
        content["callbacks"][0] = changes["callbacks.0"]
    elif "callbacks.0.type" in changes:
        content["callbacks"][0]["type"] = changes["callbacks.0.type"]
    hits = [f for f in found(content) if f.code == code]
    assert [(f.level, f.path) for f in hits][:1] == [(level, path)]
    assert hits[0].message.endswith((".", ")"))
    assert hits[0].reason


def test_all_problems_are_reported_at_once() -> None:
    content = changed(
        MCORE, {f"{P}.data_parallel": 3, f"{M}.vocab_size": 513, f"{M}.hidden_dropout": 0, f"{P}.bogus": 1}
    )
    codes = {finding.code for finding in found(content)}
    assert {"devices", "vocab-tp", "dropout", "unknown-key"} <= codes


@pytest.mark.parametrize(
    ("changes", "code", "key", "works"),
    [
        ({f"{M}.num_key_value_heads": 1}, "kv-heads-tp", f"{P}.model_parallel", 1),
        ({f"{M}.num_hidden_layers": 9}, "offset-sum", f"{M}.offset", [0, 1]),
        (
            {
                f"{M}.num_hidden_layers": 11,
                f"{P}.pipeline_stage": 4,
                f"{P}.data_parallel": 1,
                f"{P}.micro_batch_num": 8,
            },
            "offset-sum",
            f"{M}.offset",
            None,
        ),
        ({f"{P}.data_parallel": 1}, "devices", f"{P}.data_parallel", 2),
        ({f"{P}.micro_batch_num": 1}, "micro-batches", f"{P}.micro_batch_num", 4),
    ],
)
def test_a_value_that_is_offered_works(changes: dict[str, Any], code: str, key: str, works: Any) -> None:
    content = changed(MCORE, changes)
    (finding,) = [f for f in found(content) if f.code == code]
    if works is None:
        works = json.loads(finding.fix.removeprefix("offset: "))
    assert str(works) in finding.fix
    assert code not in {f.code for f in found(changed(content, {key: works}))}


def test_experts_may_go_over_tensor_parallel_ranks_only_in_mcore() -> None:
    wide = {f"{P}.expert_parallel": 4, f"{M}.num_experts": 8}
    assert "ep-ranks" not in {f.code for f in found(changed(MCORE, wide))}
    assert "ep-ranks" in {
        f.code for f in found(changed(LEGACY, {f"{P}.expert_parallel": 4, "moe_config": {"expert_num": 8}}))
    }


def test_rules_are_those_of_the_version() -> None:
    slice_ = {"recompute_config.recompute_slice_activation": True, f"{M}.model_type": "deepseek_v3"}
    assert "recompute-slice" not in {f.code for f in found(changed(MCORE, slice_), "1.6")}
    assert "recompute-slice" in {f.code for f in found(changed(MCORE, slice_), "1.7")}
    nine = changed(LEGACY, {f"{M}.num_layers": 9})
    assert "offset-sum" not in {f.code for f in found(nine, "1.2")}
    assert "offset-sum" in {f.code for f in found(nine, "1.3")}
    assert "generation" in {f.code for f in found(MCORE, "1.3")}


def test_the_layer_for_several_tokens_is_spread_with_the_others_only_until_1_6() -> None:
    content = changed(MCORE, {f"{M}.num_nextn_predict_layers": 1, f"{M}.model_type": "deepseek_v3"})
    assert "offset-sum" in {f.code for f in found(content, "1.6")}
    assert "offset-sum" not in {f.code for f in found(content, "1.7")}


def test_only_unquoted_numbers_are_texts_by_mistake() -> None:
    text = json.dumps(MCORE).replace('"learning_rate": 0.001', '"learning_rate": 1e-3')
    hits = [f for f in validate_file(parse_yaml(text, Path("x")), version_named("1.9")).findings if f.level == ERROR]
    assert [(f.code, f.fix) for f in hits] == [("number-is-text", "1.e-3")]
    quoted = json.dumps(MCORE).replace('"learning_rate": 0.001', '"learning_rate": 0.001, "note": "1e-3"')
    assert not validate_file(parse_yaml(quoted, Path("x")), version_named("1.9")).findings


def test_lines_are_those_of_the_file() -> None:
    text = "run_mode: train\nparallel_config:\n  data_parallel: 1\n\n  bogus: 1\n"
    (finding,) = [
        f for f in validate_file(parse_yaml(text, Path("x")), version_named("1.9")).findings if f.path == f"{P}.bogus"
    ]
    assert finding.line == 5


PYNATIVE = {
    "model": {
        "model_type": "qwen3",
        "architectures": "Qwen3ForCausalLM",
        "seq_length": 64,
        "hidden_dropout": 0.0,
        "rope_theta": 10000.0,
        "pad_token_id": 0,
    },
    "training": {"steps": 10, "local_batch_size": 1},
    "parallelism": {"tensor_parallel": 2, "sequence_parallel": True, "expert_parallel": 2},
    "lr_scheduler": {"type": "x", "learning_rate": 0.1, "anything": 1},
}


def test_nothing_is_wrong_with_a_sound_pynative_file() -> None:
    assert found(PYNATIVE, "2.0") == []
    assert found(PYNATIVE, "2.1") == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"training.setps": 1}, "unknown-key"),
        ({"parallelism.hsdp_shard_size": 2}, "key-of-another-version"),
        ({"training.steps": "ten"}, "wrong-type"),
        ({"training.steps": True}, "wrong-type"),
        ({"training": 3}, "section-shape"),
        ({"parallelism.tensor_parallel": 3}, "devices"),
        ({"parallelism.expert_parallel": 3}, "ep-ranks"),
        ({"parallelism.dense_fsdp_shard_size": 3}, "dense-shard"),
        ({"parallelism.sequence_parallel": False}, "tp-without-sp"),
        ({"parallelism.context_parallel": 4, "model.seq_length": 63}, "cp-seq"),
        ({"recompute.mode": "full"}, "recompute-form"),
        ({"swap.enable": True, "parallelism.pipeline_parallel": 2}, "swap-pipeline"),
    ],
)
def test_rules_of_pynative_files(changes: dict[str, Any], code: str) -> None:
    assert code in {finding.code for finding in found(changed(PYNATIVE, changes), "2.0") if finding.level == ERROR}


def test_other_yaml_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "docker-compose.yaml"
    path.write_text("services: {a: 1}\n")
    with pytest.raises(MindportError, match="none of the sections"):
        validate(path)
    with pytest.raises(MindportError, match="no version 3"):
        validate(path, "3.0")


def test_the_tables_are_spans_of_known_versions() -> None:
    spans = [span for kind in table("components").values() for span in kind.values()]
    spans += [span for section in table("sections").values() for span in section.values()]
    spans += [*table("mcore_fields").values(), *table("pynative")["open"].values()]
    spans += [span for kinds in table("pynative")["keys"].values() for span in kinds]
    for span in spans:
        assert any(in_span(version, span) for version in VERSIONS.values()), span
        assert versions_in(span)
    assert since(VERSIONS["2.0"], TEMPLATE_SINCE)


def test_the_yaml_of_another_framework_is_none_of_mindformers() -> None:
    """NeMo has sections of these names as well."""
    text = "trainer: {devices: 32, max_steps: 5}\nmodel: {num_layers: 2}\ndata: {seq_length: 8}\n"
    with pytest.raises(MindportError, match="none of the sections"):
        validate_file(parse_yaml(text, Path("nemo.yaml")), version_named("1.9"))


def test_a_plan_needs_no_yaml() -> None:
    """The rules judge a plan that was never in a file."""
    from mindport.config.mindformers.judge import Case
    from mindport.config.mindformers.plan import PlacedPlan
    from mindport.schema.parallel_plan import ParallelPlan

    plan = ParallelPlan(num_layers=61, pipeline_model_parallel_size=8, micro_batch_num=16, num_attention_heads=128)
    codes = [f.code for f in check_plan(Case(PlacedPlan(plan, {}), version_named("1.9"), "mcore", 8))]
    assert codes == ["offset-sum"]


CORPUS = Path(__file__).parents[3].parent / "shared/corpus/training"


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.yaml")) if CORPUS.is_dir() else [], ids=lambda path: path.name)
def test_files_of_the_corpus_never_break_it(path: Path) -> None:
    if not path.name.startswith("mindformers_yaml"):
        with suppress(MindportError):  # or it has a section of this name
            assert validate(path).findings
        return
    result = validate(path)
    assert result.findings == sorted(
        result.findings, key=lambda f: (["error", "warning", "note"].index(f.level), f.line or 0)
    )
    assert result.count(ERROR) == 0


ENVIRONMENTS = {"1.9": ".venv-mindformers", **{name: f".venv-mindformers-{name}" for name in ("1.6", "1.7", "1.8")}}
"""Version -> the folder that it is installed in, if `make` has done so."""

SHIPPED = [
    (version, path)
    for version, name in ENVIRONMENTS.items()
    for path in sorted((Path(__file__).parents[3] / name).glob("lib/python3*/site-packages/configs/**/*.yaml"))
    if path.parent.name != "convert_config"  # for a converter of weights, not for a run
]

WRONG_AS_SHIPPED = {"pretrain_telechat3_105b_a4b_4k.yaml": {"offset-sum"}}
"""Files of MindFormers 1.9 that its own code refuses: 45 layers on 8 stages, without an offset."""


@pytest.mark.parametrize(("version", "path"), SHIPPED, ids=lambda value: getattr(value, "name", value))
def test_files_that_mindformers_ships_have_no_errors(version: str, path: Path) -> None:
    codes = {finding.code for finding in validate(path, version).findings if finding.level == ERROR}
    assert codes == WRONG_AS_SHIPPED.get(path.name, set())
