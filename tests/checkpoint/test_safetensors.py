"""The safetensors reader and writer against the safetensors package, and against files made to break them."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mindport.checkpoint import safetensors
from mindport.checkpoint.dtypes import ITEM_SIZE, numpy_dtype
from mindport.checkpoint.files import read
from mindport.errors import MindportError

reference = pytest.importorskip("safetensors")
numpy_format = pytest.importorskip("safetensors.numpy")

Tensors = dict[str, tuple[str, tuple[int, ...], bytes]]
"""Name -> dtype code, shape, content."""


def content_of(shape: tuple[int, ...], dtype: str, seed: int = 0) -> bytes:
    count = int(np.prod(shape)) * ITEM_SIZE[dtype]
    high = 2 if dtype == "BOOL" else 256
    return np.random.default_rng(seed).integers(0, high, count, dtype=np.uint8).tobytes()


def their_file(tensors: Tensors, metadata: dict[str, str] | None = None) -> bytes:
    """The file the package writes."""
    arrays = {
        name: np.frombuffer(content, numpy_dtype(dtype)).reshape(shape)
        for name, (dtype, shape, content) in tensors.items()
    }
    return bytes(numpy_format.save(arrays, metadata=metadata))


def their_reading(content: bytes) -> Tensors:
    """What the package reads."""
    return {
        name: (info["dtype"], tuple(info["shape"]), bytes(info["data"]))
        for name, info in reference.deserialize(content)
    }


def our_reading(path: Path) -> Tensors:
    found = {}
    for name, entry in safetensors.read_header(path).items():
        array = read(entry)
        assert array.shape == entry.shape
        assert array.dtype == numpy_dtype(entry.dtype)
        found[name] = (entry.dtype, entry.shape, array.tobytes())
    return found


def our_file(tensors: Tensors, metadata: dict[str, str] | None = None) -> bytes:
    head, offsets = safetensors.make_header([(n, d, s) for n, (d, s, _) in tensors.items()], metadata or {})
    whole = head + b"".join(content for _, _, content in tensors.values())
    for name, (_, _, content) in tensors.items():
        assert whole[offsets[name] : offsets[name] + len(content)] == content
    return whole


@st.composite
def tensor_sets(draw: st.DrawFn) -> Tensors:
    names = draw(st.lists(st.text(max_size=12).filter(lambda n: n != "__metadata__"), max_size=6, unique=True))
    shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)
    result: Tensors = {}
    for i, name in enumerate(names):
        dtype, shape = draw(st.sampled_from(sorted(ITEM_SIZE))), draw(shapes)
        result[name] = (dtype, shape, content_of(shape, dtype, i))
    return result


SCRATCH = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)


@given(tensor_sets())
@SCRATCH
def test_files_of_the_package_are_read(tmp_path: Path, tensors: Tensors) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(their_file(tensors, {"format": "pt", "注": "元"}))
    assert our_reading(path) == tensors


@given(tensor_sets())
@SCRATCH
def test_our_files_are_read_by_the_package(tmp_path: Path, tensors: Tensors) -> None:
    content = our_file(tensors, {"format": "ms"})
    assert their_reading(content) == tensors
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    assert our_reading(path) == tensors


@pytest.mark.parametrize("dtype", sorted(ITEM_SIZE))
def test_every_dtype(tmp_path: Path, dtype: str) -> None:
    tensors: Tensors = {
        "matrix": (dtype, (3, 2), content_of((3, 2), dtype)),
        "scalar": (dtype, (), content_of((), dtype, 1)),
        "empty": (dtype, (0, 7), b""),
    }
    for content in (their_file(tensors), our_file(tensors)):
        path = tmp_path / "x.safetensors"
        path.write_bytes(content)
        assert our_reading(path) == tensors == their_reading(content)


def test_unicode_names_and_an_empty_file(tmp_path: Path) -> None:
    tensors: Tensors = {"权重.0": ("F32", (1,), b"\0\0\0\0"), "poids é \n\t\u202e😀": ("U8", (2,), b"ab")}
    for content, wanted in ((their_file(tensors), tensors), (our_file({}), {})):
        path = tmp_path / "x.safetensors"
        path.write_bytes(content)
        assert our_reading(path) == wanted


def test_our_header_is_padded_to_eight_bytes() -> None:
    for length in range(9):
        head, _ = safetensors.make_header([("x" * length, "U8", (1,))], {})
        assert len(head) % 8 == 0


# --- hostile files -----------------------------------------------------------------------------------------------

F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def file_of(header: Any, data: bytes = b"\0" * 8, length: int | None = None) -> bytes:
    """A file with this header, given as an object, text or bytes."""
    if not isinstance(header, bytes):
        header = (header if isinstance(header, str) else json.dumps(header)).encode()
    return (len(header) if length is None else length).to_bytes(8, "little") + header + data


def refusal(tmp_path: Path, content: bytes) -> str:
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(MindportError) as error:
        safetensors.read_header(path)
    assert error.value.fix
    assert len(str(error.value)) < 600, "a message must fit the screen whatever the file holds"
    return error.value.message


WHOLE = file_of({"a": F32, "b": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [8, 16]}}, bytes(range(16)))


@pytest.mark.parametrize("size", range(len(WHOLE)))
def test_truncated_anywhere(tmp_path: Path, size: int) -> None:
    assert "truncated" in refusal(tmp_path, WHOLE[:size])


def test_the_whole_file_is_fine(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(WHOLE)
    assert our_reading(path)["b"] == ("BF16", (2, 2), bytes(range(8, 16)))


@pytest.mark.parametrize("claim", [2**63, 2**64 - 1, 8 << 30, 10**6, len(WHOLE) - 7])
def test_a_header_longer_than_the_file(tmp_path: Path, claim: int) -> None:
    assert "truncated" in refusal(tmp_path, file_of({"a": F32}, length=claim))


def test_a_huge_header_is_not_read_into_memory(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes((256 << 20).to_bytes(8, "little"))
    with path.open("r+b") as file:
        file.truncate(512 << 20)  # sparse: takes no space
    tracemalloc.start()
    try:
        with pytest.raises(MindportError, match="claims 268435456 bytes"):
            safetensors.read_header(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("begin", "end", "data", "reason"),
    [
        ([0, 8], [4, 12], 12, "overlaps"),
        ([0, 8], [0, 8], 8, "overlaps"),
        ([0, 8], [12, 20], 20, "leaves a gap"),
        ([4, 12], [12, 20], 20, "leaves a gap"),
        ([0, 8], [8, 16], 15, "truncated"),
        ([0, 8], [8, 16], 17, "1 bytes follow"),
        ([0, 8], [2**62, 2**62 + 8], 16, "leaves a gap"),
    ],
)
def test_tensors_must_fill_the_file(tmp_path: Path, begin: list[int], end: list[int], data: int, reason: str) -> None:
    header = {name: {**F32, "data_offsets": offsets} for name, offsets in (("a", begin), ("b", end))}
    assert reason in refusal(tmp_path, file_of(header, b"\0" * data))


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"3",
        b'"text"',
        b"\xef\xbb\xbf{}",
        b" {}",
        b'{"a": NaN',
        b'{"\xff": 1}',
        "{}".encode("utf-16"),
        b'{"a":1,"a":1}',
        b'{"a":' * 200_000,
        b'{"a":' + b"[" * 200_000,
        b'{"a":' + b"9" * 5000 + b"}",
        b'{"\\ud800":1}',
        b"{}{}",
        b"{'a': 1}",
    ],
)
def test_headers_that_are_not_json_objects(tmp_path: Path, header: bytes) -> None:
    assert "not valid JSON" in refusal(tmp_path, file_of(header))


def test_duplicate_names_and_duplicate_keys(tmp_path: Path) -> None:
    one = '{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'
    assert "not valid JSON" in refusal(tmp_path, file_of(f'{{"a":{one},"a":{one}}}'))
    assert "not valid JSON" in refusal(tmp_path, file_of('{"a":' + one[:-1] + ',"dtype":"F32"}}'))


@pytest.mark.parametrize(
    "info",
    [
        None,
        3,
        "F32",
        [],
        ["F32", [2], [0, 8]],
        {},
        {"dtype": "F32", "shape": [2]},
        {**F32, "more": 1},
        {**F32, "dtype": ["F32"]},
        {**F32, "dtype": None},
        {**F32, "dtype": {}},
        {**F32, "dtype": 32},
        {**F32, "shape": 2},
        {**F32, "shape": "2"},
        {**F32, "shape": {"2": 0}},
        {**F32, "shape": None},
        {**F32, "shape": [2.0]},
        {**F32, "shape": [True, 2]},
        {**F32, "shape": ["2"]},
        {**F32, "shape": [[2]]},
        {**F32, "shape": [-2]},
        {**F32, "shape": [-1, -2]},
        {**F32, "shape": [float("nan")]},
        {**F32, "shape": [2**64 + 2]},
        {**F32, "shape": [10**4000]},
        {**F32, "data_offsets": 8},
        {**F32, "data_offsets": [0]},
        {**F32, "data_offsets": [0, 8, 8]},
        {**F32, "data_offsets": [0, "8"]},
        {**F32, "data_offsets": [0.0, 8]},
        {**F32, "data_offsets": [-8, 0]},
        {**F32, "data_offsets": [0, 2**64]},
        {**F32, "data_offsets": {"0": 1, "8": 2}},
    ],
)
def test_tensors_described_wrongly(tmp_path: Path, info: Any) -> None:
    assert "not described as the format demands" in refusal(tmp_path, file_of({"a": info}))


@pytest.mark.parametrize(
    ("shape", "offsets", "reason"),
    [
        ([3], [0, 8], "a size other"),
        ([2], [8, 0], "a size other"),
        ([2], [0, 0], "a size other"),
        ([2**32, 2**32], [0, 8], "no array can have"),
        ([2**62, 4], [0, 8], "no array can have"),  # 2**66 bytes, 0 modulo 2**64
        ([0, 2**62], [0, 0], "no array can have"),
        ([1] * 33 + [2], [0, 8], "no array can have"),
        ([2**62] * 20_000, [0, 8], "no array can have"),  # the product would have 370,000 digits
    ],
)
def test_sizes_that_cannot_be(tmp_path: Path, shape: list[int], offsets: list[int], reason: str) -> None:
    header = {"a": {"dtype": "F32", "shape": shape, "data_offsets": offsets}}
    assert reason in refusal(tmp_path, file_of(header))


@pytest.mark.parametrize("dtype", ["F8_E8M0", "F4", "f32", "C64", "", "x" * 5000])
def test_dtypes_that_are_not_supported(tmp_path: Path, dtype: str) -> None:
    message = refusal(tmp_path, file_of({"a": {**F32, "dtype": dtype}}))
    assert "not supported" in message
    assert dtype[:10] in message


@pytest.mark.parametrize("metadata", [3, [], None, {"a": 1}, {"a": {"b": "c"}}])
def test_metadata_that_is_not_strings(tmp_path: Path, metadata: Any) -> None:
    assert "metadata" in refusal(tmp_path, file_of({"__metadata__": metadata, "a": F32}))


def test_a_name_does_not_flood_the_message(tmp_path: Path) -> None:
    assert "'xxx" in refusal(tmp_path, file_of({"x" * 100_000: {**F32, "shape": [3]}}))


@pytest.mark.parametrize("kind", ["missing", "a folder", "a name that is too long", "unreadable"])
def test_paths_that_cannot_be_read(tmp_path: Path, kind: str) -> None:
    path = {
        "missing": tmp_path / "x",
        "a folder": tmp_path,
        "a name that is too long": tmp_path / ("x" * 5000),
        "unreadable": Path("/proc/self/mem"),
    }[kind]
    if kind == "unreadable" and not path.exists():
        pytest.skip("needs Linux")
    with pytest.raises(MindportError):
        safetensors.read_header(path)


def test_a_file_that_shrinks_after_its_header_was_read(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(WHOLE)
    entry = safetensors.read_header(path)["b"]
    path.write_bytes(WHOLE[:-1])
    with pytest.raises(MindportError, match="changed while"):
        read(entry)
    path.unlink()
    with pytest.raises(MindportError, match="changed while"):
        read(entry)


VALID = our_file(
    {
        "a.weight": ("F32", (2, 3), content_of((2, 3), "F32")),
        "b": ("BF16", (4,), content_of((4,), "BF16")),
        "c": ("I64", (), content_of((), "I64")),
        "d": ("U8", (0,), b""),
    },
    {"format": "pt"},
)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["set", "insert", "delete", "repeat"]),
            st.integers(0, len(VALID) - 1),
            st.one_of(st.integers(0, 255), st.sampled_from(list(b'{}[]",:0123456789-.eE \\u'))),
        ),
        min_size=1,
        max_size=4,
    )
)
@example([("set", 7, 255)])
@example([("set", 0, 0)])
@settings(
    max_examples=600, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
def test_a_mutated_file_is_read_correctly_or_refused(tmp_path: Path, edits: list[tuple[str, int, int]]) -> None:
    content = bytearray(VALID)
    for kind, place, byte in edits:
        if kind == "set":
            content[place % len(content)] = byte
        elif kind == "insert":
            content.insert(place % len(content), byte)
        elif kind == "delete":
            del content[place % len(content)]
        else:
            content[place % len(content) : 0] = content[:byte]
    path = tmp_path / "x.safetensors"
    path.write_bytes(bytes(content))
    try:
        ours = our_reading(path)
    except MindportError:
        return
    assert ours == their_reading(bytes(content))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["dtype", "shape", "data_offsets", "a", "__metadata__"]), inner)
        ),
        max_leaves=12,
    )
)
@SCRATCH
def test_any_json_is_read_correctly_or_refused(tmp_path: Path, header: Any) -> None:
    content = file_of({"a": header} if not isinstance(header, dict) else header)
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    try:
        ours = our_reading(path)
    except MindportError:
        return
    assert ours == their_reading(content)
