"""Each check sees its silent loss, and is silent where there is none."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from mindport.config.hf import from_hf
from mindport.config.mindformers.emit import emit
from mindport.config.mindformers.findings import NOTE
from mindport.config.mindformers.lint import CHECKS, NOT_IN_A_FILE, lint
from mindport.config.mindformers.losses import SAID_ALREADY, losses
from mindport.config.mindformers.validate import validate_file
from mindport.config.mindformers.yaml_case import YamlCase
from mindport.config.yaml_file import parse_yaml
from mindport.targets.mindformers.versions import LEGACY, MCORE, PYNATIVE, VERSIONS, version_named

SIZES = {
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
LATENTS = {
    "num_key_value_heads": 4,
    "q_lora_rank": 8,
    "kv_lora_rank": 8,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "n_routed_experts": 8,
    "num_experts_per_tok": 4,
    "n_group": 4,
    "topk_group": 2,
    "first_k_dense_replace": 1,
    "num_nextn_predict_layers": 0,
}
YARN = {"type": "yarn", "factor": 4.0, "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 32}


def _emitted(generation: str, **hf: Any) -> dict[str, Any]:
    text = emit(from_hf({**SIZES, **hf}), "1.9", generation)
    return parse_yaml(text, Path("emitted.yaml")).values


def _inference(model_type: str, **more: Any) -> dict[str, Any]:
    """A YAML for a family that MindFormers only runs; it has what the checks ask for."""
    section = {"model_type": model_type, **SIZES, "pad_token_id": 0, "add_qkv_bias": True, **more}
    return {"run_mode": "predict", "use_legacy": False, "model": {"model_config": section}}


def _latent_telechat() -> dict[str, Any]:
    document = _emitted(MCORE, model_type="deepseek_v3", **LATENTS)
    section = document["model"]["model_config"]
    section["model_type"] = "telechat3_moe"
    section["qk_head_dim"] = section.pop("qk_nope_head_dim")
    section["qk_pos_emb_head_dim"] = section.pop("qk_rope_head_dim")
    return document


BASES: dict[str, dict[str, Any]] = {
    "llama": _emitted(LEGACY, model_type="llama"),
    "qwen3": _emitted(MCORE, model_type="qwen3", head_dim=16),
    "qwen3_moe": _emitted(MCORE, model_type="qwen3_moe", num_experts=4, num_experts_per_tok=2),
    "deepseek_v3": _emitted(MCORE, model_type="deepseek_v3", **LATENTS),
    "yarn": _emitted(MCORE, model_type="deepseek_v3", **LATENTS, rope_scaling=YARN),
    "pynative": _emitted(PYNATIVE, model_type="deepseek_v3", **LATENTS),
    "telechat3_moe": _latent_telechat(),
    "qwen2": _inference("qwen2"),
    "glm4_moe": _inference("glm4_moe"),
}
"""YAMLs without a finding."""

OUT = object()
"""In place of a value: take the key out."""

TRIGGERS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "MF001": [("qwen3", {"hidden_dropout": OUT}), ("qwen3_moe", {"hidden_dropout": None})],
    "MF002": [
        ("qwen3", {"use_sliding_window": True, "sliding_window": 8}),
        ("qwen2", {"layer_types": ["full_attention", "sliding_attention"]}),
        ("llama", {"sliding_window": 8}),
    ],
    "MF003": [
        ("qwen3", {"attention_bias": True}),
        ("telechat3_moe", {"attention_bias": True, "/pretrained_model_dir": "x"}),
    ],
    "MF004": [("qwen2", {"add_qkv_bias": OUT})],
    "MF005": [("deepseek_v3", {"tie_word_embeddings": True})],
    "MF006": [("deepseek_v3", {"qk_layernorm": OUT}), ("telechat3_moe", {"qk_layernorm": False})],
    "MF007": [("deepseek_v3", {"rms_norm_eps": 1e-5})],
    "MF008": [("telechat3_moe", {"qk_nope_head_dim": 16})],
    "MF009": [("glm4_moe", {"num_nextn_predict_layers": 1})],
    "MF010": [("qwen3", {"rope_parameters": {"rope_theta": 1e6}}), ("qwen3", {"hf:rope_parameters": {}})],
    "MF011": [("qwen3", {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}})],
    "MF012": [("qwen3", {"rope_scaling": YARN}), ("qwen3", {"position_embedding_type": "yarn"})],
    "MF013": [("qwen3", {"rope_scaling": {"rope_type": "default"}})],
    "MF014": [("deepseek_v3", {"rotary_scaling_factor": OUT})],
    "MF015": [("yarn", {"rope_scaling": {**YARN, "original_max_position_embeddings": None}})],
    "MF016": [("yarn", {"rope_scaling": {**YARN, "mscale": 0.7}})],
    "MF017": [("yarn", {"rope_scaling": {**YARN, "truncate": False}})],
    "MF018": [("llama", {"extend_method": "DYNAMIC_NTK", "scaling_factor": 2.0, "@": "1.5"})],
    "MF019": [("qwen3", {"rope_theta": OUT})],
    "MF020": [("qwen3", {"scaling_factor": 2.0})],
    "MF030": [("deepseek_v3", {"num_nextn_predict_layers": 1})],
    "MF031": [("pynative", {"num_nextn_predict_layers": 1, "mtp_loss_factor": 0.3})],
    "MF032": [("glm4_moe", {"use_qk_norm": True})],
    "MF033": [("qwen3", {"pad_token_id": OUT})],
    "MF034": [("llama", {"rope_theta": 1e6}), ("llama", {"attention_dropout": 0.1})],
    "MF035": [("llama", {"head_dim": 32}), ("llama", {"kv_channels": 32})],
    "MF036": [("llama", {"tie_word_embeddings": True, "@": "1.2"})],
    "MF037": [("llama", {"qkv_concat": True, "qkv_has_bias": True})],
    "MF038": [("qwen3", {"use_contiguous_weight_layout_attention": True, "/checkpoint": {"load_path": "/hf"}})],
    "MF039": [("qwen3", {"dtype": "bfloat16"}), ("deepseek_v3", {"hf:dtype": "bfloat16", "@": "1.8"})],
    "MF040": [("qwen3", {"ffn_dim_multiplier": 1.3})],
    "MF041": [("qwen3_moe", {"mlp_only_layers": [0]}), ("qwen3_moe", {"hf:decoder_sparse_step": 2})],
    "MF042": [("qwen3_moe", {"first_k_dense_replace": 1}), ("qwen3_moe", {"moe_layer_freq": [0, 1]})],
    "MF043": [("qwen3_moe", {"moe_aux_loss_coeff": OUT, "router_aux_loss_coef": 0.01})],
    "MF044": [("deepseek_v3", {"scoring_func": "softmax", "moe_router_score_function": OUT})],
    "MF045": [("deepseek_v3", {"topk_group": 1})],
    "MF046": [("qwen3_moe", {"num_experts_per_tok": 1, "norm_topk_prob": True})],
    "MF047": [("qwen3_moe", {"/moe_config": {"expert_num": 4}})],
    "MF048": [("qwen3_moe", {"expert_model_parallel": 2})],
    "MF049": [("qwen3", {"hiden_dropout": 0.0}), ("deepseek_v3", {"hf:made_up": 1})],
    "MF050": [("qwen3", {"@": "1.7"}), ("deepseek_v3", {"pad_token_id": 7, "@": "1.6"})],
    "MF051": [("llama", {"/parallel_config.micro_batch_num": 4})],
    "MF052": [
        (
            "llama",
            {
                "/use_parallel": True,
                "/parallel_config.pipeline_stage": 2,
                "/runner_config.gradient_accumulation_steps": 2,
            },
        )
    ],
    "MF053": [
        ("llama", {"/use_parallel": True, "/parallel_config.model_parallel": 3}),
        ("pynative", {"/parallelism.tensor_parallel": 3}),
    ],
    "MF054": [("llama", {"/train_dataset.batch_size": 9})],
    "MF055": [("llama", {"/parallel.full_batch": True, "/parallel.dataset_strategy": [[1, 1]]})],
    "MF056": [("qwen3", {"/balanced_load": True})],
    "MF057": [("llama", {"/parallel_config.data_parallel": 2})],
    "MF058": [("llama", {"/recompute": True})],
    "MF059": [("qwen3", {"/use_legacy": OUT})],
    "MF060": [
        ("llama", {"/runner_config.gradient_accumulation_steps": 2}),
        (
            "qwen3",
            {
                "/runner_config.gradient_accumulation_steps": 2,
                "/use_parallel": True,
                "/parallel.parallel_mode": "DATA_PARALLEL",
            },
        ),
    ],
    "MF061": [
        ("deepseek_v3", {"/recompute_config.select_recompute": [1, 2], "@": "1.6"}),
        ("deepseek_v3", {"/recompute_config.mp_comm_recompute": False, "@": "1.6"}),
    ],
}
"""Code -> (base, changes): a key of the model's section; `hf:` of config.json; `/` a path outside; `@` the version."""

CASES = [
    pytest.param(code, base, changes, id=f"{code}-{base}-{number}")
    for code, cases in TRIGGERS.items()
    for number, (base, changes) in enumerate(cases)
]


def changed(base: str, changes: dict[str, Any]) -> tuple[dict[str, Any], str, dict[str, Any]]:
    """(document, version, config.json) of a base with changes."""
    document = copy.deepcopy(BASES[base])
    section = document["model"].get("model_config", document["model"])
    hf: dict[str, Any] = {}
    for key, value in changes.items():
        place, name = section, key
        if key == "@":
            continue
        if key.startswith("hf:"):
            place, name = hf, key[3:]
        elif key.startswith("/"):
            *path, name = key[1:].split(".")
            place = document
            for part in path:
                place = place[part]
        if value is OUT:
            del place[name]
        else:
            place[name] = value
    return document, changes.get("@", "1.9"), hf


def test_every_check_is_tested() -> None:
    assert list(TRIGGERS) == [check.code for check in CHECKS]
    assert len({check.consequence for check in CHECKS}) == len(CHECKS)


@pytest.mark.parametrize("base", BASES)
def test_the_bases_are_clean(base: str) -> None:
    assert lint(BASES[base], "1.9") == []


@pytest.mark.parametrize(("code", "base", "changes"), CASES)
def test_a_loss_is_found(code: str, base: str, changes: dict[str, Any]) -> None:
    document, version, hf = changed(base, changes)
    before = copy.deepcopy(document)
    found = [finding for finding in lint(document, version, hf) if finding.code == code]
    assert found
    assert document == before
    assert all(finding.consequence and finding.fix and finding.place for finding in found)
    if "@" in changes:
        newer, _, _ = changed(base, changes)
        assert code not in {finding.code for finding in lint(newer, "1.9", hf)}


@pytest.mark.parametrize(("code", "base", "changes"), CASES)
def test_a_loss_of_training_is_none_in_a_run(code: str, base: str, changes: dict[str, Any]) -> None:
    check = next(check for check in CHECKS if check.code == code)
    document, version, hf = changed(base, changes)
    document["run_mode"] = "predict"
    assert (code in {finding.code for finding in lint(document, version, hf)}) is not check.training


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.code)
def test_a_check_says_where_it_applies(check: Any) -> None:
    assert set(check.generations) <= {LEGACY, MCORE, PYNATIVE}
    assert {check.since, check.until} - {None} <= set(VERSIONS)
    assert check.source == "code" or check.source[0].isdigit()
    assert "{" not in check.consequence + check.fix
    assert not check.consequence.endswith(".")


def test_a_loss_in_config_json_says_so() -> None:
    document, version, hf = changed("qwen3", {"hf:rope_parameters": {"rope_theta": 1e6}})
    (found,) = lint(document, version, hf)
    assert found.place == "config.json: rope_parameters"


def test_what_a_config_json_may_say_is_no_loss() -> None:
    """Where pretrained_model_dir is named, and its config.json was not given, a missing key proves nothing."""
    for base, key in (("qwen3", "rope_theta"), ("qwen3", "pad_token_id"), ("deepseek_v3", "rotary_scaling_factor")):
        document, version, _ = changed(base, {key: OUT})
        assert lint(document, version)
        document["pretrained_model_dir"] = "/models/somewhere"
        assert not lint(document, version)
        assert lint(document, version, {"vocab_size": 128})


@pytest.mark.parametrize(
    "changes",
    [
        {"pad_token_id": 0},
        {"use_attn_mask_compression": True},
        {"use_eod_attn_mask_compression": True},
        {"/train_dataset.input_columns": ["input_ids", "labels", "loss_mask", "position_ids", "attention_mask"]},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_token_0_may_be_padding_or_be_kept_from_it(changes: dict[str, Any]) -> None:
    document, version, _ = changed("qwen3", {**changes, "@": "1.7"})
    assert "MF050" not in {finding.code for finding in lint(document, version)}


def test_what_is_said_again_where_it_is_read_is_not_lost() -> None:
    said = {"/recompute_config.select_recompute": True, "select_recompute": True, "@": "1.6"}
    document, version, _ = changed("deepseek_v3", said)
    assert "MF061" not in {finding.code for finding in lint(document, version)}


def test_losses_are_findings_of_validate(tmp_path: Path) -> None:
    text = emit(from_hf({**SIZES, "model_type": "qwen3", "head_dim": 16}), "1.9", MCORE)
    lines = [line for line in text.splitlines() if "hidden_dropout" not in line]
    for content, codes in ((text, []), ("\n".join(lines), ["MF001"]), ("seed: 1", [])):
        file = parse_yaml(content, tmp_path / "run.yaml")
        found = list(losses(YamlCase(file, version_named("1.9"), MCORE)))
        assert [finding.code for finding in found] == codes
        assert all(finding.message and finding.reason and finding.fix and finding.line for finding in found)


@pytest.mark.parametrize(("code", "base", "changes"), CASES)
def test_validate_says_every_loss_once(code: str, base: str, changes: dict[str, Any]) -> None:
    """A silent loss is a warning at least, but for what changes nothing but the arithmetic of batches."""
    document, version, hf = changed(base, changes)
    if hf:
        return  # which validate does not read
    found = validate_file(parse_yaml(json.dumps(document), Path("run.yaml")), version_named(version)).findings
    wanted = code if base == "pynative" else SAID_ALREADY.get(code, code)
    levels = {finding.level for finding in found if finding.code == wanted}
    assert levels
    assert (NOTE in levels) is (code in ("MF051", "MF052", "MF057", "MF060"))
    assert wanted == code or code not in {finding.code for finding in found}


def test_what_no_file_shows_is_listed() -> None:
    assert NOT_IN_A_FILE
    print(f"{len(CHECKS)} checks, {len(NOT_IN_A_FILE)} silent losses that no file shows")
