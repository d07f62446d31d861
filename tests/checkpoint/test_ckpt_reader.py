"""The `.ckpt` reader against MindSpore's own files and schema, and against files made to break it."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mindport.checkpoint import ckpt
from mindport.checkpoint.ckpt_reader import read_ckpt
from mindport.checkpoint.dtypes import ITEM_SIZE, numpy_dtype
from mindport.checkpoint.files import read
from mindport.errors import MindportError

from .hostile import CLAIMS, mutations, read_or_refused

Tensors = dict[str, tuple[str, tuple[int, ...], bytes]]
"""Name -> dtype code, shape, content."""

SCRATCH = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)


@pytest.fixture(scope="module")
def ms() -> Any:
    """MindSpore."""
    return pytest.importorskip("mindspore")


def content_of(shape: tuple[int, ...], dtype: str, seed: int = 0) -> bytes:
    count = int(np.prod(shape, dtype=int)) * ITEM_SIZE[dtype]
    return np.random.default_rng(seed).integers(0, 2 if dtype == "BOOL" else 256, count, dtype=np.uint8).tobytes()


def file_of(tensors: Tensors, limit: int = ckpt.SLICE_BYTES) -> bytes:
    return b"".join(
        head + content[start : start + length]
        for name, (dtype, shape, content) in tensors.items()
        for head, start, length in ckpt.slices(name, dtype, shape, limit)
    )


def our_reading(path: Path, content: bytes) -> Tensors:
    path.write_bytes(content)
    return {name: (e.dtype, e.shape, read(e).tobytes()) for name, e in read_ckpt(path).items()}


@st.composite
def tensor_sets(draw: st.DrawFn) -> Tensors:
    names = draw(st.lists(st.text(max_size=12), max_size=6, unique=True))
    shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)
    result: Tensors = {}
    for i, name in enumerate(names):
        dtype, shape = draw(st.sampled_from(sorted(ckpt.TYPE_NAMES))), draw(shapes)
        result[name] = (dtype, shape, content_of(shape, dtype, i))
    return result


@given(tensor_sets(), st.integers(1, 40))
@SCRATCH
def test_what_the_writer_writes_is_read(tmp_path: Path, tensors: Tensors, limit: int) -> None:
    assert our_reading(tmp_path / "x.ckpt", file_of(tensors, limit)) == tensors


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("unit", [1, 512 * 1024])
def test_files_of_mindspore(
    ms: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: int, checksum: bool
) -> None:
    from mindspore.train import serialization

    monkeypatch.setattr(serialization, "SLICE_SIZE", unit)  # in units of 1024 bytes
    wanted: Tensors = {}
    parameters = []
    for number, dtype in enumerate(ckpt.TYPE_NAMES):
        for shape in ((3, 5), (), (40, 31)):
            array = np.frombuffer(content_of(shape, dtype, number), numpy_dtype(dtype)).reshape(shape)
            if dtype == "BF16":
                array = np.arange(array.size).astype(array.dtype).reshape(shape)
                tensor = ms.Tensor(array.astype(np.float32)).astype(ms.bfloat16)
            else:
                tensor = ms.Tensor(array)
            name = f"层.{dtype}.{shape}"
            wanted[name] = (dtype, shape, array.tobytes())
            parameters.append({"name": name, "data": ms.Parameter(tensor, name="p")})
    path = tmp_path / "x.ckpt"
    more = {"epoch_num": 3, "lr": 0.5, "done": True, "note": "文本"}
    ms.save_checkpoint(parameters, str(path), append_dict=more, crc_check=checksum)
    found = our_reading(tmp_path / "y.ckpt", path.read_bytes())
    assert (b"crc_num" in path.read_bytes()) == checksum
    assert found.pop("epoch_num") == ("I64", (), (3).to_bytes(8, "little"))
    assert found.pop("lr") == ("F32", (), np.float32(0.5).tobytes())
    assert found.pop("done") == ("BOOL", (), b"\1")
    assert found == wanted
    large = read_ckpt(path)["层.F64.(40, 31)"]
    assert (len(large.pieces) > 5) == (unit == 1)


def test_slices_of_unequal_length_and_old_scalars(tmp_path: Path) -> None:
    """As MindSpore cuts an array by rows, and as it once wrote a scalar: with the one dim 0."""
    head = b"".join(h for h, _, _ in ckpt.slices("w", "U8", (5,), 5))
    parts = [head[: -len(b"\x1a\x05")] for _ in range(2)]
    assert parts[0] == parts[1]
    content = (
        message("w", "UInt8", (5,), b"abc") + message("w", "UInt8", (5,), b"de") + message("s", "Int8", (0,), b"x")
    )
    assert our_reading(tmp_path / "x", content) == {"w": ("U8", (5,), b"abcde"), "s": ("I8", (), b"x")}


def test_contents_are_not_read(tmp_path: Path) -> None:
    """Two parameters of 4 GB each in a sparse file, and 20,000 small ones."""
    path = tmp_path / "x.ckpt"
    with path.open("wb") as file:
        for name in ("a", "b"):
            for head, _, length in ckpt.slices(name, "F32", (1 << 30,)):
                file.write(head)
                file.seek(length, 1)
        for number in range(20_000):
            (head, _, length), *_ = ckpt.slices(f"layer.{number}.weight", "F32", (2, 3))
            file.write(head + bytes(length))
    tracemalloc.start()
    try:
        begin = time.monotonic()
        entries = read_ckpt(path)
        assert time.monotonic() - begin < 20
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()
    assert len(entries) == 20_002
    assert entries["a"].nbytes == 4 << 30
    assert len(entries["a"].pieces) == 8


# --- hostile files -----------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number: int, content: bytes, claim: int | None = None) -> bytes:
    return varint(number << 3 | 2) + varint(len(content) if claim is None else claim) + content


def message(name: str | bytes, kind: str, dims: tuple[int, ...], content: bytes) -> bytes:
    tag = name if isinstance(name, bytes) else name.encode()
    tensor = b"".join(varint(8) + varint(n) for n in dims) + field(2, kind.encode()) + field(3, content)
    return field(1, field(1, tag) + field(2, tensor))


def refusal(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(MindportError) as error:
        read_ckpt(path)
    assert error.value.fix
    assert len(str(error.value)) < 600 + len(str(path))
    return error.value.message


GOOD = message("w", "Float32", (2,), bytes(8))
KIND, CONTENT = field(2, b"Float32"), field(3, bytes(8))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (GOOD + message("v", "Int8", (1,), b"a") + GOOD, "'w' occurs twice"),
        (GOOD + GOOD, "a size other than its shape says"),
        (GOOD + message("w", "Int32", (2,), bytes(8)), "'w' occurs twice"),
        (message("w", "UInt8", (4,), b"ab") + message("w", "UInt8", (2, 2), b"cd"), "'w' occurs twice"),
        (message("w", "Float32", (3,), bytes(8)), "a size other"),
        (message("w", "Float32", (), bytes(8)), "a size other"),
        (message("w", "Float32", (0,), bytes(8)), "a size other"),
        (message("w", "Float32", (2**62, 4), b""), "no array can have"),
        (message("w", "Float32", (0, 2**62), b""), "no array can have"),
        (message("w", "Float32", (2**63,), b""), "malformed"),
        (message("w", "Float32", (2**64 - 1,), b""), "malformed"),
        (message("w", "Float32", (1,) * 40, bytes(4)), "malformed"),
        (message("w", "Int4", (2,), b"a"), "dtype 'Int4', which is not supported"),
        (message("w", "x" * 5000, (2,), b"a"), "not supported"),
        (message(b"\xff\xfe", "Float32", (2,), bytes(8)), "not UTF-8"),
        (message("w" * 70_000, "Float32", (2,), bytes(8)), "malformed"),
        (field(1, field(1, b"w") + field(3, b"")), "'w' is a MapParameter"),
        (field(1, field(1, b"w")), "malformed"),
        (field(1, field(2, KIND + CONTENT)), "malformed"),
        (field(1, field(1, b"w") * 2 + field(2, KIND + CONTENT)), "malformed"),
        (field(1, field(1, b"w") + field(2, KIND + CONTENT) * 2), "malformed"),
        (field(1, field(1, b"w") + field(2, KIND)), "malformed"),
        (field(1, field(1, b"w") + field(2, CONTENT)), "malformed"),
        (field(1, field(1, b"w") + field(2, KIND + CONTENT * 2)), "malformed"),
        (field(1, field(1, b"w") + field(2, KIND + CONTENT + field(4, b""))), "malformed"),
        (field(1, field(1, b"w") + field(2, KIND + CONTENT) + field(9, b"")), "malformed"),
        (field(1, field(1, b"w") + field(2, KIND + field(3, bytes(8), 9))), "truncated"),
        (field(1, field(1, b"w") + field(2, KIND + field(3, bytes(8), 2**63))), "truncated"),
        (field(1, field(1, b"w", 200) + field(2, KIND + CONTENT)), "truncated"),
        (field(1, b"", 8 << 30), "truncated"),
        (GOOD + field(2, b"x"), "no parameter begins at byte"),
        (GOOD + b"crc_num" + bytes(9), "no parameter begins"),
        (b"crc_num" + bytes(11), "no parameter begins"),
        (GOOD + b"\x00", "no parameter begins"),
        (b"\xff" * 20, "malformed"),
        (b"\x80" * 5, "malformed"),
        (b"\n", "malformed"),
        (bytes(100), "no parameter begins"),
    ],
)
def test_files_that_are_not_what_the_format_allows(tmp_path: Path, content: bytes, reason: str) -> None:
    assert reason in refusal(tmp_path / "x.ckpt", content)


def test_truncated_anywhere(tmp_path: Path) -> None:
    whole = file_of({"a": ("F32", (2, 3), bytes(24)), "b": ("BF16", (4,), bytes(8))}, 16)
    ends = {len(file_of({"a": ("F32", (2, 3), bytes(24))}, 16)), 0}
    for size in range(len(whole)):
        if size not in ends:
            refusal(tmp_path / "x.ckpt", whole[:size])


@pytest.mark.parametrize("claim", CLAIMS)
def test_claims_at_every_place(tmp_path: Path, claim: int) -> None:
    for place in range(len(GOOD)):
        read_or_refused(read_ckpt, tmp_path / "x.ckpt", GOOD[:place] + varint(claim) + GOOD[place + 1 :])


SEED = file_of(
    {"a.weight": ("F32", (2, 3), content_of((2, 3), "F32")), "b": ("BF16", (8,), content_of((8,), "BF16"))}, 10
) + file_of({"c": ("I64", (), bytes(8)), "d": ("U8", (0,), b"")})


def fuzz(path: Path, count: int, seed: int) -> int:
    """Mutated files; what we read is what the schema of MindSpore reads. Returns how many we read."""
    from mindspore.train.checkpoint_pb2 import Checkpoint

    accepted = 0
    for content in mutations(SEED, count, seed):
        found = read_or_refused(read_ckpt, path, content)
        if found is None:
            continue
        accepted += 1
        theirs: dict[str, bytes] = {}
        for value in Checkpoint.FromString(content).value:
            if value.tensor.tensor_type != "str":
                theirs[value.tag] = theirs.get(value.tag, b"") + value.tensor.tensor_content
        assert found == theirs
    return accepted


def test_mutated_files_are_read_correctly_or_refused(ms: Any, tmp_path: Path) -> None:
    assert fuzz(tmp_path / "x.ckpt", 600, 0) > 30


@pytest.mark.slow
def test_many_mutated_files(ms: Any, tmp_path: Path) -> None:
    accepted = fuzz(tmp_path / "x.ckpt", 20_000, 1000)
    print(f"20000 .ckpt files tried, {accepted} read, the others refused")
