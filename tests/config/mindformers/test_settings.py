"""Run settings from files and from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindport.config.mindformers.settings import RunSettings
from mindport.config.mindformers.settings_file import gathered
from mindport.errors import MindportError


def test_later_files_and_single_settings_count_more(tmp_path: Path) -> None:
    first, plan = tmp_path / "run.yaml", tmp_path / "plan.json"
    first.write_text("seed: 3\nparallel:\n  tensor: 2\n  data: 8\nschedule: {peak: 3e-4}\n")
    plan.write_text('{"parallel": {"tensor": 4, "offset": [[1, -1]]}}')
    found = gathered([first, plan], ["parallel.data=16", "optimizer.betas=[0.9, 0.999]", "schedule.warmup_steps=7"])
    assert found == {
        "seed": 3,
        "parallel": {"tensor": 4, "data": 16, "offset": [[1, -1]]},
        "schedule": {"peak": "3e-4", "warmup_steps": 7},
        "optimizer": {"betas": [0.9, 0.999]},
    }
    settings = RunSettings.from_mapping(found)
    assert settings.schedule.peak == 3e-4
    assert settings.parallel.offset == [[1, -1]]


@pytest.mark.parametrize("single", ["", "seed", "=3", "a..b=1", "parallel.=1", "seed=[", "seed=!!python/name:os.x 1"])
def test_what_is_no_setting_is_refused(single: str) -> None:
    with pytest.raises(MindportError):
        gathered([], [single])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"sede": 1}, "sede"),
        ({"parallel": {"tp": 1}}, "parallel.tp"),
        ({"parallel": {"tensor": "4"}}, "parallel.tensor"),
        ({"parallel": {"tensor": True}}, "parallel.tensor"),
        ({"parallel": 4}, "parallel"),
        ({"schedule": {"peak": "fast"}}, "schedule.peak"),
        ({"task": "train"}, "task"),
        ({"precision": {"compute": "fp8"}}, "precision.compute"),
    ],
)
def test_unknown_names_and_wrong_types_are_refused(values: dict[str, object], words: str) -> None:
    with pytest.raises(MindportError) as caught:
        RunSettings.from_mapping(values)
    assert words in caught.value.message
    assert caught.value.fix


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [
        ("parallel", "tensor", 0),
        ("parallel", "data", -2),
        ("parallel", "gradient_aggregation", 0),
        ("", "epochs", 0),
        ("", "seed", -1),
        ("", "checkpoint_interval", 0),
        ("data", "samples", 0),
        ("schedule", "peak", "nan"),
        ("schedule", "peak", float("inf")),
        ("schedule", "peak", 0),
        ("schedule", "total_steps", 0),
        ("optimizer", "max_grad_norm", 0),
        ("optimizer", "eps", -1e-8),
        ("optimizer", "betas", []),
        ("optimizer", "betas", [0.9, 0.95, 0.99]),
        ("optimizer", "betas", ["a", 0.95]),
        ("optimizer", "betas", [0.9, 1]),
        ("optimizer", "betas", [0.9, float("nan")]),
    ],
)
def test_values_out_of_bounds_are_refused(section: str, name: str, value: object) -> None:
    values = {name: value}
    with pytest.raises(MindportError, match=f"{section}.*{name}") as caught:
        RunSettings.from_mapping({section: values} if section else values)
    assert caught.value.fix


@pytest.mark.parametrize("norm", [2, "2e0", 2.0])
def test_a_whole_number_is_a_number_where_there_may_be_none(norm: object) -> None:
    found = RunSettings.from_mapping({"optimizer": {"max_grad_norm": norm}}).optimizer.max_grad_norm
    assert repr(found) == "2.0"
