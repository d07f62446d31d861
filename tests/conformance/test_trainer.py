"""A whole YAML that we emit, with weights that we write, trains in MindFormers' own Trainer as torch does.

Each run has a process of its own, as MindFormers sets its process up once.
"""

from __future__ import annotations

import importlib
import json
import math
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindport.checkpoint.folder import find_weights
from mindport.config.hf import read_hf_config
from mindport.config.mindformers.emit import emit
from mindport.config.mindformers.settings import (
    CONSTANT,
    COSINE,
    CPU,
    FINETUNE,
    Data,
    Optimizer,
    Parallel,
    RunSettings,
    Schedule,
)
from mindport.errors import MindportError
from mindport.targets.mindformers import LEGACY, MCORE, McoreLayout, Target, default_layout, target, version_named

from .models import Case, note, write_mindrecord
from .test_legacy import SHAPE as LLAMA

pytestmark = pytest.mark.conformance

VERSION = version_named("1.9")
LENGTH, BATCH, STEPS = 21, 2, 6
IGNORED = -100
NEAR = 1e-5
"""Relative; of losses and gradient norms. Asked for is 1e-4."""

SHAPE: dict[str, Any] = {**LLAMA, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


@dataclass(frozen=True)
class Run:
    """A training run.

    Args:
        hf: class of transformers' config, and values besides SHAPE.
        shard_bytes: size of the shards of weights; None = one file.
        changes: run settings.
    """

    generation: str
    hf: str
    values: dict[str, Any] = field(default_factory=dict)
    shard_bytes: int | None = None
    changes: dict[str, Any] = field(default_factory=dict)

    @property
    def target(self) -> Target:
        return target(VERSION, default_layout(self.generation))

    def case(self, folder: Path) -> Case:
        import transformers

        return Case.of(folder / "hf", getattr(transformers, self.hf)(**{**SHAPE, **self.values}))

    def settings(self, folder: Path, weights: str) -> RunSettings:
        return RunSettings(
            name="tiny",
            output_dir=str(folder / "output"),
            data=Data(path=str(folder / "data.mindrecord"), workers=1),
            seq_length=LENGTH,
            batch_size=BATCH,
            load_checkpoint=weights,
            optimizer=Optimizer(betas=[0.9, 0.95], weight_decay=0.1, max_grad_norm=0.7),
            checkpoint_interval=4,
            device=CPU,
            **{"schedule": Schedule(COSINE, 3e-3, 1e-4, warmup_steps=2), **self.changes},
        )


RUNS = {
    "legacy": Run(LEGACY, "LlamaConfig"),
    "legacy, fine-tuning": Run(
        LEGACY,
        "LlamaConfig",
        shard_bytes=40_000,
        changes={"task": FINETUNE, "schedule": Schedule("linear", 2e-3, warmup_ratio=0.5)},
    ),
    "mcore": Run(MCORE, "Qwen3Config", {"head_dim": 10}),
    "mcore, fine-tuning": Run(
        MCORE,
        "Qwen3Config",
        {"head_dim": 10, "tie_word_embeddings": True},
        shard_bytes=40_000,
        changes={"task": FINETUNE, "schedule": Schedule(CONSTANT, 2e-3, warmup_steps=1)},
    ),
}


def samples(count: int, *, prompts: bool) -> tuple[np.ndarray, np.ndarray]:
    """(count, LENGTH + 1) token ids, and (count, LENGTH) targets; those within a prompt are IGNORED."""
    random = np.random.default_rng(3)
    ids = random.integers(3, SHAPE["vocab_size"], (count, LENGTH + 1)).astype(np.int32)
    targets = ids[:, 1:].copy()
    if prompts:
        for row in targets:
            row[: random.integers(2, LENGTH - 2)] = IGNORED
    return ids, targets


def write_data(path: Path, run: Run, ids: np.ndarray, targets: np.ndarray) -> None:
    """The MindRecord file that the YAML names, with the columns that it names."""
    columns = {"input_ids": ids}
    if run.generation == MCORE:
        known = targets != IGNORED
        columns = {
            "input_ids": ids[:, :-1],
            "labels": np.where(known, targets, 0),
            "loss_mask": known.astype(np.float32),
            "position_ids": np.tile(np.arange(LENGTH, dtype=np.int32), (len(ids), 1)),
        }
    elif run.changes.get("task") == FINETUNE:
        columns["labels"] = np.concatenate([ids[:, :1], targets], 1)
    write_mindrecord(path, columns)


def train(folder: Path, yaml: str) -> list[dict[str, float]]:
    """MindFormers' steps."""
    (folder / "run.yaml").write_text(yaml, encoding="utf-8")
    command = [sys.executable, "-m", "mindport.verify.mindformers.trial", "run.yaml", "--json", "steps.json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    steps: list[dict[str, float]] = json.loads((folder / "steps.json").read_text())
    return steps


def learning_rate(schedule: Schedule, step: int, steps: int) -> float:
    """Of step 0, 1, ...: a linear warm-up from 0, then the kind's way down, which it would end at step `steps`."""
    warmup = int(schedule.warmup_ratio * steps) if schedule.warmup_steps is None else schedule.warmup_steps
    if step < warmup:
        return schedule.peak * step / warmup
    done = (step - warmup) / (steps - warmup)
    left = {CONSTANT: 1.0, "linear": 1 - done, COSINE: (1 + math.cos(math.pi * done)) / 2}[schedule.kind]
    return schedule.final + (schedule.peak - schedule.final) * left


def train_in_torch(model: Any, settings: RunSettings, ids: np.ndarray, targets: np.ndarray) -> list[dict[str, float]]:
    """The same with torch.optim.AdamW, in place."""
    import torch

    chosen, parameters = settings.optimizer, list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": chosen.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, betas=tuple(chosen.betas), eps=chosen.eps)
    steps = len(ids) // BATCH
    found = []
    for step in range(steps):
        rate = learning_rate(settings.schedule, step, steps)
        for group in optimizer.param_groups:
            group["lr"] = rate
        batch = slice(step * BATCH, (step + 1) * BATCH)
        logits = model(torch.tensor(ids[batch, :-1]).long()).logits
        labels = torch.tensor(targets[batch]).long().reshape(-1)
        loss = torch.nn.functional.cross_entropy(logits.reshape(len(labels), -1), labels, ignore_index=IGNORED)
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters, chosen.max_grad_norm)
        optimizer.step()
        found.append({"loss": loss.item(), "learning_rate": rate, "gradient_norm": norm.item()})
    return found


def relative(found: list[dict[str, float]], wanted: list[dict[str, float]], name: str) -> float:
    """Largest relative difference of a value over the steps."""
    assert len(found) == len(wanted)
    pairs = [(a[name], b[name]) for a, b in zip(found, wanted, strict=True)]
    return max(abs(a - b) / (abs(b) or 1.0) for a, b in pairs)


@pytest.mark.parametrize("name", RUNS)
def test_the_trainer_trains_as_torch_does(name: str, tmp_path: Path) -> None:
    """Every step's loss, gradient norm before clipping, and learning rate; and the weights that it saves at its end."""
    run = RUNS[name]
    case = run.case(tmp_path)
    case.in_layout(run.target, run.shard_bytes)
    files = {path.name for path in case.written.iterdir()}
    assert ("param_name_map.json" in files) is (run.shard_bytes is not None)
    ids, targets = samples(STEPS * BATCH, prompts=run.changes.get("task") == FINETUNE)
    write_data(tmp_path / "data.mindrecord", run, ids, targets)
    settings = run.settings(tmp_path, str(case.written))
    found = train(tmp_path, emit(read_hf_config(case.folder), VERSION.name, run.generation, settings))
    wanted = train_in_torch(case.torch_model, settings, ids, targets)
    for what in ("loss", "gradient_norm", "learning_rate"):
        worst = relative(found, wanted, what)
        assert note(f"Trainer, {name}: {what.replace('_', ' ')} of {STEPS} steps, relative", worst) <= NEAR
    saved = tmp_path / "output" / "checkpoint" / "rank_0" / f"tiny_rank_0-1_{STEPS}.safetensors"
    exported = case.exported(run.target, find_weights(saved).entries)
    state = {key: value.numpy() for key, value in case.torch_model.state_dict().items() if key in exported}
    assert {*exported} == {*case.source}
    changed = max(abs(state[key] - array).max() for key, array in exported.items())
    assert note(f"Trainer, {name}: weights after {STEPS} steps", changed) <= 1e-5


@pytest.mark.parametrize("how", ["another layout", "checkpoint.load_path"])
def test_the_first_loss_tells_weights_that_were_not_loaded(how: str, tmp_path: Path) -> None:
    """MindFormers goes on without a word. A `checkpoint` section has it take the weights for Hugging Face's, and find
    no name that it knows."""
    run, section = RUNS["mcore"], how == "checkpoint.load_path"
    case = run.case(tmp_path)
    case.in_layout(run.target if section else target(VERSION, McoreLayout(True, False)))
    ids, targets = samples(BATCH, prompts=False)
    write_data(tmp_path / "data.mindrecord", run, ids, targets)
    settings = run.settings(tmp_path, "" if section else str(case.written))
    yaml = emit(read_hf_config(case.folder), VERSION.name, MCORE, settings)
    if section:
        yaml += f"\ncheckpoint:\n  load_path: {json.dumps(str(case.written))}\n"
    (found,) = train(tmp_path, yaml)
    (wanted,) = train_in_torch(case.torch_model, settings, ids, targets)
    assert abs(found["loss"] / wanted["loss"] - 1) > 1000 * NEAR


@pytest.mark.parametrize("shard_bytes", [None, 40_000])
def test_what_several_devices_load(shard_bytes: int | None, tmp_path: Path) -> None:
    """MindFormers' own check of the settings, and MindSpore's own reader of the folder; the devices themselves are not
    there to be asked."""
    import mindspore as ms

    run = RUNS["mcore"]
    case = run.case(tmp_path)
    arrays = case.in_layout(run.target, shard_bytes)
    settings = replace(run.settings(tmp_path, str(case.written)), device="Ascend", parallel=Parallel(data=2))
    path = tmp_path / "run.yaml"
    path.write_text(emit(read_hf_config(case.folder), VERSION.name, MCORE, settings), encoding="utf-8")
    register = importlib.import_module("mindformers.tools.register")
    loading = importlib.import_module("mindformers.utils.load_checkpoint_utils")
    config = register.MindFormerConfig(str(path))
    config.checkpoint = register.MindFormerConfig(load_path=config.load_checkpoint)
    mode = loading._get_checkpoint_mode(config)
    loading.validate_config_with_file_mode(mode, config.use_parallel, config.auto_trans_ckpt)
    with pytest.raises(ValueError, match="auto_trans_ckpt"):
        loading.validate_config_with_file_mode(mode, True, False)
    config.checkpoint.load_path = str(next(case.written.glob("*.safetensors")))
    with pytest.raises(ValueError, match="single file"):
        loading.validate_config_with_file_mode(loading._get_checkpoint_mode(config), True, True)

    network = ms.nn.Cell()
    for name, array in arrays.items():
        network.insert_param_to_cell(
            name, ms.Parameter(ms.Tensor(np.zeros_like(array)), name), check_name_contain_dot=False
        )
    ms.load_distributed_checkpoint(
        network=network, predict_strategy=None, unified_safetensors_dir=str(case.written), format="safetensors"
    )
    for parameter in network.get_parameters():
        assert (parameter.asnumpy() == arrays[parameter.name]).all()


def test_a_run_that_a_cpu_cannot_do_is_refused(tmp_path: Path) -> None:
    from mindport.verify.mindformers.trainer import train as trial

    run, path = RUNS["mcore"], tmp_path / "run.yaml"
    case = run.case(tmp_path)
    with pytest.raises(MindportError, match="does not exist"):
        trial(path)
    yaml = emit(read_hf_config(case.folder), VERSION.name, MCORE, run.settings(tmp_path, ""))
    for old, new, said in (
        ('device_target: "CPU"', 'device_target: "Ascend"', "device_target: Ascend"),
        ("use_parallel: False", "use_parallel: True", "use_parallel: True"),
        ("sink_mode: False", "sink_mode: True", "again and again"),
    ):
        assert old in yaml
        path.write_text(yaml.replace(old, new), encoding="utf-8")
        with pytest.raises(MindportError, match=said):
            trial(path)
