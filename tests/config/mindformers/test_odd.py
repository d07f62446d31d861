"""Any value in any place of a YAML ends in findings, a reading, or one clear refusal."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from ruamel.yaml import YAML

from mindport.config.mindformers.lint import lint
from mindport.config.mindformers.misplaced import model_strays
from mindport.config.mindformers.read import read
from mindport.errors import MindportError

from .test_lint import BASES

ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    3,
    10**30,
    1.5,
    float("nan"),
    "",
    "x",
    "1e-3",
    [],
    [3],
    ["a"],
    {},
    {"a": 1},
    [[1]],
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield (*path, key)
        yield from places(part, (*path, key))


def with_odd(document: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(document)
    place: Any = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return changed


@pytest.mark.parametrize("base", BASES)
def test_odd_values(base: str) -> None:
    rng = random.Random(base)
    writer = YAML(typ="safe", pure=True)
    for path in places(BASES[base]):
        for value in rng.sample(ODD, 3):
            document = with_odd(BASES[base], path, value)
            model_strays(document)
            try:
                lint(document)
            except MindportError as error:
                said = error.fix
                assert said
    # Reading is slower: some places of the model's section are enough.
    paths = [path for path in places(BASES[base]) if path[0] == "model"]
    for path in rng.sample(paths, min(20, len(paths))):
        document = with_odd(BASES[base], path, rng.choice(ODD))
        try:
            read(dumped(writer, document))
        except MindportError as error:
            said = error.message
            assert said


def dumped(writer: YAML, document: dict[str, Any]) -> str:
    text = StringIO()
    writer.dump(document, text)
    return text.getvalue()
