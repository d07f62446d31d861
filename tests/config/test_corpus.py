"""Configs from public repositories: read without a key unhandled, or refused with the reason; never anything else."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mindport.architectures import model_types
from mindport.config.audit import UNHANDLED, audit
from mindport.config.composite import text_part
from mindport.config.hf import ModelConfig, from_hf, read_hf_config, to_hf
from mindport.config.native import NativeConfig, read_native_config, write_native_config
from mindport.config.unsupported import UnsupportedModel
from mindport.errors import MindportError

CORPUS = Path(__file__).parents[2] / ".." / "shared" / "corpus"

pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of public configs is not here")

VALID = sorted(CORPUS.glob("configs/*.json"))
INVALID = sorted(CORPUS.glob("configs_invalid/*.json"))


def outcome(path: Path) -> ModelConfig | MindportError:
    """What reading a config ends in."""
    try:
        return read_hf_config(path)
    except MindportError as error:
        return error


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_a_public_config(path: Path, tmp_path: Path) -> None:
    model = outcome(path)
    hf = json.loads(path.read_text(encoding="utf-8-sig"))
    if isinstance(model, UnsupportedModel):
        assert model.reason in model.message
        assert model.fix
        if model.nearest is None:
            assert set(hf) == {"architectures"}, "every config that has a size has a nearest family"
        else:
            assert model.nearest in model_types()
            assert model.nearest in model.fix
        return
    if isinstance(model, MindportError):
        # Of a family that is declared: a class that is not, or a key with a value that the native model cannot express.
        assert model.fix
        assert "Model class " in model.message or any(key in model.message for key in (*hf, *text_part(hf).config))
        return
    assert model.hf == hf
    assert to_hf(model) == {key: value for key, value in hf.items() if key != "quantization_config" or value is None}
    assert from_hf(to_hf(model)) == replace(model, hf=to_hf(model))
    rows = audit(model)
    assert [row.key for row in rows if row.origin == "file"] == list(model.part.config)
    assert not [row.key for row in rows if row.status == UNHANDLED]
    accounted = {*model.part.config, *model.part.path, *model.part.left_out, "_name_or_path", "auto_map"}
    accounted |= {"model_type", "architectures", "transformers_version"}
    assert set(hf) <= accounted
    config = NativeConfig(model)
    write_native_config(tmp_path, config)
    assert read_native_config(tmp_path) == config


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_a_broken_public_config(path: Path) -> None:
    with pytest.raises(MindportError, match=r"is not valid JSON: the value of hidden_size: .*line \d+ column \d+"):
        read_hf_config(path)


def test_configs_are_read_and_not_only_refused(record_property: Callable[[str, object], None]) -> None:
    outcomes = [outcome(path) for path in VALID]
    counts = Counter(type(found).__name__ for found in outcomes)
    print(f"{len(VALID)} public configs: {dict(counts)}")
    for kind, count in counts.items():
        record_property(kind, count)
    assert counts["ModelConfig"] >= 45
    composite = [found for found in outcomes if isinstance(found, ModelConfig) and found.part.path]
    assert {found.hf["model_type"] for found in composite} >= {"llava", "qwen2_audio"}
