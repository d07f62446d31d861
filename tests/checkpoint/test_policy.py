"""Dtypes: which weight is written in which, how values are rounded, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from mindport.checkpoint.cast import cast
from mindport.checkpoint.convert import convert
from mindport.checkpoint.dtypes import FLOATS, numpy_dtype
from mindport.checkpoint.export import export
from mindport.checkpoint.options import Options
from mindport.checkpoint.policy import KEEP, DtypePolicy, parse_policy
from mindport.config.native import read_native_config
from mindport.errors import MindportError

torch = pytest.importorskip("torch")
reference = pytest.importorskip("safetensors.numpy")
Make = Callable[..., Any]


def test_groups_come_before_the_default() -> None:
    policy = parse_policy(["bf16", "router=fp32", "norm=float32"])
    assert policy == DtypePolicy("BF16", (("router", "F32"), ("norm", "F32")))
    assert policy.dtype("layer.0.mlp.router.weight", "F16") == "F32"
    assert policy.dtype("layer.0.attention.q_norm.weight", "BF16") == "F32"
    assert policy.dtype("layer.0.mlp.up.weight", "F32") == "BF16"
    assert policy.dtype("layer.0.mlp.up.weight", "I64") == "I64"
    assert parse_policy(["head=fp16"]).dtype("embedding.word.weight", "BF16") == "BF16"
    assert parse_policy(["head=fp16"]).dtype("head.output.weight", "BF16") == "F16"
    assert parse_policy([]) == KEEP


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["int8"], "names no dtype"),
        (["=fp32"], "names no group"),
        (["experts=fp32"], "names no group"),
        (["bf16", "fp32"], "Two dtypes"),
        (["norm=bf16", "norm=fp32"], "Two dtypes"),
        ([""], "names no dtype"),
    ],
)
def test_words_that_say_nothing(words: list[str], said: str) -> None:
    with pytest.raises(MindportError, match=said):
        parse_policy(words)


TORCH = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def bits(values: np.ndarray) -> bytes:
    return values.astype(np.float64).tobytes()  # every NaN alike is enough; all others are exact


@given(
    arrays.arrays(np.float32, arrays.array_shapes(max_dims=2), elements=st.floats(width=32)),
    st.sampled_from(FLOATS),
    st.sampled_from(FLOATS),
)
def test_values_are_rounded_as_torch_rounds_them(values: np.ndarray, source: str, target: str) -> None:
    given = torch.from_numpy(values).to(TORCH[source])
    wanted = given.to(TORCH[target])
    ours = given.view(torch.int16).numpy().view(ml_dtypes.bfloat16) if source == "BF16" else given.numpy()
    if (torch.isinf(wanted) & ~torch.isinf(given)).any():
        with pytest.raises(MindportError, match="too large"):
            cast(ours, target, "x")
        return
    found = cast(ours, target, "x")
    assert found.dtype == numpy_dtype(target)
    nan = torch.isnan(wanted).numpy()
    assert np.array_equal(np.isnan(found.astype(np.float64)), nan)
    assert bits(np.where(nan, 0, found.astype(np.float64))) == bits(np.where(nan, 0, wanted.double().numpy()))
    if source == target:
        assert found is ours


def test_a_conversion_casts_by_group_and_says_so_in_the_config(make: Make, tmp_path: Path) -> None:
    tiny = make("llama")
    convert(tiny.save(tmp_path / "hf"), tmp_path / "ms", Options(policy=parse_policy(["bf16", "norm=fp32"])))
    written = reference.load_file(tmp_path / "ms" / "model.safetensors")
    for slot, values in tiny.slots.items():
        kind = np.float32 if "norm" in slot else ml_dtypes.bfloat16
        assert written[slot].dtype.name == np.dtype(kind).name
        assert written[slot].tobytes() == values.astype(kind).tobytes()
    assert read_native_config(tmp_path / "ms").model.transformer.params_dtype == "bfloat16"
    export(tmp_path / "ms", tmp_path / "back", Options(policy=parse_policy(["fp32"])))
    back = reference.load_file(tmp_path / "back" / "model.safetensors")
    assert {array.dtype.name for array in back.values()} == {"float32"}


def test_a_value_that_does_not_fit_leaves_nothing(make: Make, tmp_path: Path) -> None:
    tiny = make("llama")
    tiny.tensors["model.norm.weight"][1] = 1e30
    with pytest.raises(MindportError, match=r"final_norm\.weight' has values too large for float16"):
        convert(tiny.save(tmp_path / "hf"), tmp_path / "ms", Options(policy=parse_policy(["fp16"])))
    assert [path.name for path in tmp_path.iterdir()] == ["hf"]


def test_parts_of_different_dtypes_can_be_brought_together(make: Make, tmp_path: Path) -> None:
    tiny = make("deepseek_v3")
    name = next(name for name in tiny.tensors if ".experts.0." in name)
    tiny.tensors[name] = tiny.tensors[name].astype(np.float64)
    folder = tiny.save(tmp_path / "hf")
    with pytest.raises(MindportError, match="different dtypes"):
        convert(folder, tmp_path / "ms")
    convert(folder, tmp_path / "ms", Options(policy=parse_policy(["fp32"])))
    written = reference.load_file(tmp_path / "ms" / "model.safetensors")
    assert {array.dtype.name for array in written.values()} == {"float32"}


@given(st.floats(allow_nan=False, width=64))
def test_float64_is_rounded_once(value: float) -> None:
    """Against whole-number arithmetic: of the two neighbours, the nearer, and of two as near, the even one."""
    from fractions import Fraction

    array = np.array([value])
    limit = 3.3953138923152404e38  # half a step above the largest bfloat16
    if np.isfinite(value) and abs(value) >= limit:
        with pytest.raises(MindportError, match="too large"):
            cast(array, "BF16", "x")
        return
    found = cast(array, "BF16", "x")
    if not np.isfinite(value):
        assert float(found[0]) == value
        return
    bits = int(found.view(np.uint16)[0])
    near = [np.array([b & 0xFFFF], np.uint16).view(ml_dtypes.bfloat16) for b in (bits - 1, bits, bits + 1)]
    far = [abs(Fraction(float(n[0])) - Fraction(value)) for n in near if np.isfinite(float(n[0]))]
    mine = abs(Fraction(float(found[0])) - Fraction(value))
    assert mine == min(far)
    assert bits % 2 == 0 or far.count(mine) == 1


def test_a_value_between_two_that_would_be_rounded_twice() -> None:
    value = np.array([1 + 2**-8 + 2**-40])
    assert float(cast(value, "BF16", "x")[0]) == 1.0078125


def test_a_group_that_the_model_does_not_have(make: Make, tmp_path: Path) -> None:
    folder = make("llama", tied=True).save(tmp_path / "hf")
    for word in ("router=fp32", "head=fp16"):
        with pytest.raises(MindportError, match="no weights of the group"):
            convert(folder, tmp_path / "ms", Options(policy=parse_policy([word])))
