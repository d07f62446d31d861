"""Planning the conversion of a model with tens of thousands of tensors, from its public config alone."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from mindport.architectures.naming import spellings, tensor_map
from mindport.checkpoint.estimate import peak_bytes
from mindport.checkpoint.match import spelling_of, with_optional_parts
from mindport.checkpoint.plan import make_plan
from mindport.checkpoint.source import TensorEntry
from mindport.config.hf import read_hf_config
from mindport.schema import slots_of
from mindport.targets import NATIVE
from mindport.targets.native import is_carried

CONFIG = Path(__file__).parents[2] / ".." / "shared" / "corpus" / "configs" / "deepseek_v3__DeepseekV3-671B__1.json"

SECONDS = 30
"""Far more than it takes: a bound on what grows with the square of the number of tensors."""


@pytest.mark.skipif(not CONFIG.is_file(), reason="the corpus of public configs is not here")
def test_671_billion_parameters_are_planned_in_seconds() -> None:
    started = time.process_time()
    model = read_hf_config(CONFIG)
    slots = slots_of(model.transformer)
    tensors = tensor_map(model.declaration, model.transformer, next(spellings(model.declaration)))
    source = {
        name: TensorEntry(name, "BF16", stored.shape([slots[part] for part in stored.parts]), Path("x"), 0)
        for name, stored in tensors.items()
    }
    spelling = spelling_of(model, source)
    assert with_optional_parts(model, spelling, source) == model
    plan = make_plan(source, tensors, NATIVE.parameters(model.transformer), slots)
    assert not plan.problems
    assert time.process_time() - started < SECONDS

    per_expert = 58 + 1  # layers with experts, one of them for multi-token prediction
    assert len(source) > per_expert * 256 * 3
    computed, carried = (
        sum(output.nbytes for output in plan.outputs if is_carried(output.name) == which) / 2 / 1e9
        for which in (False, True)
    )
    assert round(computed) == 671  # as published
    assert 13 < carried < 14
    assert peak_bytes(plan) < 256 << 20
