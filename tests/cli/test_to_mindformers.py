"""`convert --to mindformers@VERSION` and `export` of what it wrote, on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mindport.checkpoint.files import read
from mindport.checkpoint.folder import find_weights
from mindport.config.yaml_file import read_yaml

from ..checkpoint.test_mindformers import save
from .running import run_main

__all__ = ["save"]

Save = Callable[[str], Path]
Run = Callable[..., tuple[Any, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return lambda *args: run_main(monkeypatch, capsys, *args)


def weights(folder: Path) -> dict[str, bytes]:
    return {name: read(entry).tobytes() for name, entry in find_weights(folder).entries.items()}


def test_there_and_back(run: Run, save: Save, tmp_path: Path) -> None:
    source, out = save("llama"), tmp_path / "out"
    plan = tmp_path / "plan.yaml"
    plan.write_text("parallel: {data: 2, tensor: 2, sequence: true}\n")
    code, printed, _ = run(
        "convert", source, "-o", out, "--to", "mindformers@1.9", "--generation", "legacy",
        "--layout", "qkv_concat=True", "--vocab-size", 32, "--vocab-init", "zeros",
        "--settings", plan, "--set", "task=finetune", "--set", "schedule.peak=3e-4", "--json",
    )  # fmt: skip
    content = json.loads(printed)
    assert (code, content["target"]) == (0, "mindformers@1.9")
    assert content["yaml"] == [str(out / "finetune.yaml")]
    said = read_yaml(out / "finetune.yaml").values
    assert said["model"]["model_config"]["qkv_concat"] is True
    assert (said["parallel_config"]["data_parallel"], said["parallel_config"]["model_parallel"]) == (2, 2)
    assert said["lr_schedule"]["learning_rate"] == 3e-4
    assert run("export", out, "-o", tmp_path / "back")[0] == 0
    assert weights(tmp_path / "back") == weights(source)


def test_a_yaml_with_its_weights_goes_back(run: Run, save: Save, tmp_path: Path) -> None:
    source, out = save("qwen3"), tmp_path / "out"
    assert run("convert", source, "-o", out, "--to", "mindformers@1.8")[0] == 0
    theirs = tmp_path / "their.yaml"
    theirs.write_text(
        "\n".join(line for line in (out / "pretrain.yaml").read_text().splitlines() if not line.startswith("#"))
    )
    code, _, errors = run(
        "export", theirs, "--version", "1.8", "--weights", out / "model.safetensors", "-o", tmp_path / "back"
    )
    assert (code, errors) == (0, "")
    assert weights(tmp_path / "back") == weights(source)
    assert run("export", theirs, "-o", tmp_path / "config")[0] == 0
    assert [path.name for path in (tmp_path / "config").iterdir()] == ["config.json"]


def test_a_key_that_is_not_known_is_named(run: Run, save: Save, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run("convert", save("llama"), "-o", out, "--to", "mindformers@1.9")
    path = out / "pretrain.yaml"
    path.write_text(path.read_text().replace("    num_heads:", "    shiny: 3\n    num_heads:"))
    code, _, errors = run("export", path, "-o", tmp_path / "back")
    assert code == 0
    assert "shiny" in errors


def test_the_inference_layout_of_a_yaml(run: Run, save: Save, tmp_path: Path) -> None:
    source, out, served = save("qwen3"), tmp_path / "out", tmp_path / "served"
    run("convert", source, "-o", out, "--to", "mindformers@1.9")
    assert run("convert", out, "-o", served, "--to", "mindformers@1.9", "--inference")[0] == 0
    assert not list(served.glob("*.yaml"))
    there = (out / "pretrain.yaml", "--weights", served)
    assert run("export", *there, "--inference", "-o", tmp_path / "back")[0] == 0
    assert weights(tmp_path / "back") == weights(source)
    assert run("export", *there, "-o", tmp_path / "other")[0] == 0
    assert weights(tmp_path / "other") != weights(source)


def test_a_plan_is_shown_and_nothing_written(run: Run, save: Save, tmp_path: Path) -> None:
    code, printed, _ = run(
        "convert", save("qwen3"), "-o", tmp_path / "out", "--to", "mindformers@1.9", "--dry-run", "--json"
    )
    assert (code, json.loads(printed)["possible"]) == (0, True)
    assert not (tmp_path / "out").exists()


def test_a_folder_of_mindformers_weights_is_no_native_one(run: Run, save: Save, tmp_path: Path) -> None:
    source, out = save("llama"), tmp_path / "out"
    run("convert", source, "-o", out, "--to", "mindformers@1.9")
    for args in ((source, out), ("--load", out)):
        code, _, errors = run("verify", *args)
        assert code == 1
        assert "--engine mindformers" in errors
    assert run("verify", "--weights", out)[0] == 0


@pytest.mark.parametrize(
    ("code", "options"),
    [
        (2, ["--to", "mindformers"]),
        (2, ["--to", "mindspore@2.9"]),
        (1, ["--to", "mindformers@1.4"]),
        (2, ["--generation", "legacy"]),
        (2, ["--set", "seed=3"]),
        (1, ["--to", "mindformers@1.9", "--layout", "qkv_concat"]),
        (1, ["--to", "mindformers@1.9", "--layout", "qkv_concat=1"]),
        (1, ["--to", "mindformers@1.9", "--inference", "--set", "seed=3"]),
        (1, ["--to", "mindformers@1.9", "--set", "seed"]),
        (1, ["--to", "mindformers@1.9", "--set", "seed=many"]),
        (1, ["--to", "mindformers@1.9", "--settings", "nothere.yaml"]),
        (1, ["--to", "mindformers@1.3", "--format", "safetensors"]),
        (1, ["--to", "mindformers@1.9", "--generation", "mcore", "--set", "parallel.tensor=4"]),
    ],
)
def test_what_means_nothing_is_refused(run: Run, save: Save, tmp_path: Path, code: int, options: list[str]) -> None:
    source = save("llama")
    found, _, errors = run("convert", source, "-o", tmp_path / "out", *options)
    assert found == code
    assert errors.strip()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hf"]


def test_the_versions_are_listed(run: Run) -> None:
    targets = json.loads(run("list", "--json")[1])["targets"]
    assert {"name": "mindformers@1.9", "title": "MindFormers 1.9 (mcore, legacy, pynative)"} in targets
