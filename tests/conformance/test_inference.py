"""The inference layout is what MindFormers' own loader makes of a Hugging Face folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mindport.targets.mindformers import MCORE, family_named, inference

from .models import Case
from .test_mcore import DENSE, EXPERTS, RUN

pytestmark = pytest.mark.conformance

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen3": ("Qwen3Config", DENSE),
    "qwen3_moe": ("Qwen3MoeConfig", {**EXPERTS, "num_experts": 8}),
}


@pytest.mark.parametrize("name", CASES)
def test_the_layout_is_that_of_the_loader(name: str, tmp_path: Path) -> None:
    import numpy as np
    import transformers

    from mindport.verify.mindformers.graphs import loaded_for_inference

    hf, values = CASES[name]
    values = {**values, "hidden_size": 64, "head_dim": 16, "num_attention_heads": 4}
    case = Case.of(tmp_path / "hf", getattr(transformers, hf)(**values))
    family = family_named(name, MCORE)
    assert family is not None
    loaded = loaded_for_inference(family, {**values, **RUN}, case.folder)
    ours = case.in_layout(inference())
    assert {name: array.shape for name, array in loaded.items()} == {name: array.shape for name, array in ours.items()}
    for parameter, array in ours.items():
        assert np.array_equal(loaded[parameter], array), parameter
