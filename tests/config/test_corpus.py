"""Configs from public repositories: read, or refused in one sentence; never anything else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mindport.architectures import model_types
from mindport.config.audit import UNHANDLED, audit
from mindport.config.hf import ModelConfig, from_hf, read_hf_config, to_hf
from mindport.config.native import NativeConfig, read_native_config, write_native_config
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
    if isinstance(model, MindportError):
        assert model.fix
        assert "is not valid JSON" not in model.message
        return
    assert model.model_type in model_types()
    assert to_hf(model) == model.hf == json.loads(path.read_text(encoding="utf-8-sig"))
    assert from_hf(to_hf(model)) == model
    rows = audit(model)
    assert [row.key for row in rows if row.origin == "file"] == list(model.hf)
    assert not [row.key for row in rows if row.status == UNHANDLED]
    config = NativeConfig(model)
    write_native_config(tmp_path, config)
    assert read_native_config(tmp_path) == config


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_a_broken_public_config(path: Path) -> None:
    with pytest.raises(MindportError, match=r"is not valid JSON: .*line \d+ column \d+"):
        read_hf_config(path)


def test_configs_are_read_and_not_only_refused() -> None:
    assert sum(isinstance(outcome(path), ModelConfig) for path in VALID) >= 30
