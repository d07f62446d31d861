"""What is registered does not depend on what else a process did, and reading leaves the caller's objects alone."""

from __future__ import annotations

import copy
import json
import subprocess
import sys

import pytest

from mindport.architectures import architecture, model_types
from mindport.config.audit import audit
from mindport.config.hf import from_hf, to_hf

from .generator import variants

each_architecture = pytest.mark.parametrize("model_type", model_types())


def test_the_manifest_of_a_fresh_process() -> None:
    """Every declaration loads alone, in any order, and says the same as here."""
    script = """
import json, sys
from mindport.architectures import architecture, model_types
backwards = [architecture(name) for name in reversed(model_types())]
print(json.dumps({a.model_type: list(a.classes) for a in backwards}))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found == {name: list(architecture(name).classes) for name in model_types()}
    assert len(found) == len(model_types()) > 0


@each_architecture
def test_the_declared_name_is_the_registered_one(model_type: str) -> None:
    assert architecture(model_type).model_type == model_type


@each_architecture
def test_transformers_resolves_every_class(model_type: str) -> None:
    """The class that a config names is the one that transformers has for this model_type."""
    import transformers

    config = type(transformers.AutoConfig.for_model(model_type))
    for name in architecture(model_type).classes:
        cls = getattr(transformers, name, None)
        assert cls is None or cls.config_class is config, name
    assert any(hasattr(transformers, name) for name in architecture(model_type).classes)


@each_architecture
def test_reading_leaves_the_caller_alone(model_type: str) -> None:
    for variant in variants(model_type):
        given = copy.deepcopy(variant.hf)
        described = from_hf(given)
        audit(described)
        written = to_hf(described)
        written.clear()
        assert given == variant.hf
