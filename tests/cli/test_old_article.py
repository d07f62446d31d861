"""A YAML as older articles have it, on the command line: what becomes of every key out of place, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from mindport.cli.app import app
from mindport.config.yaml_file import read_yaml

ARTICLE = Path(__file__).parents[1] / "config" / "mindformers" / "old_article.yaml"

OPTIMIZER, RATE, AGAIN = "the optimizer has", "the learning rate has", "recomputation has"
WRAPPER, PARALLEL = "wrapper of a training step", "how MindSpore carries out parallelism"

MOVED = {
    "runner_config.optimizer": ("optimizer.type", OPTIMIZER),
    "runner_config.learning_rate": ("lr_schedule.learning_rate", RATE),
    "runner_config.weight_decay": ("optimizer.weight_decay", OPTIMIZER),
    "runner_config.beta1": ("optimizer.beta1", OPTIMIZER),
    "runner_config.beta2": ("optimizer.beta2", OPTIMIZER),
    "runner_config.eps": ("optimizer.eps", OPTIMIZER),
    "runner_config.use_clip_grad": ("runner_wrapper.use_clip_grad", WRAPPER),
    "runner_config.max_grad_norm": ("runner_wrapper.max_grad_norm", WRAPPER),
    "parallel_config.full_batch": ("parallel.full_batch", PARALLEL),
    "parallel_config.recompute": ("recompute_config.recompute", AGAIN),
    "parallel_config.select_recompute": ("recompute_config.select_recompute", AGAIN),
    "parallel_config.mp_comm_recompute": ("recompute_config.mp_comm_recompute", AGAIN),
}
"""Key -> where it belongs, and why."""

REFUSED = {
    "runner_config.warmup_ratio": "its place is taken",  # by another value, in lr_schedule
    "runner_config.loss_scale_value": "scale_sense of runner_wrapper",
    "parallel_config.device_num": "the launcher sets the number of devices",
}
"""Key that has no place -> why; it is kept as a comment."""

RENAMED = {
    "callbacks.0.type": ("MFLossMonitor", "no version has MFLossMointor"),
    "callbacks.1.type": ("CheckpointMonitor", "it was CheckpointMointor"),
    "callbacks.2.type": ("SummaryMonitor", "no version has SummaryMointor"),
    "callbacks.3.type": ("ObsMonitor", "no version has ObsMointor"),
    "optimizer.type": ("AdamW", "it was FusedAdamWeightDecay"),
}
DROPPED = {
    **dict.fromkeys(("auto_tune", "filepath_prefix", "autotune_per_step", "callbacks.3"), "no longer has it"),
    **dict.fromkeys(("optimizer.beta1", "optimizer.beta2"), "AdamW does not take it"),
}
ADDED = {"optimizer.betas": ("[0.9, 0.95]", "what AdamW takes")}


def answer(*arguments: Path | str) -> tuple[int, dict[str, Any]]:
    ended = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    return ended.exit_code, json.loads(ended.stdout)


def test_validate_tells_of_each_key_its_place_and_why() -> None:
    code, content = answer("validate", ARTICLE, "--version", "1.9", "--devices", "8")
    assert code == 1
    found = {finding["path"]: finding for finding in content["findings"]}
    lines = ARTICLE.read_text(encoding="utf-8").splitlines()
    for path, (home, why) in MOVED.items():
        finding = found.pop(path)
        assert (finding["code"], finding["level"], finding["fix"]) == ("misplaced-key", "error", home)
        assert why in finding["reason"]
        assert lines[finding["line"] - 1].strip().startswith(path.rpartition(".")[2])
    ratio = found.pop("runner_config.warmup_ratio")
    assert (ratio["code"], ratio["fix"]) == ("misplaced-key", "lr_schedule.warmup_ratio")
    for path in ("runner_config.loss_scale_value", "parallel_config.device_num"):
        finding = found.pop(path)
        assert (finding["code"], finding["level"], finding["fix"]) == ("unknown-key", "error", "")
        assert REFUSED[path] in finding["reason"]
    for number, right in enumerate(("MFLossMonitor", "CheckpointMonitor", "SummaryMonitor", "")):
        finding = found.pop(f"callbacks[{number}].type")
        assert (finding["level"], finding["fix"]) == ("error", right)
        assert finding["reason"]
    assert {path: finding["level"] for path, finding in found.items()} == dict.fromkeys(
        ("auto_tune", "filepath_prefix", "autotune_per_step"), "note"
    )


def test_upgrade_moves_them_or_refuses_them_one_by_one(tmp_path: Path) -> None:
    out = tmp_path / "new.yaml"
    code, content = answer("upgrade", ARTICLE, "--to", "1.9", "--output", out)
    assert code == 1  # one thing is left to be decided: which of two warm-ups is meant
    steps: dict[str, list[dict[str, str]]] = {}
    for step in content["steps"]:
        steps.setdefault(step["path"], []).append(step)

    def taken(path: str, action: str, why: str, to: str = "") -> None:
        step = next(step for step in steps[path] if step["action"] == action)
        assert why in step["note"]
        assert to in ("", step["to"])
        steps[path].remove(step)

    for path, (home, why) in MOVED.items():
        taken(path, "moved", why, home)
    for path, why in REFUSED.items():
        taken(path, "kept", why)
    for path, (name, why) in RENAMED.items():
        taken(path, "renamed", why, name)
    for path, why in DROPPED.items():
        taken(path, "dropped", why)
    for path, (value, why) in ADDED.items():
        taken(path, "added", why, value)
    taken("runner_config.warmup_ratio", "left", "lr_schedule.warmup_ratio says something else already")
    assert not [step for left in steps.values() for step in left]

    values = read_yaml(out).values
    assert values["runner_config"] == {"epochs": 2, "batch_size": 4, "sink_mode": True, "sink_size": 2}
    assert values["optimizer"] == {"type": "AdamW", "betas": [0.9, 0.95], "weight_decay": 0.1, "eps": 1e-8}
    assert values["lr_schedule"]["learning_rate"] == 1e-5
    assert values["lr_schedule"]["warmup_ratio"] == 0.05
    assert values["recompute_config"] == {"recompute": True, "select_recompute": False, "mp_comm_recompute": True}
    assert [callback["type"] for callback in values["callbacks"]] == [
        "MFLossMonitor",
        "CheckpointMonitor",
        "SummaryMonitor",
    ]
    text = out.read_text(encoding="utf-8")
    for kept in (
        "warmup_ratio: 0.03",
        "loss_scale_value: 65536",
        "device_num: 8",
        "# mindport until 1.5: - type: ObsMonitor",
    ):
        assert kept in text
    for comment in ("# peak", "# semi-automatic", "# logs, checkpoints and strategies", "# -1 = all of them"):
        assert comment in text


def test_what_was_upgraded_is_sound(tmp_path: Path) -> None:
    out = tmp_path / "new.yaml"
    answer("upgrade", ARTICLE, "--to", "1.9", "--output", out)
    code, content = answer("validate", out, "--version", "1.9", "--devices", "8")
    assert (code, content["findings"]) == (0, [])
    code, content = answer("upgrade", out, "--to", "1.9", "--output", tmp_path / "again.yaml")
    assert (code, content["steps"]) == (0, [])
    assert (tmp_path / "again.yaml").read_bytes() == out.read_bytes()


def test_in_the_version_that_spelled_it_so_the_spelling_stays(tmp_path: Path) -> None:
    out = tmp_path / "new.yaml"
    answer("upgrade", ARTICLE, "--to", "1.1", "--output", out)
    assert [callback["type"] for callback in read_yaml(out).values["callbacks"]] == [
        "MFLossMonitor",
        "CheckpointMointor",
        "SummaryMonitor",
        "ObsMonitor",
    ]
