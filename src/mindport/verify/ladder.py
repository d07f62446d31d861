"""The parity ladder as steps: load, forward, text or embeddings, training. Each returns plain results."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np

from mindport.architectures import register_classes
from mindport.checkpoint.check import check_folder
from mindport.config.native import read_native_config
from mindport.i18n import tr
from mindport.schema import TransformerConfig
from mindport.verify.alignment import Alignment, Settings
from mindport.verify.batches import Batch, load_tokenizer, parity_batches
from mindport.verify.compare import Difference, difference
from mindport.verify.embeddings import SENTENCES, sentence_embeddings
from mindport.verify.frameworks import installed, require
from mindport.verify.objectives import objective_of, training_batches
from mindport.verify.text import Text

MODES = ("pynative", "graph")
"""MindSpore's execution modes; the first, which compiles nothing, is used for text and training."""


class Ladder:
    """Both models of one migration, loaded once and compared rung by rung.

    Args:
        model: the Hugging Face folder.
        folder: the converted folder.

    Raises:
        MindportError: a framework is missing, the folder is not what converting the model gives, or one of them does
            not load completely.
    """

    def __init__(self, model: Path, folder: Path) -> None:
        installed("torch", "transformers", "mindspore")
        check_folder(model, folder)
        require("torch", "transformers", "mindspore")
        from mindport.models.folder import load_folder
        from mindport.verify.torch_model import load_torch_model

        described = read_native_config(folder).model
        register_classes(described.model_type)
        self.config: TransformerConfig = described.transformer
        self.loaded = load_folder(folder)
        self._reference = load_torch_model(model, self.config, described.declaration.reference_attention)
        self._tokenizer = load_tokenizer(model)

    @property
    def load_summary(self) -> str:
        """What the load check found, which would have been an error otherwise."""
        report = self.loaded.report
        found = tr("{count} tensors: every name, shape, dtype and value as in the source", count=report.tensors)
        if not report.carried:
            return found
        return tr("{found}; {count} more carried along, not computed", found=found, count=report.carried)

    def forward(self, mode: str) -> tuple[Difference, ...]:
        """Forward parity in one execution mode, "graph" or "pynative"."""
        from mindport.verify.parity import forward_parity

        self._set_mode(mode)
        batches = parity_batches(self.config, self._tokenizer)
        return tuple(forward_parity(batches, self._ours, self._theirs))

    def text(self, mode: str, tokens: int = 32) -> Text | None:
        """The same greedy text, for models that write text."""
        if self.config.head != "causal_lm":
            return None
        from mindport.verify.generation import PROMPT, native_greedy, torch_greedy

        self._set_mode(mode)
        tokenizer = self._tokenizer
        prompt = tokenizer(PROMPT)["input_ids"] if tokenizer else list(range(1, 17))
        prompt = [int(i) % self.config.vocab_size for i in prompt]
        tokens = min(tokens, self.config.max_position_embeddings - len(prompt))
        if tokens < 1:
            return None
        eos = self.config.eos_token_id
        stop = [] if eos is None else eos if isinstance(eos, list) else [eos]
        reference = torch_greedy(self._reference, prompt, tokens, stop)
        ours = native_greedy(self.loaded.network, prompt, reference, stop)

        def read(ids: list[int]) -> str:
            return str(tokenizer.decode(ids)) if tokenizer else " ".join(map(str, ids))

        return Text(read(prompt), read(ours), read(reference), len(reference), ours == reference)

    def embeddings(self, mode: str) -> Difference | None:
        """The same sentence embeddings, for encoders without a head and with a tokenizer."""
        if self.config.head != "none" or self.config.attention_mask_type == "causal" or not self._tokenizer:
            return None
        self._set_mode(mode)
        encoded = self._tokenizer(list(SENTENCES), padding=True, return_tensors="np")
        batch = Batch("sentences", encoded["input_ids"].astype(np.int32), encoded["attention_mask"].astype(np.int32))
        ours, theirs = (sentence_embeddings(run(batch), batch) for run in (self._ours, self._theirs))
        return difference("sentence embeddings", ours, theirs, scores=False)

    def train(self, mode: str, settings: Settings) -> Alignment:
        """The same steps on both sides. Both models are changed by it, so it comes last."""
        from mindport.verify.native_training import train_native
        from mindport.verify.torch_training import train_torch

        self._set_mode(mode)
        objective = objective_of(self.config)
        batches = training_batches(self.config, self._tokenizer, settings.steps, settings.seed)
        reference_losses, reference_norms = train_torch(self._reference, objective, batches, settings)
        self._reference = None  # its optimizer state and gradients are no longer needed
        gc.collect()
        losses, norms = train_native(self.loaded.network, objective, batches, settings)
        return Alignment(
            objective,
            settings,
            tuple(losses),
            tuple(reference_losses),
            tuple(norms),
            tuple(reference_norms),
        )

    def _ours(self, batch: Batch) -> Any:
        from mindport.verify.forward import mindspore_outputs

        return mindspore_outputs(self.loaded.network, batch)

    def _theirs(self, batch: Batch) -> Any:
        from mindport.verify.torch_model import torch_outputs

        return torch_outputs(self._reference, batch)

    def _set_mode(self, mode: str) -> None:
        import mindspore as ms

        ms.set_context(mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE)
