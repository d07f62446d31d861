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
