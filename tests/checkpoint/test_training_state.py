"""Training checkpoints: the model comes out, and what the run added is left out and counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindport.checkpoint.convert import convert
from mindport.checkpoint.export import export, plan_export
from mindport.checkpoint.options import Options
from mindport.checkpoint.problems import PlanError
from mindport.checkpoint.training_state import RUN, without_training_state

reference = pytest.importorskip("safetensors.numpy")
Make = Callable[..., Any]


@pytest.fixture(scope="module")
def ms() -> Any:
    """MindSpore."""
    return pytest.importorskip("mindspore")


OPTIMIZERS: dict[str, Callable[[Any, Any], Any]] = {
    "AdamWeightDecay": lambda nn, p: nn.AdamWeightDecay(p),
    "Adam": lambda nn, p: nn.Adam(p),
    "Momentum": lambda nn, p: nn.Momentum(p, 0.1, 0.9),
    "SGD": lambda nn, p: nn.SGD(p, 0.1, 0.9),
    "Lamb": lambda nn, p: nn.Lamb(p, 0.1),
}


@pytest.mark.parametrize("kind", ["ckpt", "safetensors"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_what_mindspore_saves_of_a_training_run(ms: Any, make: Make, tmp_path: Path, kind: str, optimizer: str) -> None:
    """The parameters of the model and of a real optimizer, with the entries of the checkpoint callback."""
    tiny = make("llama")
    folder = tiny.save(tmp_path / "hf")
    convert(folder, tmp_path / "ms", Options("ckpt"))
    loaded = ms.load_checkpoint(str(tmp_path / "ms" / "model.ckpt"))
    cell = OPTIMIZERS[optimizer](ms.nn, [ms.Parameter(p, name=name) for name, p in loaded.items()])
    saved = {parameter.name: parameter for parameter in (*cell.parameters, *cell.get_parameters())}
    state = set(saved) - set(tiny.slots)
    assert len(state) >= len(tiny.slots)
    content = [{"name": name, "data": parameter} for name, parameter in saved.items()]
    path = tmp_path / f"llama-1_10.{kind}"
    ms.save_checkpoint(content, str(path), format=kind, append_dict={"epoch_num": 1, "step_num": 10, "loss_scale": 2.0})
    plan = plan_export(tmp_path / "ms", weights=path).plan
    assert not plan.problems
    assert set(plan.skipped) >= state
    export(tmp_path / "ms", tmp_path / "back", weights=path)
    assert (tmp_path / "back" / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()


def test_only_the_state_of_parameters_is_left_out(make: Make, tmp_path: Path) -> None:
    tiny = make("llama")
    convert(tiny.save(tmp_path / "hf"), tmp_path / "ms")
    tensors = reference.load_file(tmp_path / "ms" / "model.safetensors")
    for name in ("adam_m.layer.0.mlp.up", "adam_m", "my_state.final_norm.weight", "adam_v.other.weight", "steps"):
        tensors[name] = np.zeros(2, np.float32)
        reference.save_file(tensors, tmp_path / "x.safetensors")
        with pytest.raises(PlanError) as error:
            export(tmp_path / "ms", tmp_path / "back", weights=tmp_path / "x.safetensors")
        assert [problem.tensor for problem in error.value.problems] == [name]
        del tensors[name]


def test_what_the_graphs_of_mindformers_note_is_left_out() -> None:
    """Names as its Trainer saved them."""
    noted = ["aux_loss", "lm_loss", "mtp_loss", "indexer_loss", "global_batch_size"]
    noted += [f"decoder.layers.0.mlp.router.{name}" for name in ("expert_load", "fi_accu")]
    weights = ["decoder.layers.0.mlp.router.weight", "decoder.layers.0.mlp.router.expert_bias"]
    _, reasons = without_training_state(dict.fromkeys([*noted, *weights]), weights)  # type: ignore[arg-type]
    assert reasons == dict.fromkeys(noted, RUN)
