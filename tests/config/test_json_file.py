"""JSON as people and tools write it, and JSON that is broken in every way."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mindport.config import json_file
from mindport.config.json_file import parse_json, read_json_object, write_json
from mindport.errors import MindportError


def written(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (b"{}", {}),
        (b'{"a": 1}', {"a": 1}),
        (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
        (b'{\r\n  "a": 1\r\n}\r\n', {"a": 1}),
        (b' \t\n{"a": 1}\n\n', {"a": 1}),
        ('{"权重": "é😀"}'.encode(), {"权重": "é😀"}),
        (b'{"a": "\\ud83d\\ude00"}', {"a": "😀"}),
        (b'{"a": Infinity, "b": -Infinity}', {"a": math.inf, "b": -math.inf}),
        (b'{"a": 1e400}', {"a": math.inf}),
        (b'{"a": 1, "a": 1}', {"a": 1}),
        (b'{"a": NaN, "b": [{"c": 1, "c": 1}], "a": NaN, "a": NaN}'.replace(b"NaN", b"2"), {"a": 2, "b": [{"c": 1}]}),
        (b'{"a": ' + b"[" * 60 + b"]" * 60 + b"}", {"a": json.loads("[" * 60 + "]" * 60)}),
    ],
)
def test_what_is_read(tmp_path: Path, content: bytes, wanted: Any) -> None:
    assert read_json_object(written(tmp_path, content)) == wanted


def test_bare_nan(tmp_path: Path) -> None:
    assert math.isnan(read_json_object(written(tmp_path, b'{"a": NaN}'))["a"])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"   ",
        b"{",
        b'{"a": 1',
        b'{"a": 1,}',
        b"{'a': 1}",
        b'{"a": CONFIG_SIZE}',
        b'{"a": 1} // comment',
        b'{"a": 1}{"b": 2}',
        b'{"a": "\xff"}',
        b'{"a": "\xed\xa0\x80"}',
        '{"a": 1}'.encode("utf-16"),
        b'{"a": "\\ud800"}',
        b'{"\\udfff": 1}',
        b'{"a": ' + b"9" * 5000 + b"}",
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a": ' * 100_000,
        b'{"a": ' + b"[" * 70 + b"]" * 70 + b"}",
        b'{"a": ' * 70 + b"1" + b"}" * 70,
        b"\x00" * 100,
        b"\x1f\x8b\x08compressed",
    ],
)
def test_what_is_not_json(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(MindportError, match="is not valid JSON: ") as error:
        read_json_object(written(tmp_path, content))
    assert error.value.fix
    assert "config.json" in error.value.message
    assert len(str(error.value)) < 600


@pytest.mark.parametrize("content", [b"[]", b"null", b"3", b'"text"', b"true", b"NaN"])
def test_what_is_not_an_object(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(MindportError, match="does not hold a JSON object"):
        read_json_object(written(tmp_path, content))


def test_where_the_mistake_is(tmp_path: Path) -> None:
    with pytest.raises(MindportError, match=r"line 3 column 8"):
        read_json_object(written(tmp_path, b'{\n  "a": 1,\n  "b": oops\n}'))


@pytest.mark.parametrize(
    ("content", "key"),
    [
        (b'{"a": 1, "a": 2}', "a"),
        (b'{"a": 1, "b": 2, "a": 1, "b": 3}', "b"),
        (b'{"a": 1, "a": true}', "a"),
        (b'{"a": 1, "a": 1.0}', "a"),
        (b'{"a": null, "a": 0}', "a"),
        (b'{"a": [1], "a": [2]}', "a"),
        (b'{"x": {"y": [{"rope_theta": 1e4, "rope_theta": 1e6}]}}', "rope_theta"),
        (b'{"a": {"c": 1}, "a": {"c": 2}, "a": {"c": 1}}', "a"),
        (b'{"\\u0061": 1, "a": 2}', "a"),
    ],
)
def test_a_key_with_two_values(tmp_path: Path, content: bytes, key: str) -> None:
    with pytest.raises(MindportError, match=rf"config\.json gives '{key}' more than once, with different values") as e:
        read_json_object(written(tmp_path, content))
    assert e.value.fix


@pytest.mark.parametrize(
    ("content", "key"),
    [
        (b'{"hidden_size": CONFIG_SIZE}', "hidden_size"),
        (b'{\n  "a": 1,\n  "b"  :\n   oops\n}', "b"),
        (b'{"a": {"b c": nope}}', "b c"),
        (b'{"a": }', "a"),
        (b'{"a":', "a"),
        (b'{"q\\"uote": x}', 'q\\\\"uote'),
    ],
)
def test_whose_value_is_not_json(tmp_path: Path, content: bytes, key: str) -> None:
    with pytest.raises(MindportError, match=rf"the value of {key}: Expecting value: line \d+ column \d+"):
        read_json_object(written(tmp_path, content))


def test_a_mistake_that_is_no_value_names_no_key(tmp_path: Path) -> None:
    with pytest.raises(MindportError) as error:
        read_json_object(written(tmp_path, b'{"a": 1 "b": 2}'))
    assert "value of" not in error.value.message


@pytest.mark.parametrize("name", ["missing.json", "", "x" * 5000, "nul\0"])
def test_what_is_not_a_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(MindportError, match="does not exist"):
        read_json_object(tmp_path / name)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with path.open("wb") as file:
        file.truncate(json_file.LIMIT + 1)
    with pytest.raises(MindportError, match="too large"):
        read_json_object(path)


def test_a_file_that_cannot_be_read() -> None:
    path = Path("/proc/self/mem")
    if not path.exists():
        pytest.skip("needs Linux")
    with pytest.raises(MindportError, match="could not be read: Input/output error"):
        read_json_object(path)


SCRATCH = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), VALUES, max_size=4))
@SCRATCH
def test_what_is_written_is_read_back(tmp_path: Path, value: dict[str, Any]) -> None:
    path = tmp_path / "x.json"
    write_json(path, value)
    assert read_json_object(path) == value


@given(st.binary(max_size=40) | st.text(max_size=40).map(str.encode) | VALUES.map(json.dumps).map(str.encode))
@SCRATCH
def test_any_bytes_are_an_object_or_an_error(tmp_path: Path, content: bytes) -> None:
    try:
        value = read_json_object(written(tmp_path, content))
    except MindportError:
        return
    assert value == json.loads(content.decode("utf-8-sig")) or "NaN" in content.decode()


def test_options_reach_the_parser() -> None:
    assert parse_json(b'{"a": 1}', object_pairs_hook=list) == [("a", 1)]
