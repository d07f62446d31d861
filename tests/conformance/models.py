"""Tiny models in which every tensor is random, brought into MindFormers' layouts by our engine and back."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mindport.architectures.naming import Spelling, tensor_map, tied_copies
from mindport.checkpoint.execute import execute
from mindport.checkpoint.files import read
from mindport.checkpoint.folder import find_weights
from mindport.checkpoint.journal import Journal, remove_journals
from mindport.checkpoint.match import spelling_of, with_optional_parts
from mindport.checkpoint.plan import make_plan
from mindport.checkpoint.shards import indices, safetensors_files
from mindport.checkpoint.source import Checkpoint
from mindport.checkpoint.training_state import without_training_state
from mindport.config.hf import ModelConfig, read_hf_config
from mindport.config.mindformers.emit import emit
from mindport.config.mindformers.settings import RunSettings
from mindport.config.yaml_file import parse_yaml
from mindport.layout import TensorMap
from mindport.schema import TransformerConfig, slots_of
from mindport.targets import Target
from mindport.targets.mindformers import Layout

Arrays = dict[str, np.ndarray]

SEED = 20

WORST: dict[str, float] = {}
"""What was compared -> the largest difference; printed at the end."""


def note(what: str, difference: float) -> float:
    """Keep a difference for the summary."""
    WORST[what] = max(difference, WORST.get(what, 0.0))
    return difference


def randomised(model: Any) -> Any:
    """The model, every parameter and buffer of weights with values of its own, norms and biases too."""
    import torch

    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for name, value in [*model.named_parameters(), *model.named_buffers()]:
            if "inv_freq" in name:
                continue
            noise = torch.randn(value.shape, generator=generator)
            value.copy_(1 + 0.3 * noise if name.endswith("norm.weight") else 0.12 * noise)
    return model.eval()


@dataclass(frozen=True)
class Case:
    """A Hugging Face model and its folder.

    Args:
        work: folder for what is written; None = that of the model.
    """

    torch_model: Any
    folder: Path
    work: Path | None = None

    @classmethod
    def of(
        cls, folder: Path, config: Any, more: Mapping[str, np.ndarray] | None = None, *, shared_head: bool = False
    ) -> Case:
        """A model of a transformers config, saved.

        Args:
            more: tensors that belong into the file and that transformers does not read.
            shared_head: they are a module's for multi-token prediction, which has copies of embedding and head.
        """
        import torch
        import transformers

        name = type(config).__name__.removesuffix("Config") + "ForCausalLM"
        torch.manual_seed(SEED)
        config._attn_implementation = "eager"
        model = randomised(getattr(transformers, name)(config))
        folder.mkdir()
        model.save_pretrained(folder)
        if more:
            from safetensors.numpy import load_file, save_file

            path = folder / "model.safetensors"
            tensors = {**load_file(path), **more}
            if shared_head:
                start = f"model.layers.{config.num_hidden_layers}."
                tensors[f"{start}embed_tokens.weight"] = tensors["model.embed_tokens.weight"].copy()
                tensors[f"{start}shared_head.head.weight"] = tensors["lm_head.weight"].copy()
            save_file(tensors, path, {"format": "pt"})
        return cls(model, folder)

    @cached_property
    def source(self) -> Checkpoint:
        """The saved tensors."""
        return find_weights(self.folder).entries

    @cached_property
    def spelling(self) -> Spelling:
        return spelling_of(read_hf_config(self.folder), self.source)

    @cached_property
    def described(self) -> ModelConfig:
        """The config, with those of its optional parts that the file holds."""
        return with_optional_parts(read_hf_config(self.folder), self.spelling, self.source)

    @property
    def config(self) -> TransformerConfig:
        return self.described.transformer

    @property
    def tensors(self) -> TensorMap:
        return tensor_map(self.described.declaration, self.config, self.spelling)

    def settings(self, graph: str, generation: str, layout: Layout, length: int) -> dict[str, Any]:
        """The model's section of the YAML that we emit for this model, for a run on a CPU in float32."""
        run = RunSettings.from_mapping(
            {
                "device": "CPU",
                "seq_length": length,
                "batch_size": 2,
                "precision": {"params": "float32", "compute": "float32"},
            }
        )
        text = emit(self.described, "1.9", generation, run, graph, layout)
        section: dict[str, Any] = parse_yaml(text, Path("run.yaml")).values["model"]["model_config"]
        return {key: value for key, value in section.items() if key != "type"}

    @property
    def written(self) -> Path:
        """The folder of `in_layout`."""
        return (self.work or self.folder) / "mindformers"

    def in_layout(self, target: Target, shard_bytes: int | None = None) -> Arrays:
        """The weights as a target has them, by way of a file, or of shards with their index."""
        copies = tied_copies(self.described.declaration, self.config, self.spelling)
        tensors, more = target.sides(self.tensors, self.config)
        parameters, copies = target.parameters(self.config), {**copies, **more}
        entries = self._written(self.source, tensors, parameters, self.written, copies, shard_bytes)
        return {name: read(entry) for name, entry in entries.items()}

    def back(self, target: Target) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        """After `in_layout`: each tensor of the source, as it was and as it came back."""
        _, copies = target.sides(self.tensors, self.config)
        found = self.exported(target, find_weights(self.written).entries)
        assert {*found, *copies} == {*self.source}
        for name, array in found.items():
            yield name, read(self.source[name]), array

    def exported(self, target: Target, entries: Checkpoint) -> Arrays:
        """Weights that lie as a target has them, by their Hugging Face names, without what a training run added."""
        parameters, (tensors, _) = target.parameters(self.config), target.sides(self.tensors, self.config)
        entries, state = without_training_state(entries, parameters)
        entries = {name: entry for name, entry in entries.items() if name not in state}
        found = self._written(entries, parameters, tensors, (self.work or self.folder) / "back", {})
        return {name: read(entry) for name, entry in found.items()}

    def logits(self, ids: np.ndarray) -> np.ndarray:
        """What transformers computes, in float32."""
        import torch

        with torch.no_grad():
            return self.torch_model(torch.tensor(ids)).logits.numpy()

    def first_step(self, ids: np.ndarray) -> tuple[float, float]:
        """Loss and gradient norm of (batch, sequence + 1) token ids, with torch."""
        from mindport.verify.torch_training import first_step

        return first_step(self.torch_model, ids)

    def _written(
        self,
        source: Checkpoint,
        tensors: TensorMap,
        outputs: TensorMap,
        folder: Path,
        copies: dict[str, str],
        shard_bytes: int | None = None,
    ) -> Checkpoint:
        plan = make_plan(source, tensors, outputs, slots_of(self.config), copies=copies)
        assert not plan.problems
        folder.mkdir(parents=True, exist_ok=True)
        journal = Journal(folder, "test", 0)
        files = safetensors_files(plan.outputs, {}, shard_bytes)
        try:
            execute(plan, folder, files, lambda _: None, journal)
        finally:
            journal.close()
            remove_journals(folder)
        for name, index in indices(files, hugging_face=False).items():
            (folder / name).write_text(json.dumps(index), encoding="utf-8")
        return find_weights(folder).entries


def write_mindrecord(path: Path, columns: Mapping[str, np.ndarray]) -> None:
    """Column -> (samples, values), as a file that MindFormers' data loader reads."""
    writer = importlib.import_module("mindspore.mindrecord").FileWriter(str(path), 1)
    writer.add_schema({name: {"type": str(array.dtype), "shape": [-1]} for name, array in columns.items()}, "samples")
    count = len(next(iter(columns.values())))
    rows = ({name: np.ascontiguousarray(array[n]) for name, array in columns.items()} for n in range(count))
    writer.write_raw_data(list(rows))
    writer.commit()


def token_ids(vocabulary: int, length: int) -> np.ndarray:
    """(2, length) token ids, none of which is 0: MindFormers takes its pad_token_id out of the loss."""
    return np.random.default_rng(SEED).integers(1, vocabulary, (2, length))
