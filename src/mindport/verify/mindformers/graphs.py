"""MindFormers' own training classes with given weights: logits, and one training step."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn

from mindport.checkpoint.training_state import STATISTICS
from mindport.i18n import tr
from mindport.targets.mindformers import LEGACY, Family
from mindport.verify.mindformers.stand_ins import single_process_step, stand_in

Arrays = Mapping[str, np.ndarray]


def _enter(generation: str) -> None:
    """Set this process to a generation. MindFormers means to do so once, but its classes look it up when needed."""
    contexts = importlib.import_module("mindformers.core.context.build_context")
    legacy = generation == LEGACY
    if not contexts.Context.is_exists():
        config = importlib.import_module("mindformers.tools.register").MindFormerConfig(
            use_legacy=legacy,
            use_parallel=False,
            run_mode="train",
            parallel={},
            context={"mode": ms.GRAPH_MODE, "device_target": "CPU"},
        )
        contexts.build_context(config)
    contexts.set_context(run_mode="train", use_legacy=legacy)
    os.environ.update(_SYNTAX)
    if legacy:
        for name in _SYNTAX:
            del os.environ[name]
    else:
        stand_in()


_SYNTAX = {"MS_DEV_JIT_SYNTAX_LEVEL": "0"}
"""What MindFormers sets for training in the mcore generation."""


def _made(family: Family, settings: Mapping[str, Any]) -> nn.Cell:
    if family.plugin:
        importlib.import_module("mindport.plugin.mindport_graphs")
    register = importlib.import_module("mindformers.tools.register")
    find, kinds = register.MindFormerRegister.get_cls, register.MindFormerModuleType
    config = find(kinds.CONFIG, family.config_class)(**settings)
    return find(kinds.MODELS, family.model_class)(config)


def build(family: Family, settings: Mapping[str, Any]) -> Graph:
    """A model as MindFormers builds it for training, in graph mode on the CPU.

    One generation at a time: a graph of the other has to be done with before.

    Args:
        settings: of the section `model.model_config` of a YAML file, without the type.
    """
    _enter(family.generation)
    return Graph(family, _made(family, settings))


def loaded_for_inference(family: Family, settings: Mapping[str, Any], folder: Path) -> dict[str, np.ndarray]:
    """What MindFormers itself makes of a Hugging Face folder, for its inference graph: every parameter by name."""
    _enter(family.generation)
    os.environ["RUN_MODE"] = "predict"
    try:
        network = _made(family, settings)
        network.load_weights(str(folder))
    finally:
        del os.environ["RUN_MODE"]
    return {p.name: p.asnumpy() for p in network.get_parameters()}


@dataclass(frozen=True)
class Step:
    """What MindFormers' training step returns: the loss, and the norm of all gradients before clipping."""

    loss: float
    gradient_norm: float


class Graph:
    """One model of MindFormers."""

    def __init__(self, family: Family, network: nn.Cell) -> None:
        self.family = family
        self.network = network

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name -> shape of every weight."""
        return {p.name: p.shape for p in self.network.get_parameters() if not p.name.endswith(STATISTICS)}

    def load(self, weights: Arrays) -> None:
        """Set every weight.

        Raises:
            ValueError: names or shapes differ; all differences.
        """
        wanted, given = self.shapes(), {name: array.shape for name, array in weights.items()}
        if wanted != given:
            raise ValueError(f"{sorted(wanted.items() ^ given.items())}")
        values = {name: Parameter(Tensor(np.ascontiguousarray(array))) for name, array in weights.items()}
        ms.load_param_into_net(self.network, values, strict_load=True)

    def load_files(self, files: Sequence[str], kind: str) -> list[tuple[str, str]]:
        """Set every weight from files, which MindSpore itself reads.

        Args:
            kind: "safetensors" or "ckpt".

        Returns:
            (name, what is wrong) of everything that is not exactly as the graph has it; empty if all is well.
        """
        wanted = self.shapes()
        given: dict[str, tuple[int, ...]] = {}
        for file in files:
            held = ms.load_checkpoint(file, format=kind)
            given |= {name: tuple(value.shape) for name, value in held.items()}
            fitting = {
                name: Parameter(Tensor(value).astype(ms.float32))
                for name, value in held.items()
                if wanted.get(name) == tuple(value.shape)
            }
            del held
            _, strange = ms.load_param_into_net(self.network, fitting, strict_load=True)
            given = {name: shape for name, shape in given.items() if name not in strange}
        rows = [(name, tr("is not in the graph, shape {found}", found=given[name])) for name in given.keys() - wanted]
        rows += [
            (name, tr("is not in the files, shape {wanted}", wanted=wanted[name])) for name in wanted.keys() - given
        ]
        rows += [
            (name, tr("has shape {found} in the files, {wanted} in the graph", found=given[name], wanted=wanted[name]))
            for name in wanted.keys() & given
            if given[name] != wanted[name]
        ]
        return sorted(rows)

    def weights(self) -> dict[str, np.ndarray]:
        """Every weight as it is now."""
        return {p.name: p.asnumpy() for p in self.network.get_parameters() if not p.name.endswith(STATISTICS)}

    def logits(self, ids: np.ndarray) -> np.ndarray:
        """(batch, sequence) token ids -> (batch, sequence, vocabulary), in evaluation."""
        self.network.set_train(False)
        if self.family.generation == LEGACY:
            found = self.network(Tensor(ids, ms.int32))
        else:
            found = self.network(Tensor(ids, ms.int32), **dict(zip(_INPUTS, _inputs(ids, ids), strict=True)))
        found = found[0] if isinstance(found, tuple) else found
        return found.asnumpy().reshape(*ids.shape, -1)

    def step(self, ids: np.ndarray) -> Step:
        """One step of MindFormers' training cell, with clipping at 1, on (batch, sequence + 1) token ids.

        The optimizer is the plainest there is, which takes half the memory of AdamW: nobody asks for the weights after.
        """
        self.network.set_train(True)
        network = self.network if self.family.generation == LEGACY else _Ordered(self.network)
        optimizer = nn.SGD(self.network.trainable_params(), learning_rate=0.0)
        step = single_process_step()(network, optimizer, use_clip_grad=True, scale_sense=1.0)
        step.set_train(True)
        if self.family.generation == LEGACY:
            found = step(Tensor(ids, ms.int32))
        else:
            found = step(Tensor(ids[:, :-1], ms.int32), *_inputs(ids[:, :-1], ids[:, 1:]))
        return Step(float(found[0].asnumpy().reshape(-1)[0]), float(found[4].asnumpy().reshape(-1)[0]))


_INPUTS = ("labels", "loss_mask", "attention_mask")


def _inputs(ids: np.ndarray, labels: np.ndarray) -> tuple[Tensor, ...]:
    """Labels, loss mask and attention mask (1 = may not see) of a batch without padding."""
    batch, length = ids.shape
    future = np.triu(np.ones((length, length)), 1)
    mask = np.broadcast_to(future, (batch, 1, length, length))
    return Tensor(labels, ms.int32), Tensor(np.ones((batch, length)), ms.float32), Tensor(mask, ms.uint8)


class _Ordered(nn.Cell):
    """The training step hands inputs over by position."""

    def __init__(self, network: nn.Cell) -> None:
        super().__init__(auto_prefix=False)
        self.network = network
        self.get_gpt_transformer_config = network.get_gpt_transformer_config

    def construct(self, ids: Tensor, labels: Tensor, loss_mask: Tensor, attention_mask: Tensor) -> Any:
        return self.network(ids, labels=labels, loss_mask=loss_mask, attention_mask=attention_mask)
