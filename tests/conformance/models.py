"""Tiny models in which every tensor is random, brought into MindFormers' layouts by our engine and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mindport.architectures.naming import Spelling, tensor_map, tied_copies
from mindport.checkpoint import safetensors
from mindport.checkpoint.execute import execute
from mindport.checkpoint.files import read
from mindport.checkpoint.folder import find_weights
from mindport.checkpoint.journal import Journal, remove_journals
from mindport.checkpoint.match import spelling_of, with_optional_parts
from mindport.checkpoint.plan import make_plan
from mindport.checkpoint.shards import safetensors_files
from mindport.checkpoint.source import Checkpoint
from mindport.config.hf import ModelConfig, read_hf_config
from mindport.layout import TensorMap
from mindport.schema import TransformerConfig, slots_of
from mindport.targets import Target

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
    """A Hugging Face model and its folder."""

    torch_model: Any
    folder: Path

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

    def in_layout(self, target: Target) -> Arrays:
        """The weights as a target has them, by way of a file."""
        copies = tied_copies(self.described.declaration, self.config, self.spelling)
        tensors, more = target.sides(self.tensors, self.config)
        path = self.folder / "mindformers" / "model.safetensors"
        entries = self._written(self.source, tensors, target.parameters(self.config), path, {**copies, **more})
        return {name: read(entry) for name, entry in entries.items()}

    def back(self, target: Target) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        """After `in_layout`: each tensor of the source, as it was and as it came back."""
        entries = safetensors.read_header(self.folder / "mindformers" / "model.safetensors")
        tensors, copies = target.sides(self.tensors, self.config)
        path = self.folder / "back" / "model.safetensors"
        found = self._written(entries, target.parameters(self.config), tensors, path, {})
        assert {*found, *copies} == {*self.source}
        for name, entry in found.items():
            yield name, read(self.source[name]), read(entry)

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
        self, source: Checkpoint, tensors: TensorMap, outputs: TensorMap, path: Path, copies: dict[str, str]
    ) -> Checkpoint:
        plan = make_plan(source, tensors, outputs, slots_of(self.config), copies=copies)
        assert not plan.problems
        path.parent.mkdir(exist_ok=True)
        journal = Journal(path.parent, "test", 0)
        try:
            execute(plan, path.parent, safetensors_files(plan.outputs, {}), lambda _: None, journal)
        finally:
            journal.close()
            remove_journals(path.parent)
        return safetensors.read_header(path)


def token_ids(vocabulary: int, length: int) -> np.ndarray:
    """(2, length) token ids, none of which is 0: MindFormers takes its pad_token_id out of the loss."""
    return np.random.default_rng(SEED).integers(1, vocabulary, (2, length))
