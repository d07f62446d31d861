"""`validate` and `upgrade` on the command line: what is printed, written, and how they end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from mindport.cli.app import app
from mindport.errors import MindportError

SOUND = """\
run_mode: train
trainer: {type: CausalLanguageModelingTrainer}
optimizer:
  type: AdamW
runner_wrapper: {type: MFTrainOneStepCell}
lr_schedule: {type: CosineWithWarmUpLR, learning_rate: 1.e-5}
runner_config: {batch_size: 2}
train_dataset: {data_loader: {type: MindDataset}}
parallel_config:
  data_parallel: 4   # all of them
  model_parallel: 2
  use_seq_parallel: True
use_parallel: True
model: {model_config: {type: LlamaConfig, num_layers: 2, vocab_size: 512}}
"""


def run(*arguments: Path | str) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "run.yaml"
    path.write_text(SOUND)
    return path


def test_a_sound_file(file: Path) -> None:
    ended = run("validate", file, "--devices", "8")
    assert ended.exit_code == 0, ended.output
    assert "MindFormers 1.9" in ended.stdout
    assert "0 errors, 0 warnings, 0 notes; 8 devices, 8 sequences in a step" in ended.stdout


def test_every_problem_is_printed(file: Path) -> None:
    file.write_text(
        SOUND.replace("vocab_size: 512", "vocab_size: 511").replace("data_parallel: 4 ", "data_parallel: 3 ")
    )
    ended = run("validate", file, "--devices", "8", "--version", "1.3.2")
    assert isinstance(ended.exception, MindportError)
    assert "MindFormers 1.3" in ended.stdout
    assert "error devices (line 10, parallel_config.data_parallel)" in ended.stdout
    assert "Works: data_parallel = 4" in ended.stdout
    assert "warning vocab-tp" in ended.stdout
    ended = run("validate", file, "--devices", "8", "--json")
    assert ended.exit_code == 1
    content = json.loads(ended.stdout)
    assert [finding["code"] for finding in content["findings"]] == ["devices", "vocab-tp"]
    assert content["error"]["fix"]


def test_warnings_alone_are_no_failure(file: Path) -> None:
    file.write_text(SOUND.replace("vocab_size: 512", "vocab_size: 511"))
    ended = run("validate", file)
    assert ended.exit_code == 0
    assert "0 errors, 1 warnings" in ended.stdout


@pytest.mark.parametrize("verb", [("validate",), ("upgrade", "--to", "1.9")])
def test_what_cannot_be_read(verb: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("a: !!python/name:os.system\n")
    ended = run(verb[0], path, *verb[1:])
    assert isinstance(ended.exception, MindportError)
    assert list(tmp_path.iterdir()) == [path]


def test_chinese(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDPORT_LANG", "zh")
    file.write_text(SOUND.replace("vocab_size: 512", "vocab_size: 511"))
    assert "vocab_size 511 不是张量并行数 2 的倍数。" in run("validate", file).stdout


def test_an_upgrade_is_written_beside_the_file(file: Path) -> None:
    ended = run("upgrade", file, "--to", "1.1")
    assert ended.exit_code == 0, ended.output
    written = file.with_name("run_mindformers_1.1.yaml")
    assert "type: FP32StateAdamWeightDecay" in written.read_text()
    assert "# all of them" in written.read_text()
    assert file.read_text() == SOUND
    for part in ("optimizer.type", "renamed", "FP32StateAdamWeightDecay", "1.2", str(written)):
        assert part in ended.stdout


def test_nothing_is_replaced_unless_it_may_be(file: Path) -> None:
    before = file.read_bytes()
    assert isinstance(run("upgrade", file, "--to", "1.1", "-o", file).exception, MindportError)
    assert file.read_bytes() == before
    assert run("upgrade", file, "--to", "1.1", "-o", file, "--overwrite").exit_code == 0
    assert run("upgrade", file, "--to", "1.9", "-o", file, "--overwrite").exit_code == 0
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == ["run.yaml"]


def test_what_is_left_fails_but_is_written(file: Path, tmp_path: Path) -> None:
    file.write_text(SOUND.replace("optimizer:\n  type: AdamW\n", "optimizer: {type: FusedAdamWeightDecay}\n"))
    out = tmp_path / "new.yaml"
    ended = run("upgrade", file, "--to", "1.9", "-o", out, "--json")
    assert ended.exit_code == 1
    content = json.loads(ended.stdout)
    assert [step["action"] for step in content["steps"]] == ["left"]
    assert content["output"] == str(out)
    assert out.exists()


def test_a_file_without_changes(file: Path) -> None:
    ended = run("upgrade", file, "--to", "2.0")
    assert ended.exit_code == 0
    assert "Nothing had to be changed." in ended.stdout
    assert file.with_name("run_mindformers_2.0.yaml").read_text() == SOUND
