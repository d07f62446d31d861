"""Keys where older articles have them are moved, or refused, one by one and with the reason."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from mindport.config.mindformers.relocate import CALLBACKS, MOVES, relocate

ARTICLE: dict[str, Any] = {
    "runner_config": {
        "epochs": 2,
        "batch_size": 4,
        "optimizer": "FusedAdamWeightDecay",
        "learning_rate": 1e-5,
        "weight_decay": 0.1,
        "loss_scale_value": 1024,
        "warmup_steps": 100,
    },
    "lr_schedule": {"type": "cosine", "warmup_steps": 7},
    "parallel_config": {"model_parallel": 2, "recompute": True, "full_batch": True, "device_num": 8},
    "callbacks": [{"type": "MFLossMonitor"}, {"type": "CheckpointMointor", "prefix": "x"}],
}


def test_an_older_article() -> None:
    before = copy.deepcopy(ARTICLE)
    result, report = relocate(ARTICLE, "1.9")
    assert before == ARTICLE
    assert result == {
        "runner_config": {"epochs": 2, "batch_size": 4},
        "optimizer": {"type": "FusedAdamWeightDecay", "weight_decay": 0.1},
        "lr_schedule": {"type": "cosine", "warmup_steps": 7, "learning_rate": 1e-5},
        "recompute_config": {"recompute": True},
        "parallel": {"full_batch": True},
        "parallel_config": {"model_parallel": 2},
        "callbacks": [{"type": "MFLossMonitor"}, {"type": "CheckpointMonitor", "prefix": "x"}],
    }
    moved = {entry.source: entry.target for entry in report}
    assert moved["runner_config.learning_rate"] == "lr_schedule.learning_rate"
    assert moved["parallel_config.recompute"] == "recompute_config.recompute"
    assert [source for source, target in moved.items() if not target] == [
        "runner_config.warmup_steps",  # the schedule has its own
        "parallel_config.device_num",
        "runner_config.loss_scale_value",
    ]
    assert all(entry.reason and entry.value for entry in report)


def test_names_follow_the_version() -> None:
    result, (entry,) = relocate({"callbacks": [{"type": "CheckpointMonitor"}]}, "1.1")
    assert result["callbacks"] == [{"type": "CheckpointMointor"}]
    assert entry.value == "'CheckpointMonitor'"
    assert relocate({"callbacks": [{"type": "CheckpointMointor"}]}, "1.1")[1] == []


def test_what_is_in_its_place_stays() -> None:
    result, report = relocate(ARTICLE, "1.9")
    assert relocate(result, "1.9") == (result, [])
    assert report


@pytest.mark.parametrize(
    "document",
    [{"runner_config": None, "callbacks": None}, {"callbacks": [3]}, {"recompute_config": 1, "recompute": 1}],
)
def test_odd_documents_are_no_harm(document: dict[str, Any]) -> None:
    relocate(document)


def test_no_key_has_two_ways() -> None:
    assert len({(move.section, move.key) for move in MOVES}) == len(MOVES)
    assert len(CALLBACKS) == len({new for new, _ in CALLBACKS.values()})
