"""The example of a declaration of one's own, all the way: converted, proved equal to its PyTorch model, exported."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mindport.architectures import use_declarations
from mindport.checkpoint import safetensors
from mindport.checkpoint.convert import convert
from mindport.checkpoint.export import export
from mindport.checkpoint.files import read
from mindport.errors import MindportError
from mindport.verify.gates import STRICT

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("mindspore")

DECLARATIONS = Path(__file__).parents[2] / "examples" / "declarations"


def modelling() -> Any:
    """The PyTorch side, loaded apart from the declaration."""
    spec = importlib.util.spec_from_file_location("tidal_by_its_makers", DECLARATIONS / "modeling_tidal.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A Tidal in which every tensor has random values."""
    makers = modelling()
    config = makers.TidalConfig(n_kv_heads=2, n_layers=3, vocab_size=97, dim=48, ffn_dim=80)
    network = makers.TidalForCausalLM(config)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for tensor in network.parameters():
            values = torch.randn(tensor.shape, generator=generator)
            tensor.copy_(values * tensor.shape[-1] ** -0.5 if tensor.ndim > 1 else 1 + 0.3 * values)
    network.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def declared() -> Iterator[None]:
    with use_declarations(DECLARATIONS):
        yield


@pytest.mark.usefixtures("declared")
def test_a_model_of_ones_own_goes_over_and_back(model: Path, tmp_path: Path) -> None:
    from mindport.verify.ladder import Ladder

    convert(model, tmp_path / "ms")
    ladder = Ladder(model, tmp_path / "ms")
    parity = ladder.forward("pynative")
    assert len(parity) == 3
    assert all(found.passes(STRICT) for found in parity), parity
    text = ladder.text("pynative")
    assert text
    assert text.equal
    export(tmp_path / "ms", tmp_path / "back")
    first, again = (safetensors.read_header(folder / safetensors.SINGLE_FILE) for folder in (model, tmp_path / "back"))
    assert list(first) == list(again)
    assert all(read(first[name]).tobytes() == read(again[name]).tobytes() for name in first)
    assert json.loads((tmp_path / "back" / "config.json").read_text()) == json.loads(
        (model / "config.json").read_text()
    )


def test_the_way_back_needs_the_declaration(model: Path, tmp_path: Path) -> None:
    with use_declarations(DECLARATIONS):
        convert(model, tmp_path / "ms")
    with pytest.raises(MindportError, match="converted with a declaration of its own"):
        export(tmp_path / "ms", tmp_path / "back")
    assert not (tmp_path / "back").exists()
