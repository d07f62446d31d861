"""Training steps of every test model on both sides: gradients through every part, from the same weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mindport.models.folder import load_folder
from mindport.verify.alignment import Alignment, Settings
from mindport.verify.gates import STRICT
from mindport.verify.native_training import train_native
from mindport.verify.objectives import Arrays, objective_of, training_batches
from mindport.verify.torch_model import load_torch_model
from mindport.verify.torch_training import train_torch

from .random_model import Prepared

SETTINGS = Settings(steps=3, learning_rate=1e-3)


def with_padding_inside(batch: Arrays, pad: int) -> Arrays:
    """The same with padding ids among the real tokens, whose row torch may leave out of the gradient."""
    ids = batch[0].copy()
    ids[:, 1::5] = pad
    return (ids, *batch[1:])


def test_steps(model: Prepared, set_mode: Callable[[str], None]) -> None:
    described = model.conversion.config.model
    config, attention = described.transformer, described.declaration.reference_attention
    pad = config.pad_token_id if config.pad_token_id is not None else 0
    objective = objective_of(config)
    batches = [with_padding_inside(b, pad) for b in training_batches(config, None, SETTINGS.steps, SETTINGS.seed)]
    set_mode("pynative")
    network = load_folder(model.native).network
    ours = train_native(network, objective, batches, SETTINGS)

    def against(reference: Any) -> Alignment:
        theirs = train_torch(reference, objective, batches, SETTINGS)
        losses, norms = zip(ours, theirs, strict=True)
        return Alignment(objective, SETTINGS, *(tuple(series) for series in (*losses, *norms)))

    found = against(load_torch_model(model.source, config, attention))
    if not found.passes(STRICT):
        # Adam divides by the size of a gradient and so makes much of the smallest: of two float32 runs that part, the
        # same in float64 says which one is off, and it must not be ours.
        found = against(load_torch_model(model.source, config, attention).double())
    assert found.passes(STRICT), (found.loss_difference, found.grad_norm_difference)


def test_a_trained_padding_row_is_noticed(model: Prepared, set_mode: Callable[[str], None]) -> None:
    """The same without the row that the input does not train, wherever there is one: another gradient."""
    config = model.conversion.config.model.transformer
    if config.embedding_padding_idx is None:
        return
    set_mode("pynative")
    objective = objective_of(config)
    batches = [with_padding_inside(b, config.embedding_padding_idx) for b in training_batches(config, None, 2, 0)]
    settings = replace(SETTINGS, steps=2)
    losses, norms = train_native(load_folder(model.native).network, objective, batches, settings)
    wrong = load_folder(model.native).network
    wrong.embedding.padding_idx = None
    other_losses, other_norms = train_native(wrong, objective, batches, settings)
    series = (tuple(s) for s in (other_losses, losses, other_norms, norms))
    assert not Alignment(objective, settings, *series).passes(STRICT)
