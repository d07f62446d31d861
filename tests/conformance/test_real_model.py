"""SmolLM2-135M, as published, in MindFormers' legacy Llama: the same next tokens as in transformers."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from mindport.config.hf import read_hf_config
from mindport.config.mindformers.emit import emit
from mindport.config.mindformers.settings import CPU, RunSettings
from mindport.targets.mindformers import LEGACY, default_layout, family_named, target, version_named

from .models import Case, note

pytestmark = pytest.mark.conformance

REPOSITORY = Path(__file__).resolve().parents[2]
CACHE = REPOSITORY / ".cache"
VERSION = version_named("1.9")

TEXT = """The lighthouse keeper counted the ships every evening, and every morning he counted them again. There were
seldom as many. "Fog," he wrote in his book; then, after a pause, "or 7 > 5, whichever the insurers prefer." On the
third of March 1931 the count came out even, and he went to bed early for the first time in 12 years.

清晨的码头很安静，只有几只海鸥在叫。老人把渔网叠好，对孙子说：“今天风大，我们不出海了，留在家里修船吧。”孩子点点头，
把昨天学会的两个字写在沙滩上，一会儿就被潮水带走了。

def ships(evening: list[int], morning: list[int]) -> int:
    return sum(evening) - sum(morning)
"""


@pytest.fixture(scope="module")
def smollm2() -> Path:
    """Its folder, made as `make demo` does it, if it is not there; that takes a download of 100 MB."""
    sys.path.insert(0, str(REPOSITORY / "examples"))
    fetch_models = importlib.import_module("fetch_models")
    folders = ["--out", str(CACHE / "models"), "--downloads", str(CACHE / "downloads")]
    assert fetch_models.main(["smollm2", *folders]) == 0
    folder: Path = CACHE / "models" / fetch_models.SMOLLM2
    return folder


def test_the_next_tokens_of_a_real_model(smollm2: Path, tmp_path: Path) -> None:
    """In float32, at each position of the text. That no two tokens are so close that chance decides is seen to."""
    import torch
    import transformers

    from mindport.verify.mindformers.graphs import build

    ids = np.array([transformers.AutoTokenizer.from_pretrained(smollm2)(TEXT)["input_ids"]])
    assert ids.size > 250
    model = transformers.AutoModelForCausalLM.from_pretrained(smollm2, dtype=torch.float32)
    case = Case(model.eval(), smollm2, tmp_path)
    wanted = case.logits(ids)[0]

    yaml = emit(read_hf_config(smollm2), VERSION.name, LEGACY, RunSettings(seq_length=ids.size, device=CPU))
    section = importlib.import_module("yaml").safe_load(yaml)["model"]["model_config"]
    family = family_named("llama", LEGACY)
    assert family is not None
    graph = build(family, {key: value for key, value in section.items() if key != "type"})
    graph.load(case.in_layout(target(VERSION, default_layout(LEGACY))))
    found = graph.logits(ids)[0]

    difference = note("SmolLM2-135M in legacy Llama: logits", abs(found - wanted).max())
    ranked = np.sort(wanted, -1)
    margin = (ranked[:, -1] - ranked[:, -2]).min()
    assert 2 * difference < margin, f"logits differ by up to {difference:.2g}, the best two tokens by {margin:.2g}"
    assert (found.argmax(-1) == wanted.argmax(-1)).all()
