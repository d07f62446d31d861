"""The pinned versions are installed, and import together."""

from __future__ import annotations

import importlib
import re
from importlib.metadata import version

import pytest

from mindport.verify.mindformers.environment import CONSTRAINTS

pytestmark = pytest.mark.conformance


def pinned(package: str) -> str:
    match = re.search(rf"^{re.escape(package)}==(\S+)$", CONSTRAINTS.read_text(encoding="utf-8"), re.MULTILINE)
    assert match is not None, f"{CONSTRAINTS.name} does not pin {package}"
    return match.group(1)


def public(number: str) -> str:
    """Without the local part: a CPU build of torch calls itself 2.13.0+cpu."""
    return number.partition("+")[0]


@pytest.mark.parametrize("package", ["mindformers", "mindspore", "numpy", "safetensors", "torch", "transformers"])
def test_installed_version_is_the_pinned_one(package: str) -> None:
    assert public(version(package)) == pinned(package)
    assert public(importlib.import_module(package).__version__) == pinned(package)


def test_mindformers_knows_its_configuration_class() -> None:
    """Import alone can succeed with half of the package missing."""
    mindformers = importlib.import_module("mindformers")
    config = mindformers.MindFormerConfig(model={"model_config": {"type": "LlamaConfig", "num_layers": 2}})
    assert config.model.model_config.num_layers == 2


def test_mindspore_computes_what_torch_computes() -> None:
    """Both frameworks in one process, sharing memory allocators and OpenMP runtimes."""
    numpy = importlib.import_module("numpy")
    mindspore = importlib.import_module("mindspore")
    torch = importlib.import_module("torch")

    left = numpy.arange(12, dtype=numpy.float32).reshape(3, 4) / 7
    right = numpy.arange(20, dtype=numpy.float32).reshape(4, 5) / 11
    ours = mindspore.ops.matmul(mindspore.Tensor(left), mindspore.Tensor(right)).asnumpy()
    theirs = (torch.from_numpy(left) @ torch.from_numpy(right)).numpy()
    numpy.testing.assert_allclose(ours, theirs, rtol=1e-6)
