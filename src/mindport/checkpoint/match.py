"""Which spelling and which optional parts a checkpoint has: settled from its tensor names."""

from __future__ import annotations

from collections.abc import Container

from mindport.architectures.naming import Spelling, spellings, tensor_map
from mindport.config.hf import ModelConfig


def spelling_of(model: ModelConfig, names: Container[str]) -> Spelling:
    """The first declared spelling under which all of the model's tensors are found, or else most."""

    best, most = next(spellings(model.declaration, model.hf)), 0
    for spelling in spellings(model.declaration, model.hf):
        tensors = tensor_map(model.declaration, model.transformer, spelling)
        found = sum(name in names for name in tensors)
        if found == len(tensors):
            return spelling
        if found > most:
            best, most = spelling, found
    return best


def with_optional_parts(model: ModelConfig, spelling: Spelling, names: Container[str]) -> ModelConfig:
    """The model with each optional part switched off (or counted 0) if the checkpoint lacks it."""
    if not model.declared_class.optional:
        return model
    tensors = tensor_map(model.declaration, model.transformer, spelling)
    off = {}
    for switch, slot in model.declared_class.optional.items():
        if not any(slot in stored.parts and name in names for name, stored in tensors.items()):
            off[switch] = type(getattr(model.transformer, switch))(0)
    return model.with_transformer(**off)
