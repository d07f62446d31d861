"""The names that the reference of `TransformerConfig` gives for MindFormers are names that MindFormers has."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import Field, fields
from typing import Any

import pytest

from mindport.schema import TransformerConfig

pytestmark = pytest.mark.conformance

each_field = pytest.mark.parametrize("field", fields(TransformerConfig), ids=lambda field: field.name)


@pytest.fixture(scope="module")
def mcore() -> set[str]:
    """Fields of the mcore generation's config, that of multi-latent attention included."""
    module = importlib.import_module("mindformers.parallel_core.transformer_config")
    return {field.name for field in fields(module.MLATransformerConfig)}


@pytest.fixture(scope="module")
def legacy() -> set[str]:
    """What the legacy Llama's config takes, the settings of its experts included."""
    llama = importlib.import_module("mindformers.models.llama.llama_config")
    moe = importlib.import_module("mindformers.modules.transformer.moe")
    return {*inspect.signature(llama.LlamaConfig).parameters, *inspect.signature(moe.MoEConfig).parameters}


@each_field
def test_names_exist(field: Field[Any], mcore: set[str], legacy: set[str]) -> None:
    assert set(field.metadata["mcore"].split()) <= mcore
    assert set(field.metadata["legacy"].split()) <= legacy


@each_field
def test_a_field_of_the_same_name_is_not_called_missing(field: Field[Any], mcore: set[str], legacy: set[str]) -> None:
    if not field.metadata["mcore"]:
        assert field.name not in mcore
    if not field.metadata["legacy"]:
        assert not {field.name, *field.metadata["mcore"].split()} & legacy
