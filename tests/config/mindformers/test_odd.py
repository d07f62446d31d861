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
from mindport.plugin.families import FAMILIES, WHOLE_NUMBERS, PluginFamily, refusals

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


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.model_type)
def test_odd_values_in_a_config_of_the_plugin(family: PluginFamily) -> None:
    """What is no number is refused by name, with every other key there or not; nothing is raised."""
    base: dict[str, Any] = dict.fromkeys(WHOLE_NUMBERS, 64) | {"num_attention_heads": 8, "layer_types": []}
    for scaling in (None, {"type": "dynamic", "factor": 2.0}, {"rope_type": "linear", "factor": 2.0}):
        for left_out in (None, "head_dim", "seq_length", "max_position_embeddings"):
            given = {key: value for key, value in base.items() if key != left_out} | {"rope_scaling": scaling}
            for key in (*given, "rope_scaling"):
                for value in ODD:
                    found = [refusal for refusal in refusals(family, {**given, key: value}) if refusal.key == key]
                    assert all(str(refusal) for refusal in found)
                    assert found or value is None or type(value) is int or key in ("layer_types", "rope_scaling")
    for odd in ([["x"]], {"rope_type": ["linear"]}, {"rope_type": "linear", "factor": "2"}):
        assert any(refusal.key == "rope_scaling" for refusal in refusals(family, {**base, "rope_scaling": odd}))
