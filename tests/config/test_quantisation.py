"""`quantization_config`: block-scaled fp8 is read, as what it will be when it is dequantised; all else is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mindport.architectures.quantisation import FIXES
from mindport.config.audit import DEQUANTISED, MAPPED, NOT_QUANTISED, audit
from mindport.config.composite import text_part
from mindport.config.hf import ModelConfig, from_hf, to_hf
from mindport.config.unsupported import UnsupportedModel
from mindport.errors import MindportError

PLAIN: dict[str, Any] = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}
FP8 = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
CORPUS = Path(__file__).parents[2] / ".." / "shared" / "corpus"
CONFIGS = [path for path in sorted(CORPUS.glob("configs/*.json")) if "quantization_config" in path.read_text("utf-8")]


def refusal(said: Any) -> MindportError:
    with pytest.raises(MindportError) as error:
        from_hf({**PLAIN, "quantization_config": said})
    assert error.value.fix
    return error.value


@pytest.mark.parametrize(
    "said",
    [
        FP8,
        {"quant_method": "fp8", "weight_block_size": [128, 128]},
        {**FP8, "scale_fmt": "ue8m0", "modules_to_not_convert": ["lm_head"]},
        {**FP8, "weight_block_size": [4, 6]},
    ],
)
def test_block_scaled_fp8_is_read_and_not_written_again(said: dict[str, Any]) -> None:
    model = from_hf({**PLAIN, "quantization_config": said})
    assert model.transformer == from_hf(PLAIN).transformer
    assert to_hf(model) == PLAIN
    (row,) = [row for row in audit(model) if row.key == "quantization_config"]
    assert (row.status, row.to, row.note) == (MAPPED, {}, DEQUANTISED)


def test_null_is_not_quantised_and_stays() -> None:
    hf = {**PLAIN, "quantization_config": None}
    model = from_hf(hf)
    assert to_hf(model) == hf
    (row,) = [row for row in audit(model) if row.key == "quantization_config"]
    assert row.note == NOT_QUANTISED


@pytest.mark.parametrize("inside", [True, False])
def test_the_key_is_dropped_wherever_a_composite_has_it(inside: bool) -> None:
    text = {**PLAIN, **({"quantization_config": FP8} if inside else {})}
    hf = {"model_type": "some_vl", "text_config": text, "vision_config": {"model_type": "v"}}
    hf |= {} if inside else {"quantization_config": FP8}
    wanted = {"model_type": "some_vl", "text_config": PLAIN, "vision_config": {"model_type": "v"}}
    assert to_hf(from_hf(hf)) == wanted


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"weight_block_size": None}, "weight_block_size"),
        ({"weight_block_size": [128]}, "weight_block_size"),
        ({"weight_block_size": [128, 0]}, "weight_block_size"),
        ({"weight_block_size": [True, 128]}, "weight_block_size"),
        ({"weight_block_size": 128}, "weight_block_size"),
        ({"fmt": "e5m2"}, "fmt"),
        ({"activation_scheme": "static"}, "activation_scheme"),
        ({"scale_fmt": ["x"]}, "scale_fmt"),
        ({"expert_dtype": "fp4"}, "expert_dtype"),
    ],
)
def test_other_fp8_is_refused(change: dict[str, Any], word: str) -> None:
    assert word in refusal({**FP8, **change}).message


@pytest.mark.parametrize("method", FIXES)
def test_other_methods_are_refused_by_name(method: str) -> None:
    error = refusal({"quant_method": method, "bits": 4})
    assert f"quantised with {method}," in error.message


def test_a_method_that_can_be_undone_elsewhere_says_where() -> None:
    assert "Mxfp4Config(dequantize=True)" in refusal({"quant_method": "mxfp4"}).fix
    assert "dequantize()" in refusal({"quant_method": "bitsandbytes"}).fix
    assert "base_model" in refusal({"quant_method": "gptq"}).fix


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ({"load_in_8bit": True}, "bitsandbytes"),
        ({"quant_algo": "FP8", "producer": {"name": "modelopt"}}, "modelopt"),
        ({"quant_method": "AWQ"}, "awq"),
        ({"quant_method": "auto_round"}, "auto-round"),
        ({"quant_method": "new\nmethod"}, r"new\nmethod"),
        ({"bits": 4}, "does not say how"),
        ({}, "does not say how"),
        ([1], "an object"),
        ({"quant_method": 3}, "a string"),
    ],
)
def test_what_does_not_name_its_method_as_usual(said: Any, word: str) -> None:
    assert word in refusal(said).message


@pytest.mark.skipif(not CONFIGS, reason="the corpus of public configs is not here")
@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_public_quantised_config(path: Path) -> None:
    """Block-scaled fp8 is never a reason to refuse; anything else is one, where the family is read."""
    hf = json.loads(path.read_text(encoding="utf-8"))
    said = text_part(hf).config.get("quantization_config")
    readable = said is None or (said.get("quant_method") == "fp8" and bool(said.get("weight_block_size")))
    try:
        model: ModelConfig | MindportError = from_hf(hf)
    except MindportError as error:
        model = error
    if isinstance(model, ModelConfig):
        assert readable
        assert to_hf(model).get("quantization_config") is None
    elif not isinstance(model, UnsupportedModel):
        assert ("quantization_config" in model.message) is not readable
