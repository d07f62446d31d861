"""Quantised checkpoints: block-scaled fp8 against torch's own arithmetic; everything else refused by name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindport.checkpoint.files import Files
from mindport.checkpoint.folder import find_weights
from mindport.checkpoint.quantised import pair_scales, refuse_quantised, rows
from mindport.checkpoint.safetensors import read_header
from mindport.checkpoint.source import Checkpoint, TensorEntry
from mindport.errors import MindportError

torch = pytest.importorskip("torch")


def config(*block: int, **more: Any) -> dict[str, Any]:
    return {"dtype": "bfloat16", "quantization_config": {"quant_method": "fp8", "weight_block_size": [*block]}, **more}


def save(path: Path, tensors: dict[str, Any]) -> Checkpoint:
    pytest.importorskip("safetensors.torch").save_file(tensors, path)
    return read_header(path)


def quantised(shape: tuple[int, int], block: tuple[int, int], scale_dtype: Any = torch.float32) -> tuple[Any, Any]:
    """Every fp8 code, NaNs too, and scales of very different sizes."""
    generator = torch.Generator().manual_seed(3)
    codes = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator).view(torch.float8_e4m3fn)
    grid = [-(-size // step) for size, step in zip(shape, block, strict=True)]
    scales = torch.exp2(torch.randint(-12, 4, grid, generator=generator)) * (1 + torch.rand(grid, generator=generator))
    return codes, scales.to(scale_dtype)


def by_torch(codes: Any, scales: Any, block: tuple[int, int], dtype: Any) -> Any:
    """One block at a time, in float32, rounded once."""
    out = torch.empty(codes.shape, dtype=dtype)
    for i in range(scales.shape[0]):
        for j in range(scales.shape[1]):
            at = (slice(i * block[0], (i + 1) * block[0]), slice(j * block[1], (j + 1) * block[1]))
            out[at] = (codes[at].to(torch.float32) * scales[i, j].to(torch.float32)).to(dtype)
    return out


def same(found: np.ndarray, wanted: Any) -> None:
    """Equal in every bit but the payload of NaN."""
    found, wanted = torch.from_numpy(found.astype(np.float32)), wanted.to(torch.float32)
    assert torch.equal(found.isnan(), wanted.isnan())
    assert torch.equal(found.nan_to_num(0), wanted.nan_to_num(0))


SHAPES = [
    ((256, 384), (128, 128)),
    ((130, 257), (128, 128)),
    ((5, 7), (128, 128)),
    ((13, 17), (4, 6)),
    ((8, 9), (1, 3)),
]


@pytest.mark.parametrize(("shape", "block"), SHAPES)
@pytest.mark.parametrize("scale_dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_values_are_those_of_torch(
    tmp_path: Path, shape: tuple[int, int], block: tuple[int, int], scale_dtype: Any, dtype: str
) -> None:
    codes, scales = quantised(shape, block, scale_dtype)
    entries = save(tmp_path / "x.safetensors", {"a.weight": codes, "a.weight_scale_inv": scales})
    found = pair_scales(entries, config(*block, dtype=dtype))
    assert list(found) == ["a.weight"]
    entry = found["a.weight"]
    assert (entry.shape, entry.nbytes) == (shape, shape[0] * shape[1] * (2 if dtype == "bfloat16" else 4))
    wanted = by_torch(codes, scales, block, getattr(torch, dtype))
    assert wanted.isnan().any() or shape[0] < 13, "the NaN codes are among them"
    with Files() as files:
        values = rows(files, entry, 0, shape[0])
        assert values.dtype.name == dtype
        same(values, wanted)
        for start, stop in [(0, 1), (3, 5), (4, 4), (1, shape[0]), (shape[0] - 1, shape[0])]:
            same(rows(files, entry, start, stop), wanted[start:stop])


def test_rounding_is_to_nearest_even(tmp_path: Path) -> None:
    """A scale of more digits than bfloat16 has, so that products lie between two bfloat16 values, and halfway."""
    codes = torch.tensor([[1.0, 1.0, 1.5, -1.0]]).to(torch.float8_e4m3fn)
    scales = torch.tensor([[1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-9, 1 + 2**-8 + 2**-20]])
    entries = save(tmp_path / "x.safetensors", {"w": codes, "w_scale_inv": scales})
    with Files() as files:
        found = rows(files, pair_scales(entries, config(1, 1))["w"], 0, 1)
    assert found.astype(np.float32).tolist() == [[1.0, 1 + 2**-6, 1.5, -(1 + 2**-7)]]


def test_only_the_rows_asked_for_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codes, scales = quantised((4096, 256), (128, 128))
    entries = save(tmp_path / "x.safetensors", {"w": codes, "w_scale_inv": scales})
    read: list[int] = []
    fill = Files.fill

    def counted(self: Files, entry: TensorEntry, start: int, buffer: memoryview) -> None:
        read.append(len(buffer))
        fill(self, entry, start, buffer)

    monkeypatch.setattr(Files, "fill", counted)
    with Files() as files:
        rows(files, pair_scales(entries, config(128, 128))["w"], 130, 140)
    assert sorted(read) == [1 * 2 * 4, 10 * 256]


def test_scales_may_lie_in_another_shard(tmp_path: Path) -> None:
    codes, scales = quantised((5, 7), (4, 6))
    norm = torch.rand(7)
    save(tmp_path / "one.safetensors", {"a.weight": codes, "z": norm})
    save(tmp_path / "two.safetensors", {"a.weight_scale_inv": scales})
    index = {"a.weight": "one.safetensors", "z": "one.safetensors", "a.weight_scale_inv": "two.safetensors"}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    entries = find_weights(tmp_path).entries
    found = pair_scales(entries, config(4, 6))
    assert found["z"] == entries["z"], "what is not quantised stays as it is"
    with Files() as files:
        same(rows(files, found["a.weight"], 0, 5), by_torch(codes, scales, (4, 6), torch.bfloat16))


def test_a_value_beyond_float16_is_refused(tmp_path: Path) -> None:
    tensors = {"w": torch.tensor([[448.0, 1.0]]).to(torch.float8_e4m3fn), "w_scale_inv": torch.tensor([[200.0]])}
    entry = pair_scales(save(tmp_path / "x.safetensors", tensors), config(1, 2, dtype="float16"))["w"]
    with Files() as files, pytest.raises(MindportError, match="'w' has values that float16 cannot hold"):
        rows(files, entry, 0, 1)


# --- what does not fit -------------------------------------------------------------------------------------------


def described(**tensors: tuple[str, tuple[int, ...]]) -> dict[str, TensorEntry]:
    return {name: TensorEntry(name, *info, Path("x"), 0) for name, info in tensors.items()}


RIGHT = described(w=("F8_E4M3", (5, 7)), w_scale_inv=("F32", (2, 2)), norm=("BF16", (7,)))


def refusal(entries: Checkpoint, hf: dict[str, Any]) -> str:
    with pytest.raises(MindportError) as error:
        pair_scales(entries, hf)
    assert error.value.fix
    return error.value.message


def test_the_dtype_is_that_of_the_config() -> None:
    assert pair_scales(RIGHT, config(4, 6))["w"].dtype == "BF16"
    assert pair_scales(RIGHT, config(4, 6, dtype=None, torch_dtype="float32"))["w"].dtype == "F32"
    assert pair_scales(RIGHT, config(4, 6, dtype=None))["w"].dtype == "BF16"
    assert "dtype = 'float8'" in refusal(RIGHT, config(4, 6, dtype="float8"))


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"w_scale_inv": None}, "'w_scale_inv', are missing"),
        ({"w": None}, "'w_scale_inv' holds scales"),
        ({"w": ("BF16", (5, 7))}, "'w_scale_inv' holds scales"),
        ({"w_scale_inv": ("F32", (2, 1))}, "shape [2, 1]; blocks of [4, 6] imply [2, 2]"),
        ({"w_scale_inv": ("F32", (4,))}, "shape [4]"),
        ({"w_scale_inv": ("U8", (2, 2))}, "dtype U8"),
        ({"w": ("F8_E4M3", (2, 5, 7))}, "shape [2, 5, 7]"),
        ({"w": ("F8_E5M2", (5, 7))}, "'w_scale_inv' holds scales"),
        ({"w": ("F8_E5M2", (5, 7)), "w_scale_inv": None}, "'w' has dtype float8_e5m2"),
    ],
)
def test_scales_that_do_not_fit(change: dict[str, Any], word: str) -> None:
    given = {name: (entry.dtype, entry.shape) for name, entry in RIGHT.items()} | change
    assert word in refusal(described(**{name: info for name, info in given.items() if info}), config(4, 6))


def test_the_block_size_is_the_configs_and_never_guessed() -> None:
    assert "blocks of [5, 7] imply [1, 1]" in refusal(RIGHT, config(5, 7))
    assert "'w' has dtype float8_e4m3fn" in refusal(RIGHT, {"dtype": "bfloat16"})


def test_a_plain_checkpoint_stays_as_it_is() -> None:
    plain = described(a=("BF16", (2, 3)), x_blocks=("F32", (3,)), scales=("F32", (3,)))
    assert pair_scales(plain, {}) == plain
    refuse_quantised(plain)


@pytest.mark.parametrize(
    ("names", "method"),
    [
        (["l.q_proj.qweight", "l.q_proj.qzeros", "l.q_proj.scales", "l.q_proj.g_idx"], "gptq"),
        (["l.q_proj.qweight", "l.q_proj.qzeros", "l.q_proj.scales"], "gptq or awq"),
        (["l.q_proj.weight", "l.q_proj.weight.absmax", "l.q_proj.weight.quant_map"], "bitsandbytes"),
        (["l.q_proj.weight", "l.q_proj.weight.quant_state.bitsandbytes__nf4"], "bitsandbytes"),
        (["l.q_proj.weight", "l.q_proj.SCB"], "bitsandbytes"),
        (["l.mlp.experts.gate_up_proj_blocks", "l.mlp.experts.gate_up_proj_scales"], "mxfp4"),
        (["l.q_proj.weight_packed", "l.q_proj.weight_scale"], "compressed-tensors"),
    ],
)
def test_names_give_quantisation_away(names: list[str], method: str) -> None:
    entries = described(**dict.fromkeys(names, ("U8", (2, 3))))
    with pytest.raises(MindportError, match=f"quantised with {method}[.]") as error:
        refuse_quantised(entries)
    assert error.value.fix
    with pytest.raises(MindportError, match=f"quantised with {method}[.]"):
        pair_scales(entries, {})


def test_a_strided_matrix(tmp_path: Path) -> None:
    """As a PyTorch file may hold it: a view of a transposed storage."""
    codes, scales = quantised((5, 7), (4, 6))
    entries = save(tmp_path / "x.safetensors", {"w": codes.T.contiguous(), "w_scale_inv": scales})
    entries = {**entries, "w": replace(entries["w"], shape=(5, 7), strides=(1, 5))}
    with Files() as files:
        found = rows(files, pair_scales(entries, config(4, 6))["w"], 1, 5)
    same(found, by_torch(codes, scales, (4, 6), torch.bfloat16)[1:])


def test_a_part_of_some_rows_is_that_part_of_them(tmp_path: Path) -> None:
    """What a layout asks for that has the matrix transposed."""
    codes, scales = quantised((130, 257), (128, 128))
    entries = save(tmp_path / "model.safetensors", {"x.weight": codes, "x.weight_scale_inv": scales})
    entry = pair_scales(entries, config(128, 128))["x.weight"]
    with Files() as files:
        whole = rows(files, entry, 100, 130)
        for left, right in ((0, 257), (0, 1), (120, 130), (128, 256), (256, 257), (7, 7)):
            assert rows(files, entry, 100, 130, left, right).tobytes() == whole[:, left:right].tobytes()


@pytest.mark.parametrize("scale", [3e37, 3.4028e38 / 448])
def test_a_product_that_is_no_number_any_more_is_refused(tmp_path: Path, scale: float) -> None:
    """Beyond float32, and beyond bfloat16 alone."""
    codes = torch.full((4, 6), 448.0).to(torch.float8_e4m3fn)
    path = tmp_path / "x.safetensors"
    safetensors_torch = pytest.importorskip("safetensors.torch")
    safetensors_torch.save_file({"w": codes, "w_scale_inv": torch.full((1, 1), scale)}, path)
    hf = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [4, 6]}, "torch_dtype": "bfloat16"}
    entry = pair_scales(read_header(path), hf)["w"]
    with Files() as files, pytest.raises(MindportError, match="cannot hold"):
        rows(files, entry, 0, 4)
