"""The `.ckpt` writer against MindSpore's own."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindport.checkpoint import ckpt, content, safetensors
from mindport.checkpoint.dtypes import numpy_dtype
from mindport.checkpoint.plan import make_plan
from mindport.layout import Stored, TensorMap

from .writing import write

Arrays = dict[str, np.ndarray]

CODES = {"F32": (3, 5), "F16": (4, 2), "BF16": (6, 3), "F64": (2, 2), "I8": (3,), "I16": (3,), "I32": (2, 3)}
MORE = {"I64": (4,), "U8": (5,), "U16": (2,), "U32": (2,), "U64": (2,), "BOOL": (6,)}


def arrays() -> Arrays:
    """One array of each dtype under names long enough for a two-byte length, and one of 6,000 bytes."""
    rng = np.random.default_rng(5)
    made = {}
    for code, shape in {**CODES, **MORE}.items():
        array = rng.integers(0, 2, shape) if code == "BOOL" else rng.standard_normal(shape) * 9
        made[f"{'layer.' * 30}{code}"] = array.astype(numpy_dtype(code))
    made["large"] = rng.standard_normal((50, 30)).astype(np.float32)
    made["权重"] = rng.standard_normal((1, 2, 3, 4)).astype(np.float32)
    return made


def our_ckpt(folder: Path, tensors: Arrays) -> bytes:
    codes = {numpy_dtype(code): code for code in {**CODES, **MORE}}
    described = [(name, codes[array.dtype], array.shape) for name, array in tensors.items()]
    head, _ = safetensors.make_header(described, {})
    (folder / "in").write_bytes(head + b"".join(array.tobytes() for array in tensors.values()))
    maps: TensorMap = {name: Stored((name,)) for name in tensors}
    shapes = {name: array.shape for name, array in tensors.items()}
    plan = make_plan(safetensors.read_header(folder / "in"), maps, maps, shapes)
    counted: list[int] = []
    write(plan, folder / "out.ckpt", counted.append)
    assert sum(counted) == plan.bytes_out
    return (folder / "out.ckpt").read_bytes()


@pytest.fixture(scope="module")
def ms() -> Any:
    """MindSpore."""
    return pytest.importorskip("mindspore")


def their_ckpt(ms: Any, folder: Path, tensors: Arrays) -> bytes:
    def tensor(array: np.ndarray) -> Any:
        if array.dtype == numpy_dtype("BF16"):
            return ms.Tensor(array.astype(np.float32)).astype(ms.bfloat16)
        return ms.Tensor(array)

    parameters = [{"name": name, "data": ms.Parameter(tensor(a), name="p")} for name, a in tensors.items()]
    ms.save_checkpoint(parameters, str(folder / "theirs.ckpt"))
    return (folder / "theirs.ckpt").read_bytes()


def test_bytes_are_those_of_mindspore(ms: Any, tmp_path: Path) -> None:
    assert our_ckpt(tmp_path, arrays()) == their_ckpt(ms, tmp_path, arrays())


@pytest.mark.parametrize("chunk", [700, 1024, 1 << 20])
def test_large_tensors_are_cut_as_mindspore_cuts_them(
    ms: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    from mindspore.train import serialization

    monkeypatch.setattr(serialization, "SLICE_SIZE", 1)  # in units of 1024 bytes
    monkeypatch.setattr(content, "CHUNK", chunk)
    monkeypatch.setattr(ckpt, "slices", partial(ckpt.slices, limit=1024))
    ours = our_ckpt(tmp_path, arrays())
    assert ours.count(b"large") == 6
    assert ours == their_ckpt(ms, tmp_path, arrays())


def test_mindspore_reads_what_was_written(ms: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ckpt, "slices", partial(ckpt.slices, limit=1024))
    tensors = arrays()
    our_ckpt(tmp_path, tensors)
    loaded = ms.load_checkpoint(str(tmp_path / "out.ckpt"))
    assert list(loaded) == list(tensors)
    for name, array in tensors.items():
        parameter = loaded[name]
        assert tuple(parameter.shape) == array.shape
        if array.dtype == numpy_dtype("BF16"):
            assert parameter.dtype == ms.bfloat16
            assert np.array_equal(parameter.astype(ms.float32).asnumpy(), array.astype(np.float32))
        else:
            assert parameter.asnumpy().dtype == array.dtype
            assert np.array_equal(parameter.asnumpy(), array)


def test_a_scalar_is_written_as_mindspore_writes_it(ms: Any, tmp_path: Path) -> None:
    tensors = {"scale": np.array(2.5, np.float32), "after": np.ones(2, np.float32)}
    assert our_ckpt(tmp_path, tensors) == their_ckpt(ms, tmp_path, tensors)
    assert ms.load_checkpoint(str(tmp_path / "out.ckpt"))["scale"].asnumpy() == 2.5


def test_the_limit_is_mindspores(ms: Any) -> None:
    from mindspore.train import serialization

    assert serialization.SLICE_SIZE * 1024 == ckpt.SLICE_BYTES
