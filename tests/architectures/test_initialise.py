"""Training from scratch starts from the distributions that transformers draws from, slot by slot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mindport.checkpoint.convert import convert
from mindport.models import build_model
from mindport.schema import TransformerConfig

from .generator import Variant
from .random_model import Arrays, Prepared, fresh, read_tensors, to_slots

MANY = 1000
"""Values from which a standard deviation is known to 3 %."""

FEW = 30
"""Values below which it says nothing: that of three expert biases is often three times that of three others."""


def initial(config: TransformerConfig) -> Arrays:
    """The slots of a native model that nothing was loaded into."""
    network = build_model(config, initialise=True, seed=3)
    carried = replace(config, mtp_num_layers=0)
    return to_slots(carried, {name: p.asnumpy() for name, p in network.parameters_and_names()})


def unlike(ours: Arrays, theirs: Arrays) -> list[str]:
    """Slots whose values are not drawn alike."""
    found = []
    for slot, a in ours.items():
        b = theirs[slot]
        constant = [bool((x == x.flat[0]).all()) for x in (a, b)]
        if all(constant):
            alike = a.flat[0] == b.flat[0]
        elif any(constant):
            alike = False
        else:
            ratio = a.std() / b.std()
            alike = a.size < FEW or abs(np.log(ratio)) < (0.13 if a.size >= MANY else 1.0)
            if a.size >= MANY:
                # A normal distribution of so many values reaches 3 standard deviations; one cut off at 2 does not.
                alike &= (np.abs(a).max() > 2.6 * a.std()) == (np.abs(b).max() > 2.6 * b.std())
            if a.ndim == 2:
                alike &= np.array_equal(~a.any(1), ~b.any(1))
        if not alike:
            found.append(slot)
    return found


@pytest.fixture
def theirs(variant: Variant, tmp_path: Path) -> Arrays:
    import torch

    torch.manual_seed(11)
    fresh(replace(variant, hf={**variant.hf, "initializer_range": 0.05})).save_pretrained(tmp_path / "source")
    conversion = convert(tmp_path / "source", tmp_path / "native")
    return to_slots(conversion.config.model.transformer, read_tensors(tmp_path / "native"))


def test_distributions(model: Prepared, variant: Variant, theirs: Arrays, tmp_path: Path) -> None:
    config = convert(tmp_path / "source" / "config.json", tmp_path / "config").config.model.transformer
    ours = initial(replace(config, **dict.fromkeys(variant.off, False)))
    assert unlike(ours, theirs) == []
    wrong = initial(replace(config, init_method_std=0.07, **dict.fromkeys(variant.off, False)))
    assert "embedding.word.weight" in unlike(wrong, theirs)
