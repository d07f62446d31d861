"""A module for multi-token prediction, which transformers does not read: against the same made of its layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindport.targets.mindformers import MCORE, McoreLayout, family_named, refusals, target

from .models import Case, note, randomised, token_ids
from .test_mcore import LATENT, LENGTH, LOGITS, STEP, VERSION

pytestmark = pytest.mark.conformance

FACTOR = 0.3
"""How much the module's loss counts."""


def module_of(config: Any) -> Any:
    """Norm, projection and layer of a module, as section 2.2 of the DeepSeek-V3 report has them."""
    import torch
    from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3DecoderLayer, DeepseekV3RMSNorm

    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            width = config.hidden_size
            self.enorm, self.hnorm = DeepseekV3RMSNorm(width), DeepseekV3RMSNorm(width)
            self.eh_proj = torch.nn.Linear(2 * width, width, bias=False)
            self.layer = DeepseekV3DecoderLayer(config, config.num_hidden_layers - 1)
            self.final = torch.nn.ModuleDict({"norm": DeepseekV3RMSNorm(width)})

        def forward(self, embeddings: Any, hidden: Any, cos_and_sin: Any) -> Any:
            length = hidden.shape[1]
            states = self.eh_proj(torch.cat([self.enorm(embeddings), self.hnorm(hidden)], -1))
            future = torch.triu(torch.full((length, length), -1e30), 1)[None, None]
            states = self.layer(states, attention_mask=future, position_embeddings=cos_and_sin)
            return self.final["norm"](states[0] if isinstance(states, tuple) else states)

    return randomised(Module())


def stored(module: Any, number: int) -> dict[str, np.ndarray]:
    """The module's tensors, as DeepSeek's files name them."""
    tensors = {}
    for name, value in module.state_dict().items():
        name = name.removeprefix("layer.").replace("final.norm", "shared_head.norm")
        tensors[f"model.layers.{number}.{name}"] = value.detach().numpy()
    return tensors


def losses(model: Any, module: Any, ids: np.ndarray) -> tuple[Any, Any]:
    """Of the next token, and of the one after it; the last position has no such token."""
    import torch

    tokens, labels = torch.tensor(ids[:, :-1]), torch.tensor(ids[:, 1:])
    hidden = model.model(tokens).last_hidden_state
    positions = torch.arange(tokens.shape[1])[None]
    next_tokens = torch.cat([tokens[:, 1:], torch.zeros_like(tokens[:, :1])], 1)
    cos_and_sin = model.model.rotary_emb(hidden, positions)
    states = module(model.model.embed_tokens(next_tokens), hidden, cos_and_sin)

    def entropy(logits: Any, wanted: Any) -> Any:
        return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), wanted.reshape(-1))

    return entropy(model.lm_head(hidden), labels), entropy(model.lm_head(states)[:, :-1], labels[:, 1:])


def test_a_module_computes_what_its_layers_compute(tmp_path: Path) -> None:
    import torch
    import transformers

    from mindport.verify.mindformers.graphs import build

    values = {**LATENT, "num_nextn_predict_layers": 1}
    config = transformers.DeepseekV3Config(**values, attn_implementation="eager")
    module = module_of(config)
    case = Case.of(tmp_path / "hf", config, stored(module, config.num_hidden_layers), shared_head=True)
    family = family_named("deepseek_v3", MCORE)
    assert family is not None
    assert case.config.mtp_num_layers == 1
    assert refusals(case.config, family, VERSION) == []
    for layout in (McoreLayout(False, False, False), McoreLayout()):
        graph = build(family, {**case.settings("deepseek_v3", MCORE, layout, LENGTH), "mtp_loss_factor": FACTOR})
        graph.load(case.in_layout(target(VERSION, layout)))
        assert all(before.tobytes() == after.tobytes() for _, before, after in case.back(target(VERSION, layout)))
    ids, what = token_ids(131, LENGTH + 1), "deepseek_v3 with a module"
    difference = abs(graph.logits(ids[:, :-1]) - case.logits(ids[:, :-1])).max()
    assert note(f"{what}: logits", difference) <= LOGITS
    step = graph.step(ids)
    main, second = losses(case.torch_model, module, ids)
    loss = main + FACTOR * second
    loss.backward()
    everything = [*case.torch_model.parameters(), *module.parameters()]
    norm = torch.nn.utils.clip_grad_norm_(everything, 1.0).item()
    assert note(f"{what}: loss of the first step", abs(step.loss - loss.item())) <= STEP
    assert note(f"{what}: gradient norm of the first step", abs(step.gradient_norm - norm)) <= STEP
