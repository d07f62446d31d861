"""`mindport verify --engine mindformers`: from a Hugging Face folder to the verdict, in processes of their own."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mindport.checkpoint.convert import convert
from mindport.checkpoint.goal import Goal
from mindport.checkpoint.options import Options
from mindport.checkpoint.policy import parse_policy
from mindport.cli.app import app
from mindport.errors import MindportError
from mindport.targets.mindformers import LEGACY, MCORE
from mindport.verify.gates import STRICT

from .models import Case, note
from .test_legacy import SHAPE
from .test_mcore import DENSE, EXPERTS, LATENT, LOGITS, STEP
from .test_multi_token import module_of, stored

pytestmark = pytest.mark.conformance

MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": (LEGACY, "LlamaConfig", {**SHAPE, "pad_token_id": 5}),
    "qwen3": (MCORE, "Qwen3Config", DENSE),
    "qwen3_moe": (MCORE, "Qwen3MoeConfig", {**EXPERTS, "router_aux_loss_coef": 0.3}),
    "deepseek_v3": (MCORE, "DeepseekV3Config", {**LATENT, "num_hidden_layers": 2, "num_nextn_predict_layers": 1}),
}
"""Graph -> generation, class of transformers' config, values."""


def source(name: str, folder: Path) -> Case:
    """A Hugging Face model; with a module for multi-token prediction, where it declares one."""
    import transformers

    _, hf, values = MODELS[name]
    config = getattr(transformers, hf)(**values)
    if not values.get("num_nextn_predict_layers"):
        return Case.of(folder, config)
    config._attn_implementation = "eager"
    module = module_of(config)
    return Case.of(folder, config, stored(module, config.num_hidden_layers), shared_head=True)


@pytest.mark.parametrize("name", MODELS)
def test_a_converted_folder_passes(name: str, tmp_path: Path) -> None:
    generation, _, _ = MODELS[name]
    model, folder = source(name, tmp_path / "hf").folder, tmp_path / "mf"
    files = "ckpt" if generation == LEGACY else "safetensors"  # the mcore generation knows the one alone
    for arguments in (
        ["convert", model, "-o", folder, "--to", "mindformers@1.9", "--generation", generation, "--format", files],
        ["verify", model, folder, "--engine", "mindformers", "--json"],
    ):
        ended = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert ended.exit_code == 0, ended.output
    proof = json.loads(ended.stdout)
    assert proof["passed"]
    assert proof["graph"] == name
    assert len(proof["parity"]) == 3
    for parity in proof["parity"]:
        assert note(f"verify {name}: logits", parity["max_abs"]) <= LOGITS
        assert parity["top1"] == 1.0
    step = proof["step"]
    for key in ("loss", "gradient_norm"):
        assert note(f"verify {name}: {key} of the first step", abs(step[key] - step[f"reference_{key}"])) <= STEP
    assert "SingleProcessStep" in proof["stand_ins"]
    assert ("FlashAttentionScore" in proof["stand_ins"]) == (generation == MCORE)
    assert ("Experts" in proof["stand_ins"]) == (name in ("qwen3_moe", "deepseek_v3"))
    assert proof["carried"] == (name == "deepseek_v3")
    assert ("moe_aux_loss_coeff" in {override["key"] for override in proof["overrides"]}) == (name == "qwen3_moe")


def test_what_is_wrong_is_found_in_the_graph(tmp_path: Path) -> None:
    """Past every check of files: the other layout, another rope base, weights and settings that do not fit."""
    from mindport.verify.mindformers import engine, execution, reference
    from mindport.verify.mindformers.folder import runnable

    model = source("qwen3", tmp_path / "hf").folder
    folders: dict[str, tuple[Options, dict[str, bool]]] = {
        "mf": (Options(), {}),
        "other": (Options(shard_bytes=100_000), {"use_interleaved_weight_layout_mlp": False}),
        "rounded": (Options(policy=parse_policy(["bf16"])), {}),
    }
    for name, (options, layout) in folders.items():
        convert(model, tmp_path / name, options, Goal("1.9", tmp_path / name, MCORE, layout=layout))
    folder, exchange = tmp_path / "mf", tmp_path / "exchange"
    exchange.mkdir()
    checked = runnable(model, folder)
    request = engine.Request(model, folder, None, STRICT, False, 60)
    job = engine._job(request, checked, step=False)
    reference.compute_reference(exchange, job)

    def worst(changed: Any) -> float:
        execution.execute(exchange, changed)
        assert engine.read_answer(exchange, "graph")["wrong"] == []
        return max(parity.max_abs for parity in engine._parity(exchange, "python"))

    assert worst(job) <= LOGITS
    other = sorted((tmp_path / "other").glob("*.safetensors"))
    assert len(other) > 1
    in_other_layout = replace(job, weights=tuple(map(str, other)))
    assert worst(in_other_layout) > 1000 * LOGITS
    assert worst(replace(in_other_layout, yaml=str(tmp_path / "other" / "pretrain.yaml"))) <= LOGITS
    rounded = replace(job, weights=(str(tmp_path / "rounded" / "model.safetensors"),))
    assert 1e-3 < worst(rounded) < 0.2
    edited = tmp_path / "edited.yaml"
    edited.write_text((folder / "pretrain.yaml").read_text().replace("rope_theta: 54321.0", "rope_theta: 10000.0"))
    assert worst(replace(job, yaml=str(edited))) > 1000 * LOGITS

    execution.execute(exchange, replace(job, overrides={**job.overrides, "num_hidden_layers": 3}))
    wrong = dict(engine.read_answer(exchange, "graph")["wrong"])
    assert len(wrong) == 8
    assert wrong["decoder.layers.2.mlp.linear_fc2.weight"].startswith("is not in the files, shape")
    execution.execute(exchange, replace(job, overrides={**job.overrides, "num_hidden_layers": 1, "vocab_size": 133}))
    wrong = dict(engine.read_answer(exchange, "graph")["wrong"])
    assert wrong["decoder.layers.1.mlp.linear_fc2.weight"].startswith("is not in the graph, shape")
    assert wrong["output_layer.weight"] == "has shape (131, 48) in the files, (133, 48) in the graph"
    assert len(wrong) == 10
    edited.write_text((folder / "pretrain.yaml").read_text().replace("sink_size: 1", "sink_sise: 1"))
    with pytest.raises(MindportError, match=r"MindFormers stops where it reads edited\.yaml: .*sink_sise"):
        execution.execute(exchange, replace(job, yaml=str(edited)))
    with pytest.raises(MindportError, match="MindFormers stops where it builds the model"):
        execution.execute(exchange, replace(job, overrides={**job.overrides, "num_attention_heads": 7}))


def test_files_and_yaml_that_disagree_fail_before_anything_is_run(tmp_path: Path) -> None:
    model = source("qwen3", tmp_path / "hf").folder
    for name, layout in {"mf": [], "other": ["--layout", "use_interleaved_weight_layout_mlp=false"]}.items():
        arguments = ["convert", str(model), "-o", str(tmp_path / name), "--to", "mindformers@1.9", *layout]
        assert CliRunner().invoke(app, arguments).exit_code == 0
    folder = tmp_path / "mf"

    def said() -> str:
        ended = CliRunner().invoke(app, ["verify", str(model), str(folder), "--engine", "mindformers"])
        assert isinstance(ended.exception, MindportError)
        return ended.exception.message

    yaml = (folder / "pretrain.yaml").read_text()
    (folder / "pretrain.yaml").write_text(yaml.replace("rope_theta: 54321.0", "rope_theta: 10000.0"))
    assert "rotary_base is 10000.0, not 54321.0" in said()
    (folder / "pretrain.yaml").write_text(yaml)
    for name in ("model.safetensors", "mindport_manifest.json"):
        shutil.copyfile(tmp_path / "other" / name, folder / name)
    assert "differs from the source in decoder.layers.0.mlp.linear_fc1.weight" in said()
    shutil.copyfile(tmp_path / "other" / "ms_config.json", folder / "ms_config.json")
    assert "use_interleaved_weight_layout_mlp is True, not False" in said()
