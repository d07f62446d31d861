"""Carrying a MindFormers YAML to another version, newer or older, with a line for each thing that is done to it.

Renames are made in place. What the other version has no place for stays in the file as a comment with a mark; on the
way back the mark tells to which versions the line belongs, and it is a line again. So a file that went to another
version and back is the same file, byte for byte. The modules `upgrade_*` are the parts of this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mindport.config.mindformers.known import components, in_span, section_keys, since, versions_in
from mindport.config.mindformers.misplaced import reason_for, strays
from mindport.config.mindformers.plan import value_at
from mindport.config.mindformers.upgrade_aside import set_aside, set_aside_classes
from mindport.config.mindformers.upgrade_marks import settle_marks
from mindport.config.mindformers.upgrade_table import apply_table, replace_adam, respell
from mindport.config.mindformers.upgrade_work import MOVED, UpgradeStep, Work, way_of
from mindport.config.mindformers.validate import looks_like_mindformers
from mindport.config.mindformers.yaml_case import TRAINING
from mindport.config.yaml_edit import CannotEditError, Editor
from mindport.config.yaml_file import YamlFile
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.targets.mindformers import Version
from mindport.targets.mindformers.limits import absent
from mindport.targets.mindformers.plugin import AUTO_REGISTER, is_plugin
from mindport.targets.mindformers.versions import LEGACY, MCORE, PYNATIVE, family_named


@dataclass(frozen=True)
class Upgrade:
    """A file for another version.

    Args:
        text: the new content.
        steps: what was done, in order.
    """

    text: str
    steps: list[UpgradeStep]


def upgrade(file: YamlFile, to: Version, start: Version | None = None) -> Upgrade:
    """Carry a file to a version.

    Args:
        start: the version it is for; changes of the versions between the two are made. None = whatever in the file is
            older or newer than `to` is changed.

    Raises:
        MindportError: no MindFormers YAML, or its model is not there in that version.
    """
    if not looks_like_mindformers(file):
        raise MindportError(
            tr("{path} holds none of the sections of a MindFormers YAML.", path=file.path),
            tr("Give the YAML that run_mindformer.py trains from."),
        )
    work = Work(Editor(file), to, start)
    refuse_what_is_gone(work)
    settle_marks(work)
    relocate(work)
    respell(work)
    apply_table(work)
    replace_adam(work)
    set_aside(work)
    set_aside_classes(work)
    return Upgrade(work.editor.text, work.steps)


def refuse_what_is_gone(work: Work) -> None:
    """Stop where the version has no such models, or not this one.

    Raises:
        MindportError: so.
    """
    first = {MCORE: "1.6", PYNATIVE: "1.9"}.get(work.generation)
    if first is not None and not since(work.to, first):
        raise MindportError(
            tr(
                "{path} is for {generation} models, which MindFormers {version} does not have.",
                path=work.editor.path,
                generation=work.generation,
                version=work.to.name,
            ),
            tr("Choose a version from {version}.", version=first),
        )
    for path, kind in (("model.arch.type", "model"), ("model.model_config.type", "model_config")):
        name = value_at(work.values, path)
        span = components(kind).get(name) if isinstance(name, str) else None
        if work.generation == LEGACY and span and not span.endswith("-") and not in_span(work.to, span):
            raise MindportError(
                tr("MindFormers {version} has no {name}.", version=work.to.name, name=name),
                tr("It is in MindFormers {versions} only; choose one of these.", versions=versions_in(span)),
            )
    name = value_at(work.values, "model.model_config.model_type")
    family = family_named(name, work.generation) if isinstance(name, str) else None
    trains = work.values.get("run_mode") in TRAINING
    plugged = is_plugin(value_at(work.values, f"model.model_config.{AUTO_REGISTER}"))
    if plugged and family and not family.trains(work.to):
        raise MindportError(absent(family, work.to), tr("Choose one of {versions}.", versions=family.trained_since))
    if family and family.plugin and (plugged or family.inferred_since is None):
        return  # the plug-in's, or somebody else's of the same name
    if family and not (family.trains(work.to) if trains else family.infers(work.to)):
        came = family.trained_since if trains else family.inferred_since
        raise MindportError(
            tr(
                "MindFormers {version} has no {generation} graph of {name} for run_mode {mode}.",
                version=work.to.name,
                generation=work.generation,
                name=name,
                mode=work.values.get("run_mode"),
            ),
            tr("Choose a version from {version}.", version=came) if came else tr("No version has one."),
        )


def relocate(work: Work) -> None:
    """Keys that are in a section that has no use for them go to the one they belong to."""
    if work.generation != PYNATIVE:
        for section, key, home in list(strays(work.values)):
            _relocate(work, section, key, home)


def _relocate(work: Work, section: str, key: str, home: str) -> None:
    path = f"{section}.{key}" if section else key
    target, _, name = home.rpartition(".")
    known = section_keys(target) if target else section_keys("general_config")
    if known is not None and name in known and not in_span(work.to, known[name]):
        return
    content = value_at(work.values, path)
    if isinstance(content, Mapping) and f"{name}_config" == target:  # recompute: {recompute: ..., ...}
        _relocate_section(work, path, target)
        return
    there = value_at(work.values, home)
    because = reason_for(section, key)
    note = tr(because) if because else tr("{section} has no use for it", section=section or tr("the top level"))
    try:
        with work.editor.undone_on_failure():
            if there is None:
                first, *rest = work.editor.take(way_of(path))
                work.editor.put(way_of(target), [first.replace(key, name, 1), *rest])
                work.step(MOVED, path, home, "", note)
            elif there == content:
                work.editor.take(way_of(path))
                work.step(MOVED, path, home, "", tr("it says the same there already"))
            else:
                raise CannotEditError(tr("{key} says something else already", key=home))
    except CannotEditError as error:
        work.left(path, home, "", error)


def _relocate_section(work: Work, path: str, section: str) -> None:
    """A whole section inside another one, under a shorter name."""
    name = path.rpartition(".")[2]
    try:
        with work.editor.undone_on_failure():
            if section in work.values:
                raise CannotEditError(tr("{key} is there already", key=section))
            first, *rest = work.editor.take(way_of(path))
            work.editor.put((), [first.replace(name, section, 1), *rest])
        work.step(MOVED, path, section, "", tr("it has a section of its own"))
    except CannotEditError as error:
        work.left(path, section, "", error)


def default_output(path: Path, to: Version) -> Path:
    """Where a carried file goes if nobody says: beside the old one, with the version in its name."""
    return path.with_name(f"{path.stem}_mindformers_{to.name}{path.suffix}")
