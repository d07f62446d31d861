"""Every test model against transformers, in both of MindSpore's execution modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mindport.verify.gates import STRICT

from .random_model import Prepared, build, run_native, run_torch

BOUND = 2e-5
MODES_BOUND = 1e-6


def test_outputs(
    model: Prepared,
    set_mode: Callable[[str], None],
    record: Callable[[str, Any], None],
) -> None:
    assert model.conversion.config.model.transformer == model.variant.config
    for outputs in model.reference.values():
        for name, values in outputs.items():
            assert 0.2 < values.std() < 4.0, f"{name}: a parity test needs values of about unit scale"

    set_mode("pynative")
    differences = model.compare(model.network, model.batches)
    eager = run_native(model.network, model.batches[0])
    set_mode("graph")
    differences += model.compare(model.network, model.batches[:1])
    compiled = run_native(model.network, model.batches[0])

    assert {d.what for d in differences} == {
        f"{name}, {b.name}" for b in model.batches for name in model.reference[b.name]
    }
    record("error", max(d.max_abs for d in differences))
    for difference in differences:
        assert difference.max_abs <= BOUND, difference
        assert difference.passes(STRICT), difference
    apart = max(float(np.abs(eager[name] - compiled[name]).max()) for name in eager)
    record("modes", apart)
    assert apart <= MODES_BOUND


def test_dropout(model: Prepared, set_mode: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """An evaluation says nothing about dropout: both sides are to drop with the same probabilities in the same places,
    which is to say on values of the same shapes in the same order."""
    import mindspore as ms
    import torch

    theirs: list[tuple[float, tuple[int, ...]]] = []
    ours: list[tuple[float, tuple[int, ...]]] = []

    def torch_dropout(x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        if training and p:
            theirs.append((p, tuple(x.shape)))
        return x

    def torch_attention(query: Any, key: Any, value: Any, dropout_p: float = 0.0, **more: Any) -> Any:
        if dropout_p:
            theirs.append((dropout_p, (*query.shape[:-1], key.shape[-2])))
        return attend(query, key, value, **more)

    def native_dropout(self: Any, x: Any) -> Any:
        if self.p:
            ours.append((self.p, tuple(x.shape)))
        return x

    reference = build(model.variant).train()
    attend = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(torch.nn.functional, "dropout", torch_dropout)
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", torch_attention)
    monkeypatch.setattr(ms.nn.Dropout, "construct", native_dropout)
    set_mode("pynative")
    run_torch(reference, model.batches[0])
    run_native(model.network, model.batches[0])
    assert theirs
    assert ours == theirs
