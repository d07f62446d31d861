"""YAML is read as PyYAML reads it; what is hostile ends in one sentence, soon."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pytest

from mindport.config.yaml_file import DEEPEST, LIMIT, MOST_VALUES, parse_yaml, read_yaml
from mindport.errors import MindportError

PATH = Path("run.yaml")


def values(text: str) -> dict[str, object]:
    return parse_yaml(text, PATH).values


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("1e-3", "1e-3"),
        ("1.5e8", "1.5e8"),
        ("1.e-3", 0.001),
        ("1.0e+3", 1000.0),
        ("on", True),
        ("Off", False),
        ("y", "y"),
        ("~", None),
        ("", None),
        ("010", 8),
        ("0x1f", 31),
        ("0b11", 3),
        ("1_000", 1000),
        ("1:30", 90),
        ("-3", -3),
        (".5", 0.5),
        ("1.", 1.0),
        (".inf", math.inf),
        ("-.Inf", -math.inf),
        ("08", "08"),
        ("'1.0'", "1.0"),
        ('"on"', "on"),
        ("!!str 1", "1"),
        ("2001-01-01", "2001-01-01"),
    ],
)
def test_words_are_those_of_yaml_1_1(word: str, value: object) -> None:
    found = values(f"a: {word}\n")["a"]
    assert found == value
    assert type(found) is type(value)


def test_words_are_those_of_pyyaml() -> None:
    yaml = pytest.importorskip("yaml")
    signs, digits = (
        ("", "-", "+"),
        ("0", "7", "08", "1_0", "0x", "0xA", "0b1", "1.", ".1", "1.2", "1e5", "1.e+5", "1.5E-3", ".e", "5:6", "5:60"),
    )
    for word in (sign + digit for sign in signs for digit in digits):
        assert values(f"a: {word}")["a"] == yaml.safe_load(f"a: {word}")["a"], word


def test_aliases_and_merged_mappings() -> None:
    found = values("base: &b {x: 1, y: 2}\nother: {<<: *b, y: 3}\nlist: [*b, *b]\n")
    assert found["other"] == {"x": 1, "y": 3}
    assert found["list"] == [{"x": 1, "y": 2}] * 2


def test_lines_of_values() -> None:
    file = parse_yaml("a: 1\n\nb:\n  c: 2\n  d:\n    - 3\n    - e: 4\n", PATH)
    assert file.lines[("a",)] == 1
    assert file.lines[("b", "c")] == 4
    assert file.lines[("b", "d", 1, "e")] == 7


LAUGHTER = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)

HOSTILE = {
    "nothing": ("", "empty"),
    "only a comment": ("# nothing\n", "empty"),
    "a list": ("- 1\n", "mapping of keys"),
    "two documents": ("a: 1\n---\nb: 1\n", "several documents"),
    "an object of Python": ("a: !!python/object/apply:os.system [ls]\n", "python/object"),
    "a tag of its own": ("a: !Lambda x\n", "!Lambda"),
    "a billion laughs": (LAUGHTER, "too many values"),
    "an alias of itself": ("a: &a [*a]\n", "alias a"),
    "an alias of nothing": ("a: *b\n", "alias b"),
    "deep brackets": ("a: " + "[" * 100_000, "nested too deeply"),
    "deep indentation": ("\n".join(" " * n + "a:" for n in range(DEEPEST + 5)), "nested too deeply"),
    "a huge number": ("a: " + "9" * 5000, "too many digits"),
    "a key twice": ("a: 1\nb: 2\na: 3\n", "more than once"),
    "a tab": ("a:\n\tb: 1\n", "line 2"),
    "a mapping as a key": ("? {a: 1}\n: 2\n", "key"),
    "no end of brackets": ("a: [1, 2\n", "line"),
    "two colons": ("a: b: c\n", "line 1"),
    "a zero byte": ("a: \x00\n", "not a YAML file"),
    "an escape beyond Unicode": ('a: "\\UFFFFFFFF"\n', "escape"),
    "merged with a word": ("<<: 1\n", "<<"),
    "very many values": ("".join(f"k{n}: 1\n" for n in range(MOST_VALUES)), "too many values"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_end_in_one_sentence(name: str) -> None:
    text, said = HOSTILE[name]
    begun = time.perf_counter()
    with pytest.raises(MindportError) as raised:
        values(text)
    assert said in raised.value.message
    assert "\n" not in raised.value.message
    assert len(raised.value.message) < 300
    assert time.perf_counter() - begun < 20


def test_a_key_repeated_with_the_same_value_is_none_too_many() -> None:
    assert values("a: 1\na: 1\n") == {"a": 1}


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"a: \xff\n", "UTF-8"), (b"a: 1\n" + b"#" * LIMIT, "too large")],
    ids=["not UTF-8", "too large"],
)
def test_bytes_that_are_no_yaml(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_bytes(content)
    with pytest.raises(MindportError, match=said):
        read_yaml(path)


def test_a_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb:\r\n  c: x\r\n")
    assert read_yaml(path).values == {"a": 1, "b": {"c": "x"}}


def test_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(MindportError, match="does not exist"):
        read_yaml(tmp_path / "run.yaml")
