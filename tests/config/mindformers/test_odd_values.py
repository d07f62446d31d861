"""Whatever a YAML holds, `validate` and `upgrade` end in findings, steps, or one sentence: never in a traceback."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mindport.config.mindformers.upgrade import upgrade
from mindport.config.mindformers.validate import validate_file
from mindport.config.yaml_file import parse_yaml
from mindport.errors import MindportError
from mindport.targets.mindformers import VERSIONS

from .test_validate import LEGACY, MCORE, PYNATIVE

ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    10**30,
    1.5,
    "",
    "text",
    "1e-3",
    [],
    [1],
    [[1, 2], [3]],
    [None],
    {},
    {"a": 1},
    {"type": 3},
    {"type": ["x"]},
    {1: 2},
]


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to every value."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*way, key)
        yield from places(item, (*way, key))


def put(content: Any, way: tuple[Any, ...], value: Any) -> Any:
    content = copy.deepcopy(content)
    part = content
    for key in way[:-1]:
        part = part[key]
    part[way[-1]] = value
    return content


def text_of(content: Any) -> str:
    """As YAML; a key that is no string stays one."""
    return json.dumps(content).replace('{"1": 2}', "{1: 2}")


RICH = {
    **MCORE,
    "moe_config": {"expert_num": 8},
    "monitor_config": {"stable_rank_config": {"format": 1}},
    "checkpoint": {"load_path": "x"},
    "swap_config": {"swap": False},
    "lr_schedule": {**MCORE["lr_schedule"], "warmup_ratio": 0.1, "warmup_steps": 1, "lr_end": 0.0},  # type: ignore[dict-item]
    "model": {
        "model_config": {
            **MCORE["model"]["model_config"],  # type: ignore[index]
            "offset": [0, 0],
            "num_experts": 8,
            "n_group": 2,
            "topk_group": 1,
            "num_experts_per_tok": 2,
            "max_position_embeddings": 4096,
            "use_attn_mask_compression": True,
            "window_size": [1, 1],
        }
    },
}


@pytest.mark.parametrize("base", [RICH, LEGACY, PYNATIVE], ids=["mcore", "legacy", "pynative"])
def test_one_odd_value_in_every_place(base: dict[str, Any]) -> None:
    said: list[str] = []
    versions = list(VERSIONS.values())
    choose = random.Random(0)
    for way in places(base):
        for value in choose.sample(ODD, 6):
            file = parse_yaml(text_of(put(base, way, value)), Path("run.yaml"))
            version = choose.choice(versions)
            try:
                validate_file(file, version, 8)
                upgrade(file, version)
            except MindportError as error:
                said.append(error.message)
    assert not [message for message in said if "\n" in message]


def test_sections_of_a_wrong_kind() -> None:
    said: list[str] = []
    for name in [*RICH, "recompute_config"]:
        for value in ODD:
            file = parse_yaml(text_of({**RICH, name: value}), Path("run.yaml"))
            for version in (VERSIONS["1.2"], VERSIONS["1.9"]):
                try:
                    validate_file(file, version)
                    upgrade(file, version)
                except MindportError as error:
                    said.append(error.message)
    assert not [message for message in said if "\n" in message]
