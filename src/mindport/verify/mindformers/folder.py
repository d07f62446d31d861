"""A folder that holds weights and YAML for MindFormers: whether MindFormers can be run on it here, and with what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from mindport.checkpoint.check import check_folder
from mindport.checkpoint.folder import Found, find_weights
from mindport.checkpoint.manifest import recorded_options
from mindport.checkpoint.options import PLAIN
from mindport.config.mindformers.read import model_section, read_yaml
from mindport.config.mindformers.settings import FINETUNE, PRETRAIN
from mindport.config.native import FILE_NAME, NativeConfig, read_native_config
from mindport.config.yaml_file import read_yaml as parse_file
from mindport.errors import MindportError, brief
from mindport.i18n import tr
from mindport.schema import TransformerConfig
from mindport.targets.mindformers import MCORE, Destination
from mindport.targets.mindformers.versions import LATEST_EXECUTED, Version, version_named
from mindport.verify.mindformers.overrides import Override, overridden, overrides_for
from mindport.verify.mindformers.tokens import LENGTH

YAML_FILES = tuple(f"{task}.yaml" for task in (PRETRAIN, FINETUNE))
"""Names of the YAML files that a conversion writes."""

LAID_OUT_SINCE = "1.7"
"""The first version whose mcore graphs lay weights out as those that Mindport has executed; see `targets`."""


@dataclass(frozen=True)
class Runnable:
    """A folder that holds what converting the model writes, and whose YAML still describes that.

    Args:
        config: `ms_config.json`.
        weights: the files.
        yaml: the file that is run.
        section: its `model.model_config`.
        length: tokens of a sequence to compare: no more than the YAML's own, for which the graph is the model's.
        overrides: what is other on a CPU.
        cast: the conversion gave weights another dtype, so that they are not exactly the source's.
    """

    config: NativeConfig
    weights: Found
    yaml: Path
    section: Mapping[str, Any]
    length: int
    overrides: tuple[Override, ...]
    cast: bool

    @property
    def destination(self) -> Destination:
        """The graph, and the layout of the weights."""
        assert self.config.destination is not None  # `runnable` has seen it
        return self.config.destination

    @property
    def executed_as_written(self) -> bool:
        """Whether the YAML is for the version that is run, so that MindFormers' own reader knows it."""
        return self.destination.version.name == LATEST_EXECUTED


def runnable(model: Path, folder: Path) -> Runnable:
    """A folder, checked against its source.

    Raises:
        MindportError: its weights are not MindFormers', not those of a graph that can be run here, not what converting
            the model gives; or its YAML is not there, or says something else.
        PlanError: the model itself does not fit together.
    """
    config = read_native_config(folder)
    destination = _executable(folder, config.destination)
    check_folder(model, folder)
    present = [folder / name for name in YAML_FILES if (folder / name).is_file()]
    if not present:
        raise MindportError(
            tr("{folder} holds neither of {names}.", folder=folder, names=", ".join(YAML_FILES)),
            tr("Convert the model again."),
        )
    sections = [_section(path, config, destination) for path in present]
    length = min(LENGTH, config.model.transformer.max_position_embeddings, *map(_own_length, sections))
    overrides = [overrides_for(section, destination.family.generation, length) for section in sections]
    _check_alike(present, [overridden(*both) for both in zip(sections, overrides, strict=True)])
    cast = recorded_options(folder, config.vocab).policy != PLAIN.policy
    return Runnable(config, find_weights(folder), present[0], sections[0], length, overrides[0], cast)


def _own_length(section: Mapping[str, Any]) -> int:
    asked = section.get("seq_length")
    return asked if isinstance(asked, int) and asked > 0 else LENGTH


def _check_alike(paths: list[Path], sections: list[dict[str, Any]]) -> None:
    for path, section in zip(paths[1:], sections[1:], strict=True):
        differing = sorted(key for key in {*section, *sections[0]} if section.get(key) != sections[0].get(key))
        if differing:
            raise MindportError(
                tr("{path} and {other} differ in: {fields}.", path=paths[0], other=path, fields=", ".join(differing)),
                tr("Make both alike, or remove the one that you do not train with."),
            )


def _executable(folder: Path, destination: Destination | None) -> Destination:
    if destination is None:
        raise MindportError(
            tr("{folder} holds weights of the native network, and not of MindFormers.", folder=folder),
            tr("Leave --engine mindformers out, or convert the model with --to mindformers@{v}.", v=LATEST_EXECUTED),
        )
    if not destination.trains:
        raise MindportError(
            tr("{folder} holds weights of an inference graph, and Mindport runs training graphs alone.", folder=folder),
            tr("Convert the model again without --inference."),
        )
    executed = version_named(LATEST_EXECUTED)
    if not _same_layout(destination, executed):
        raise MindportError(
            tr(
                "The weights in {folder} lie as in MindFormers {version}, and Mindport runs {executed}, which has them "
                "otherwise.",
                folder=folder,
                version=destination.version.name,
                executed=executed.name,
            ),
            tr("Convert the model with --to mindformers@{v}.", v=executed.name),
        )
    return destination


def _same_layout(destination: Destination, executed: Version) -> bool:
    """Whether a graph of another version is the same graph, with the same weights, in the one that can be run."""
    family, version = destination.family, destination.version
    if version == executed:
        return True
    early = family.generation == MCORE and version.order < version_named(LAID_OUT_SINCE).order
    return not early and family.trains(executed)


def _section(path: Path, config: NativeConfig, destination: Destination) -> dict[str, Any]:
    """The model's section of a YAML that says what `ms_config.json` says."""
    values = parse_file(path).values
    if values.get("pretrained_model_dir"):
        raise MindportError(
            tr("{path} takes a part of the model from pretrained_model_dir.", path=path),
            tr("Take it out: what Mindport writes says the model in full."),
        )
    reading = read_yaml(path, version=destination.version.name)
    apart = _apart(reading.transformer, config.model.transformer)
    if reading.destination != destination:
        apart += _apart_in_layout(reading.destination, destination)
    if apart:
        raise MindportError(
            tr("{path} says something else than {file}: {fields}.", path=path, file=FILE_NAME, fields="; ".join(apart)),
            tr("Correct the YAML, or convert the model again."),
        )
    return model_section(values)[1]


def _apart(said: TransformerConfig, meant: TransformerConfig) -> list[str]:
    return [
        _difference(field.name, getattr(said, field.name), getattr(meant, field.name))
        for field in fields(TransformerConfig)
        if getattr(said, field.name) != getattr(meant, field.name)
    ]


def _apart_in_layout(said: Destination, meant: Destination) -> list[str]:
    if said.family != meant.family:
        return [_difference("graph", said.family.name, meant.family.name)]
    here, there = (destination.layout.settings() if destination.layout else {} for destination in (said, meant))
    return [_difference(key, value, there.get(key)) for key, value in here.items() if value != there.get(key)]


def _difference(name: str, said: object, meant: object) -> str:
    return tr("{name} is {said}, not {meant}", name=name, said=brief(said), meant=brief(meant))
