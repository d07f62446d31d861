"""Keys where older articles have them are named, moved, or refused, one by one and with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mindport.config.hf import from_hf
from mindport.config.mindformers.emit import emit
from mindport.config.mindformers.misplaced import belongs_to, model_strays, strays
from mindport.config.mindformers.read import read
from mindport.config.mindformers.upgrade import upgrade
from mindport.config.mindformers.upgrade_work import KEPT, LEFT, UpgradeStep
from mindport.config.mindformers.validate import validate_file
from mindport.config.yaml_file import YamlFile, parse_yaml
from mindport.targets.mindformers import version_named
from mindport.targets.mindformers.versions import LEGACY

from .test_lint import SIZES

ARTICLE = """\
runner_config:
  epochs: 2
  batch_size: 4
  optimizer: FusedAdamWeightDecay
  learning_rate: 1.e-5
  weight_decay: 0.1
  loss_scale_value: 1024
  warmup_steps: 100
  num_parallel_workers: 8
lr_schedule:
  type: cosine
  warmup_steps: 7
train_dataset:
  seed: 1
parallel_config:
  model_parallel: 2
  recompute: True
  full_batch: True
  device_num: 8
parallel:
  parallel_mode: 1
recompute_config:
  select_recompute: False
optimizer:
  betas: [0.9, 0.95]
callbacks:
  - type: MFLossMonitor
  - type: CheckpointMointor
    prefix: x
"""


def parsed(text: str) -> YamlFile:
    return parse_yaml(text, Path("article.yaml"))


def test_an_older_article() -> None:
    """Besides, the optimizer has another name now."""
    done = upgrade(parsed(ARTICLE), version_named("1.9"))
    assert parsed(done.text).values == {
        "runner_config": {"epochs": 2, "batch_size": 4},
        "optimizer": {"betas": [0.9, 0.95], "type": "AdamW", "weight_decay": 0.1},
        "lr_schedule": {"type": "cosine", "warmup_steps": 7, "learning_rate": 1e-5},
        "train_dataset": {"seed": 1, "num_parallel_workers": 8},
        "recompute_config": {"select_recompute": False, "recompute": True},
        "parallel": {"parallel_mode": 1, "full_batch": True},
        "parallel_config": {"model_parallel": 2},
        "callbacks": [{"type": "MFLossMonitor"}, {"type": "CheckpointMonitor", "prefix": "x"}],
    }
    by_path: dict[str, list[UpgradeStep]] = {}
    for step in done.steps:
        by_path.setdefault(step.path, []).append(step)
    assert by_path["runner_config.learning_rate"][0].to == "lr_schedule.learning_rate"
    assert by_path["runner_config.optimizer"][0].to == "optimizer.type"
    assert "recomputation has a section" in by_path["parallel_config.recompute"][0].note
    # Refused: the schedule has its own, and the others are nowhere at home. They are in a comment at the end.
    assert [step.action for step in by_path["runner_config.warmup_steps"]] == [LEFT, KEPT]
    assert "launcher" in by_path["parallel_config.device_num"][0].note
    assert "scale_sense" in by_path["runner_config.loss_scale_value"][0].note
    assert all(name in done.text for name in ("warmup_steps: 100", "device_num: 8", "loss_scale_value: 1024"))
    assert all(step.note for step in done.steps)
    again = upgrade(parsed(done.text), version_named("1.9"))
    assert again.text == done.text


def test_validate_names_them_with_their_place() -> None:
    found = {finding.path: finding for finding in validate_file(parsed(ARTICLE), version_named("1.9")).findings}
    assert found["runner_config.learning_rate"].fix == "lr_schedule.learning_rate"
    assert found["runner_config.optimizer"].fix == "optimizer.type"
    assert "launcher" in found["parallel_config.device_num"].reason
    assert "scale_sense" in found["runner_config.loss_scale_value"].reason
    assert not found["parallel_config.device_num"].fix
    assert "recomputation has a section" in found["parallel_config.recompute"].reason
    for section, key, home in strays(parsed(ARTICLE).values):
        assert found[f"{section}.{key}"].fix == home


def test_a_model_is_read_as_if_its_keys_were_in_their_place() -> None:
    text = emit(from_hf({**SIZES, "model_type": "llama"}), "1.9", LEGACY)
    line = next(line for line in text.splitlines() if line.startswith("    num_layers:"))
    moved = text.replace(f"{line}\n", "").replace("runner_config:\n", "runner_config:\n  num_layers: 2\n")
    assert model_strays(parsed(moved).values) == {"num_layers": 2}
    assert read(moved).transformer == read(text).transformer
    assert read(text.replace("runner_config:\n", "runner_config:\n  num_layers: 9\n")).transformer.num_layers == 2


@pytest.mark.parametrize(
    "values",
    [
        {"runner_config": None, "callbacks": None},
        {"callbacks": [3]},
        {"recompute_config": 1, "recompute": 1},
        {"runner_config": {1: 2, "optimizer": {"type": "x"}}, "model": 3},
    ],
)
def test_odd_documents_are_no_harm(values: dict[str, Any]) -> None:
    assert all(belongs_to(section, key) == home for section, key, home in strays(values))
    assert not model_strays(values)
