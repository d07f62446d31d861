"""A file goes to another version and back; every change is reported, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindport.config.mindformers.known import in_span, section_keys, strict_sections
from mindport.config.mindformers.upgrade import upgrade
from mindport.config.mindformers.upgrade_work import (
    ACTIONS,
    ADDED,
    DROPPED,
    KEPT,
    LEFT,
    MOVED,
    RENAMED,
    RESTORED,
    UpgradeStep,
)
from mindport.config.mindformers.validate import validate_file
from mindport.config.yaml_edit import CannotEditError, Editor
from mindport.config.yaml_file import YamlFile, parse_yaml, read_yaml
from mindport.errors import MindportError
from mindport.targets.mindformers import VERSIONS, version_named

ROOT = Path(__file__).parents[3]

OLD = """\
# A file as of 1.1.
seed: 0
auto_tune: False   # was never used
run_mode: 'train'

trainer:
  type: CausalLanguageModelingTrainer
  model_name: 'llama2_7b'

# optimizer
optimizer:
  type: FP32StateAdamWeightDecay   # states in fp32
  beta1: 0.9
  beta2: 0.95
  eps: 1.e-8
lr_schedule:
  type: CosineWithWarmUpLR
  learning_rate: 5.e-5

train_dataset: &train_dataset
  data_loader:
    type: MindDataset
    dataset_dir: ""
  input_columns: ["input_ids"]
train_dataset_task:
  type: CausalLanguageModelDataset
  dataset_config: *train_dataset

# callbacks
callbacks:
  - type: MFLossMonitor
  - type: CheckpointMointor
    prefix: "llama2_7b"   # of the files
  - type: ObsMonitor

runner_config:
  epochs: 2
  batch_size: 4
runner_wrapper:
  type: MFTrainOneStepCell
  scale_sense: 1.0
parallel_config:
  data_parallel: 8
  model_parallel: 1

model:
  model_config:
    type: LlamaConfig
    num_layers: 32   # of 7B
  arch:
    type: LlamaForCausalLM"""
"""Without a line end at the end, as several shipped files are."""

MCORE = """\
run_mode: train
use_legacy: False
use_legacy_format: False
trainer: {type: CausalLanguageModelingTrainer}
optimizer:
  type: AdamW
  betas: [0.9, 0.95]
lr_schedule: {type: CosineWithWarmUpLR, learning_rate: 1.e-5}
runner_wrapper: {type: MFTrainOneStepCell}
train_dataset: {data_loader: {type: MindDataset}}
# where to start
load_checkpoint: ''
checkpoint:
  load_path: '/path/to/weights'   # a Hugging Face folder
  save_max: 3
monitor_config:
  monitor_on: True
  health_checkpoint:
    a: 1

    # within
    b: 2
model:
  model_config:
    model_type: deepseek_v3
    architectures: DeepseekV3ForCausalLM
    num_hidden_layers: 8
    moe_router_load_balancing_type: sub_seq_aux_loss
    window_size: [1, 2]
"""


def file(text: str) -> YamlFile:
    return parse_yaml(text, Path("run.yaml"))


def carried(text: str, to: str, start: str | None = None) -> tuple[str, list[UpgradeStep]]:
    done = upgrade(file(text), version_named(to), version_named(start) if start else None)
    return done.text, done.steps


def errors(text: str, version: str) -> set[str]:
    return {f.code for f in validate_file(file(text), version_named(version)).findings if f.level == "error"}


def of(steps: list[UpgradeStep], action: str) -> dict[str, str]:
    return {step.path: step.to for step in steps if step.action == action}


def test_an_old_file_for_the_newest_version() -> None:
    text, steps = carried(OLD, "2.1")
    assert of(steps, RENAMED) == {"callbacks.1.type": "CheckpointMonitor", "optimizer.type": "AdamW"}
    assert of(steps, ADDED) == {"optimizer.betas": "[0.9, 0.95]"}
    assert set(of(steps, DROPPED)) == {"auto_tune", "optimizer.beta1", "optimizer.beta2", "callbacks.2"}
    versions = {step.path: step.version for step in steps}
    assert versions["callbacks.1.type"] == "1.2"
    assert versions["optimizer.type"] == "1.6"
    assert versions["auto_tune"] == "1.6"
    values = file(text).values
    assert values["optimizer"] == {"type": "AdamW", "betas": [0.9, 0.95], "eps": 1e-8}
    assert [part["type"] for part in values["callbacks"]] == ["MFLossMonitor", "CheckpointMonitor"]
    assert errors(text, "2.1") == set()
    assert errors(OLD, "2.1") == {"component-version"}
    for comment in ("# A file as of 1.1.", "# optimizer", "# of the files", "# states in fp32", "# was never used"):
        assert comment in text


@pytest.mark.parametrize("start", VERSIONS)
@pytest.mark.parametrize("to", ["1.0", "1.3", "1.5", "1.9", "2.1"])
def test_there_and_back_is_the_same_file(start: str, to: str) -> None:
    """Byte for byte, from whatever the file is in one version, to another version and back."""
    first, _ = carried(OLD, start)
    there, _ = carried(first, to)
    back, steps = carried(there, start)
    assert back == first
    assert LEFT not in {step.action for step in steps}


@pytest.mark.parametrize("to", ["1.6", "1.7", "1.8", "1.9", "2.0", "2.1"])
def test_an_mcore_file_there_and_back(to: str) -> None:
    there, _ = carried(MCORE, to)
    back, _ = carried(there, "1.9")
    assert back == MCORE
    assert carried(there, to) == (there, [])


def test_going_back_to_a_version_that_knows_less() -> None:
    text, steps = carried(MCORE, "1.7")
    assert of(steps, RENAMED) == {"use_legacy_format": "ckpt_use_legacy_format"}
    assert of(steps, ADDED) == {"load_checkpoint": "'/path/to/weights'"}
    assert set(of(steps, DROPPED)) == {
        "checkpoint",
        "monitor_config.health_checkpoint",
        "model.model_config.window_size",
    }
    values = file(text).values
    assert values["load_checkpoint"] == "/path/to/weights"
    assert values["monitor_config"] == {"monitor_on": True}
    _, steps = carried(text, "1.9")
    assert set(of(steps, RESTORED)) == {
        "load_checkpoint",
        "checkpoint",
        "monitor_config.health_checkpoint",
        "model.model_config.window_size",
    }


def test_words_that_changed() -> None:
    text, steps = carried(MCORE, "1.6")
    path = "model.model_config.moe_router_load_balancing_type"
    assert of(steps, RENAMED)[path] == "aux_loss"
    assert file(text).values["model"]["model_config"]["moe_router_load_balancing_type"] == "aux_loss"


def test_a_default_that_changed_is_written_down_where_the_version_is_known() -> None:
    key = "use_contiguous_weight_layout"
    old = MCORE.replace("use_legacy_format: False\n", "").split("# where")[0] + MCORE[MCORE.index("model:") :]
    old = old.replace("sub_seq_aux_loss", "aux_loss").replace("    window_size: [1, 2]\n", "")
    assert key not in carried(old, "1.7")[0]
    text, steps = carried(old, "1.7", "1.6")
    assert of(steps, ADDED) == {f"model.model_config.{key}_attention": "True"}
    assert carried(text, "1.6", "1.7")[0] == old


def test_only_changes_on_the_way_are_made() -> None:
    text = OLD.replace("CheckpointMointor", "CheckpointMonitor")
    assert "CheckpointMointor" in carried(text, "1.1")[0]
    assert "CheckpointMointor" not in carried(text, "1.1", "1.0")[0]


def test_adam_before_there_was_adamw() -> None:
    text, _ = carried(
        MCORE.replace("use_legacy: False\n", "").replace("model_type: deepseek_v3", "type: LlamaConfig"), "1.1"
    )
    assert file(text).values["optimizer"] == {"type": "FP32StateAdamWeightDecay", "beta1": 0.9, "beta2": 0.95}


def test_keys_in_the_wrong_section_are_moved() -> None:
    text = OLD.replace("  batch_size: 4\n", "  batch_size: 4\n  weight_decay: 0.1  # as in the article\n")
    text = text.replace("  model_parallel: 1\n", "  model_parallel: 1\n  recompute: True\n")
    there, steps = carried(text, "1.9")
    assert of(steps, MOVED) == {
        "runner_config.weight_decay": "optimizer.weight_decay",
        "parallel_config.recompute": "recompute_config.recompute",
    }
    values = file(there).values
    assert values["optimizer"]["weight_decay"] == 0.1
    assert values["recompute_config"] == {"recompute": True}
    assert "weight_decay: 0.1  # as in the article" in there
    assert errors(there, "1.9") == set()


def test_a_section_within_another_is_moved_out() -> None:
    within = "  model_parallel: 1\n  recompute:   # of activations\n    recompute: True\n    mp_comm_recompute: False\n"
    text = OLD.replace("  model_parallel: 1\n", within)
    there, steps = carried(text, "1.9")
    assert of(steps, MOVED) == {"parallel_config.recompute": "recompute_config"}
    assert file(there).values["recompute_config"] == {"recompute": True, "mp_comm_recompute": False}
    assert "recompute_config:   # of activations\n  recompute: True" in there
    assert errors(there, "1.9") == set()
    taken, steps = carried(text + "\nrecompute_config:\n  recompute: False\n", "1.9")
    assert set(of(steps, LEFT)) == {"parallel_config.recompute"}
    assert file(taken).values["recompute_config"] == {"recompute": False}
    assert "mp_comm_recompute: False" in taken


def test_a_place_that_is_taken_is_not_overwritten() -> None:
    text = OLD.replace("  batch_size: 4\n", "  batch_size: 4\n  eps: 1.e-3\n")
    there, steps = carried(text, "1.9")
    assert file(there).values["optimizer"]["eps"] == 1e-8
    assert "runner_config.eps" in of(steps, LEFT)
    assert "#   eps: 1.e-3" in there


def test_unknown_keys_are_kept_in_a_marked_block() -> None:
    text = OLD.replace("  model_parallel: 1\n", "  model_parallel: 1\n  bogus:   # mine\n    - 1\n    - {a: b}\n")
    there, steps = carried(text, "1.9")
    assert of(steps, KEPT) == {"parallel_config.bogus": ""}
    assert "bogus" not in file(there).values["parallel_config"]
    block = there[there.index("# ---- mindport") :]
    for line in ("# parallel_config:", "#   bogus:   # mine", "#     - 1", "#     - {a: b}"):
        assert line in block
    assert errors(there, "1.9") == set()
    again, steps = carried(there, "1.9")
    assert again == there
    assert not steps


def test_what_is_written_in_brackets_is_left_and_said() -> None:
    text = OLD.replace(
        "  type: FP32StateAdamWeightDecay   # states in fp32\n  beta1: 0.9\n  beta2: 0.95\n  eps: 1.e-8\n", ""
    ).replace("optimizer:\n", "optimizer: {type: FP32StateAdamWeightDecay, beta1: 0.9}\n")
    there, steps = carried(text, "1.9")
    assert set(of(steps, LEFT)) == {"optimizer.type"}
    assert file(there).values["optimizer"]["type"] == "FP32StateAdamWeightDecay"


def test_what_is_referred_to_is_left() -> None:
    text = OLD.replace("auto_tune: False", "auto_tune: &never False").replace(
        "  epochs: 2", "  epochs: 2\n  sink_mode: *never"
    )
    there, steps = carried(text, "1.9")
    assert of(steps, LEFT) == {"auto_tune": ""}
    assert file(there).values["auto_tune"] is False


def test_models_that_are_gone_are_refused() -> None:
    bloom = OLD.replace("LlamaConfig", "BloomConfig").replace("LlamaForCausalLM", "BloomLMHeadModel")
    with pytest.raises(MindportError, match="no BloomLMHeadModel"):
        carried(bloom, "1.9")
    assert carried(bloom, "1.3")[1]
    with pytest.raises(MindportError, match=r"mcore models, which MindFormers 1\.5"):
        carried(MCORE, "1.5")
    with pytest.raises(MindportError, match="no mcore graph of telechat3"):
        carried(MCORE.replace("deepseek_v3", "telechat3"), "1.8")


PYNATIVE = """\
model:
  model_type: qwen3
parallelism:
  tensor_parallel: 2
  hsdp_shard_size: 4   # of 8
profiler:
  enable_profiler: True
  stop_step: 3
monitor:
  tensorboard:
    tensorboard_dir: "./tb"
"""


def test_a_pynative_file() -> None:
    text, steps = carried(PYNATIVE, "2.1")
    assert of(steps, RENAMED) == {
        "profiler.enable_profiler": "enable_profiling",
        "profiler.stop_step": "end_step",
        "monitor.tensorboard.tensorboard_dir": "output_dir",
    }
    assert set(of(steps, DROPPED)) == {"parallelism.hsdp_shard_size"}
    assert errors(text, "2.1") == set()
    assert carried(text, "1.9")[0] == PYNATIVE


def test_windows_line_ends_stay() -> None:
    windows = OLD.replace("\n", "\r\n")
    there, _ = carried(windows, "1.9")
    assert "\n" not in there.replace("\r\n", "")
    assert carried(there, "1.1")[0] == windows


def test_every_action_has_a_test() -> None:
    assert set(ACTIONS) == {RENAMED, MOVED, DROPPED, RESTORED, ADDED, KEPT, LEFT}


def test_an_edit_that_breaks_the_file_is_not_made() -> None:
    editor = Editor(file("a: &x 1\nb: *x\n"))
    with pytest.raises(CannotEditError):
        editor.take(("a",))
    with pytest.raises(CannotEditError):
        editor.rename(("a",), "b")
    assert editor.text == "a: &x 1\nb: *x\n"


def _shipped() -> list[Path]:
    """The files that a MindFormers of this machine brings, and those of the corpus."""
    found = sorted((ROOT.parent / "shared/corpus/training").glob("mindformers_yaml*.yaml"))
    return found + sorted((ROOT / ".venv-mindformers").glob("lib/python3*/site-packages/configs/**/*.yaml"))


@pytest.mark.parametrize("path", _shipped(), ids=lambda path: path.stem)
def test_shipped_files_go_back_and_forth(path: Path) -> None:
    """Files of 1.9, to every version that has their model, and back."""
    source = read_yaml(path)
    if not {"model", "trainer"} <= set(source.values):
        pytest.skip("not for a run")
    general = section_keys("general_config") or {}
    stale = [key for key in source.values if key in general and not in_span(VERSIONS["1.9"], general[key])]
    before = validate_file(source, VERSIONS["1.9"])
    for version in VERSIONS.values():
        try:
            there = upgrade(source, version)
        except MindportError:
            continue
        back = upgrade(parse_yaml(there.text, path), VERSIONS["1.9"])
        if not stale:
            assert back.text == source.text
        found = validate_file(parse_yaml(there.text, path), version)
        known = {f.code for f in before.findings} | {"component-version", "family-training"}
        strict = [f for f in found.findings if f.level == "error" and f.path.split(".")[0] in strict_sections()]
        assert {f.code for f in strict} <= known
