"""Every test model against transformers, in both of MindSpore's execution modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mindport.verify.gates import STRICT

from .random_model import Prepared, build, run_native

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


def test_dropout_probabilities(model: Prepared) -> None:
    """Dropout does not show in an evaluation: the probabilities each side would use are compared instead."""
    import mindspore as ms
    import torch

    theirs: set[float] = set()
    for _, module in build(model.variant).named_modules():
        if isinstance(module, torch.nn.Dropout):
            theirs.add(module.p)
        # Attention classes that call the function keep the probability as a number.
        theirs |= {v for k, v in vars(module).items() if k.endswith("dropout") and isinstance(v, float)}
    cells = model.network.cells_and_names()
    ours = {cell.p for _, cell in cells if isinstance(cell, ms.nn.Dropout)}
    assert ours - {0.0} == theirs - {0.0}
