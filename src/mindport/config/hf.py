"""Hugging Face config <-> `TransformerConfig`, through the declared rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from mindport.architectures import Architecture, HFClass, architecture, class_defaults, code_of
from mindport.architectures.families import is_declared
from mindport.architectures.quantisation import KEY as QUANTISATION
from mindport.architectures.vocabulary import Computed, Field, checked
from mindport.config.composite import TextPart, text_part, with_text
from mindport.config.json_file import read_json_object
from mindport.config.sanity import MOST_LAYERS, out_of_range
from mindport.config.unsupported import unsupported
from mindport.errors import MindportError, brief
from mindport.i18n import tr
from mindport.schema import TransformerConfig


@dataclass(frozen=True)
class ModelConfig:
    """A model in canonical terms, with where it came from.

    Args:
        model_type: Hugging Face model_type of the declaration.
        hf_class: Hugging Face class name.
        transformer: the canonical config.
        hf: the source config as the file had it, with all its parts where it is a composite of several models.
    """

    model_type: str
    hf_class: str
    transformer: TransformerConfig
    hf: dict[str, Any]

    @property
    def part(self) -> TextPart:
        """What of the source config is the text model: all of it, but for composites."""
        return text_part(self.hf)

    @property
    def declaration(self) -> Architecture:
        return architecture(self.model_type)

    @property
    def declared_class(self) -> HFClass:
        return self.declaration.classes[self.hf_class]

    def with_transformer(self, **changes: Any) -> ModelConfig:
        return replace(self, transformer=replace(self.transformer, **changes))


def config_path(model: Path) -> Path:
    """The config.json of a model folder, or the file itself.

    Raises:
        MindportError: neither exists.
    """
    path = model / "config.json" if model.is_dir() else model
    if not path.is_file():
        raise MindportError(
            tr("{path} does not exist.", path=path),
            tr("Give a Hugging Face model folder or its config.json."),
        )
    return path


def read_hf_config(model: Path) -> ModelConfig:
    """The canonical config of a Hugging Face model folder or config.json.

    Raises:
        MindportError: unreadable, unsupported, or a value the native model cannot express.
    """
    return from_hf(read_json_object(config_path(model)))


def from_hf(hf: dict[str, Any]) -> ModelConfig:
    """The canonical config of a Hugging Face config; of a composite, that of its text model.

    Raises:
        UnsupportedModel: no declaration reads it.
        MindportError: a value that is wrong or cannot be expressed.
    """
    part = text_part(hf)
    declaration = declaration_of(part)
    hf_class = class_of(part.config, declaration)
    with code_of(declaration.model_type):
        transformer = canonical(part.config, declaration, hf_class)
    if transformer.num_attention_heads % transformer.num_query_groups:
        raise MindportError(
            tr(
                "{heads} attention heads cannot share {groups} key/value heads evenly.",
                heads=transformer.num_attention_heads,
                groups=transformer.num_query_groups,
            ),
            tr("Correct it in config.json."),
        )
    wrong = out_of_range(transformer)
    if wrong:
        raise MindportError(
            tr(
                "The config gives {values}, which no model can have.",
                values=", ".join(f"{name} = {brief(getattr(transformer, name))}" for name in wrong),
            ),
            tr("Correct it in config.json."),
        )
    return ModelConfig(declaration.model_type, hf_class, transformer, hf)


def canonical(hf: Mapping[str, Any], declaration: Architecture, hf_class: str) -> TransformerConfig:
    """What the rules of a declaration make of a config, whether or not a model can have it all together. See `from_hf`.

    Raises:
        MindportError: a value that is wrong by itself, or cannot be expressed.
    """
    values = with_defaults(hf, declaration)
    found: dict[str, Any] = {**declaration.constants}
    for rule in declaration.rules:
        found.update(rule.decode(values))
        _check_layers(found.get("num_layers", 0))  # before a rule makes a list of them
    found.update({name: compute(values) for name, compute in declaration.computed.items()})
    found.update(declaration.classes[hf_class].fields)
    return TransformerConfig(**found)


def _check_layers(count: int) -> None:
    if count > MOST_LAYERS:
        raise MindportError(
            tr("{count} layers are more than the {most} that are supported.", count=count, most=MOST_LAYERS),
            tr("Correct it in config.json."),
        )


def to_hf(model: ModelConfig) -> dict[str, Any]:
    """The Hugging Face config of a model: the source's own spelling wherever it still says the same.

    That its weights were quantised is not said again: conversion has undone it.

    Raises:
        MindportError: the canonical config holds something this architecture's config cannot say.
    """
    part = model.part
    result = dict(part.config)
    result.setdefault("model_type", model.model_type)
    if class_of(result, model.declaration) != model.hf_class:
        result["architectures"] = [model.hf_class]
    # A part that the weights lack is off, whatever the config says, which it may go on saying.
    off: dict[str, Any] = {name: 0 for name in model.declared_class.optional if not getattr(model.transformer, name)}
    said = replace(model.transformer, **{name: getattr(from_hf(result).transformer, name) for name in off})
    for rule in model.declaration.rules:
        encoded = rule.encode(said)
        if encoded and not _says_the_same(result, rule, encoded, model.declaration):
            for key in (*rule.keys, *rule.aliases):
                result.pop(key, None)
            result.update(encoded)
    if result.get(QUANTISATION) is not None:
        del result[QUANTISATION]
    written = from_hf(result).transformer
    if replace(written, **off) != replace(model.transformer, **off):
        changed = [f.name for f in fields(written) if getattr(written, f.name) != getattr(model.transformer, f.name)]
        raise MindportError(
            tr(
                "A {model_type} config cannot express {fields} of this model.",
                model_type=model.model_type,
                fields=", ".join(changed),
            ),
            tr("Export to an architecture that can, or set the fields back."),
        )
    return with_text(model.hf, part, result)


def declaration_of(part: TextPart) -> Architecture:
    """The declaration a config asks for.

    Raises:
        UnsupportedModel: there is none.
        MindportError: model_type is not a string.
    """
    named = part.config.get("model_type")
    if named is not None:
        checked("model_type", named, str)
    if not is_declared(part.config):
        raise unsupported(part)
    return architecture(named)


def class_of(hf: Mapping[str, Any], declaration: Architecture) -> str:
    """The Hugging Face class name; where the file names none, the declaration's first.

    Raises:
        MindportError: a class that is not declared.
    """
    named = hf.get("architectures")
    if not named:
        return next(iter(declaration.classes))
    name = named[0] if isinstance(named, list) else named
    if not isinstance(name, str) or name not in declaration.classes:
        raise MindportError(
            tr(
                "Model class {name} of {model_type} is not supported.",
                name=brief(name),
                model_type=declaration.model_type,
            ),
            _supported_classes(declaration),
        )
    return name


def _supported_classes(declaration: Architecture) -> str:
    allowed = tr("Supported classes: {allowed}.", allowed=", ".join(declaration.classes))
    backbones = (name for name, declared in declaration.classes.items() if declared.fields.get("head") == "none")
    backbone = next(backbones, None)
    if backbone is None:
        return allowed
    return f"{allowed} {tr('The bare model, without a head, is {backbone}.', backbone=backbone)}"


def with_defaults(hf: Mapping[str, Any], declaration: Architecture) -> dict[str, Any]:
    """Every key the rules read: from the file, else the class default, with null derived where a rule says how.

    Raises:
        MindportError: two spellings of one key that disagree, or a value a derivation cannot use.
    """
    defaults = class_defaults(declaration.model_type)
    values: dict[str, Any] = {}
    for rule in declaration.rules:
        for key in rule.keys:
            spelled = [k for k in (key, *rule.aliases) if k in hf]
            if len({repr(hf[k]) for k in spelled}) > 1:
                raise MindportError(
                    tr("{keys} are the same setting and disagree.", keys=", ".join(spelled)),
                    tr("Correct it in config.json."),
                )
            if spelled:
                values[key] = hf[spelled[0]]
            elif key in defaults or isinstance(rule, Field):
                values[key] = defaults.get(key)
            if isinstance(rule, Field | Computed) and values.get(key) is None and rule.derive:
                values[key] = rule.derive(values)
            elif isinstance(rule, Field):
                rule.decode(values)  # a wrong type is reported before another key derives from it
    return values


def _says_the_same(hf: dict[str, Any], rule: Any, encoded: dict[str, Any], declaration: Architecture) -> bool:
    """Whether the config, as it stands, already decodes to what the encoded keys decode to."""
    bare = {k: v for k, v in hf.items() if k not in (*rule.keys, *rule.aliases)}
    try:
        present = rule.decode(with_defaults(hf, declaration))
        wanted = rule.decode(with_defaults({**bare, **encoded}, declaration))
    except MindportError:
        return False
    return bool(present == wanted)
