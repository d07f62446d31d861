"""Carrying a MindFormers YAML to another version, newer or older, with a line for each thing that is done to it.

Renames are made in place. What the other version has no place for stays in the file as a comment with a mark; on the
way back the mark tells to which versions the line belongs, and it is a line again. So a file that went to another
version and back is the same file, byte for byte. The marks:

    # mindport from 1.9: grouped_lr_schedule:       known from that version on
    # mindport until 1.5: auto_tune: False          known up to that version
    type: AdamW  # mindport added, from 1.6         stands there only from that version on
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindport.config.mindformers.changes import (
    ADAM,
    ADAM_SINCE,
    ADAM_UNTIL,
    CHANGES,
    SECTION_SPANS,
    Reclassed,
    Redefaulted,
    Renamed,
)
from mindport.config.mindformers.changes import Change as TableChange
from mindport.config.mindformers.known import (
    COMPONENTS,
    components,
    in_span,
    section_keys,
    since,
    strict_sections,
    table,
    versions_in,
)
from mindport.config.mindformers.misplaced import LOOKED_AT, belongs_to
from mindport.config.mindformers.plan import generation_of, value_at
from mindport.config.mindformers.section_rules import SECTIONS
from mindport.config.mindformers.validate import looks_like_mindformers
from mindport.config.mindformers.yaml_case import TRAINING
from mindport.config.yaml_edit import CannotEditError, Editor, Way
from mindport.config.yaml_file import YamlFile
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.targets.mindformers import VERSIONS, Version
from mindport.targets.mindformers.versions import LEGACY, MCORE, PYNATIVE, family_named

RENAMED, MOVED, DROPPED, RESTORED, ADDED, KEPT, LEFT = "renamed", "moved", "dropped", "restored", "added", "kept", "left"
ACTIONS = (RENAMED, MOVED, DROPPED, RESTORED, ADDED, KEPT, LEFT)
"""Under another name or word; to another section; set aside as a comment; a comment again a line; a new line; an unknown
key, now in the block at the end; to be done by hand."""


@dataclass(frozen=True)
class UpgradeStep:
    """One thing that was done.

    Args:
        action: one of ACTIONS.
        path: the key, `section.key`.
        to: its new place, name or value; "" where there is none.
        version: the version that brought it about; "" where it is a matter of no version.
        note: what it means, in the user's language.
    """

    action: str
    path: str
    to: str
    version: str
    note: str


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
    work = _Work(Editor(file), to, start)
    work.refuse_what_is_gone()
    work.settle_marks()
    work.relocate()
    work.apply_table()
    work.replace_adam()
    work.set_aside()
    work.set_aside_classes()
    return Upgrade(work.editor.text, work.steps)


_MARK = re.compile(r"# mindport (from|until) ([\d.]+): ")
_ADDED_MARK = re.compile(r"  # mindport added, (from|until) ([\d.]+)(?=\r?$)", re.MULTILINE)


class _Work:
    """A file on its way."""

    def __init__(self, editor: Editor, to: Version, start: Version | None) -> None:
        self.editor, self.to, self.start = editor, to, start
        self.generation = generation_of(editor.file.values)
        self.steps: list[UpgradeStep] = []

    @property
    def values(self) -> Mapping[str, Any]:
        return self.editor.file.values

    def step(self, action: str, path: str, to: str, version: str, note: str) -> None:
        self.steps.append(UpgradeStep(action, path, to, version, note))

    def left(self, path: str, to: str, version: str, error: CannotEditError) -> None:
        self.step(LEFT, path, to, version, tr("to be done by hand: {reason}", reason=str(error)))

    # What cannot be carried

    def refuse_what_is_gone(self) -> None:
        first = {MCORE: "1.6", PYNATIVE: "1.9"}.get(self.generation)
        if first is not None and not since(self.to, first):
            raise MindportError(
                tr(
                    "{path} is for {generation} models, which MindFormers {version} does not have.",
                    path=self.editor.path,
                    generation=self.generation,
                    version=self.to.name,
                ),
                tr("Choose a version from {version}.", version=first),
            )
        for path, kind in (("model.arch.type", "model"), ("model.model_config.type", "model_config")):
            name = value_at(self.values, path)
            span = components(kind).get(name) if isinstance(name, str) else None
            if self.generation == LEGACY and span and not span.endswith("-") and not in_span(self.to, span):
                raise MindportError(
                    tr("MindFormers {version} has no {name}.", version=self.to.name, name=name),
                    tr("It is in MindFormers {versions} only; choose one of these.", versions=versions_in(span)),
                )
        name = value_at(self.values, "model.model_config.model_type")
        family = family_named(name, self.generation) if isinstance(name, str) else None
        trains = self.values.get("run_mode") in TRAINING
        if family and not (family.trains(self.to) if trains else family.infers(self.to)):
            came = family.trained_since if trains else family.inferred_since
            raise MindportError(
                tr("MindFormers {version} has no {generation} graph of {name} for run_mode {mode}.", version=self.to.name, generation=self.generation, name=name, mode=self.values.get("run_mode")),
                tr("Choose a version from {version}.", version=came) if came else tr("No version has one."),
            )

    # Marks of an earlier run

    def settle_marks(self) -> None:
        """Lines set aside, or added, for other versions than this one."""
        for found in {match[0]: match for match in _ADDED_MARK.finditer(self.editor.text)}.values():
            if not self._belongs(found[1], found[2]):
                self._settled(found[2], lambda mark=found[0]: self.editor.drop_lines(mark), tr("lines added for other versions"))
        for found in {match[0]: match for match in _MARK.finditer(self.editor.text)}.values():
            if self._belongs(found[1], found[2]):
                self._settled(found[2], lambda mark=found[0]: self.editor.uncomment(mark), tr("lines set aside for this version"))

    def _settled(self, version: str, change: Any, what: str) -> None:
        before = self.editor.file
        try:
            change()
        except CannotEditError as error:
            self.left(what, "", version, error)
            return
        for path in _changed(before.values, self.values) or [""]:
            self.step(RESTORED, path, "", version, what)

    def _belongs(self, word: str, name: str) -> bool:
        if name not in VERSIONS:
            return False
        return in_span(self.to, f"{name}-" if word == "from" else f"-{name}")

    # Keys in the wrong section

    def relocate(self) -> None:
        """Keys that are in a section that has no use for them go to the one they belong to."""
        for section in ("", *LOOKED_AT):
            content = self.values if not section else value_at(self.values, section)
            if self.generation == PYNATIVE or not isinstance(content, Mapping):
                continue
            for key in list(content):
                home = belongs_to(section, str(key))
                if home is not None:
                    self._relocate(section, str(key), home)

    def _relocate(self, section: str, key: str, home: str) -> None:
        path = f"{section}.{key}" if section else key
        target, _, name = home.rpartition(".")
        known = section_keys(target) if target else section_keys("general_config")
        if known is not None and name in known and not in_span(self.to, known[name]):
            return
        content = value_at(self.values, path)
        if isinstance(content, Mapping) and name == target.removesuffix("_config"):  # recompute: {recompute: ...}
            return
        there = value_at(self.values, home)
        note = tr("{section} has no use for it", section=section or tr("the top level"))
        try:
            with self.editor.undone_on_failure():
                if there is None:
                    lines = self.editor.take(_way(path))
                    self.editor.put(_way(target), lines)
                    self.step(MOVED, path, home, "", note)
                elif there == content:
                    self.editor.take(_way(path))
                    self.step(MOVED, path, home, "", tr("it says the same there already"))
                else:
                    raise CannotEditError(tr("{key} says something else already", key=home))
        except CannotEditError as error:
            self.left(path, home, "", error)

    # The table

    def apply_table(self) -> None:
        """New names for a newer version, in order; old ones for an older one, backwards."""
        for change in CHANGES:
            if since(self.to, change.version) and self._between(change.version):
                self._apply(change, forward=True)
        for change in reversed(CHANGES):
            if not since(self.to, change.version) and self._between(change.version):
                self._apply(change, forward=False)

    def _between(self, version: str) -> bool:
        """Whether a change lies on the way from the version the file is for."""
        if self.start is None:
            return True
        low, high = sorted((self.start, self.to), key=lambda one: one.order)
        return low.order < VERSIONS[version].order <= high.order

    def _apply(self, change: TableChange, *, forward: bool) -> None:
        if self.generation not in change.generations:
            return
        old, new = (change.old, change.new) if forward else (change.new, change.old)
        if isinstance(change, Renamed):
            if not forward and change.section == "" and not _known_general(old, new, self.to):
                return  # neither name is known there: it is set aside under its own
            self._rename(change, old, new)
        elif isinstance(change, Reclassed):
            for path in self._holders(change.path, old):
                self._replace(path, new, change.version)
        elif isinstance(change, Redefaulted):
            self._write_default(change, forward=forward)
        elif not forward:
            self._write_back(change.version, old, new)

    def _write_default(self, change: Redefaulted, *, forward: bool) -> None:
        """What absence meant in the file's version is written down, since it will mean something else."""
        names = (change.path, change.before)
        settled = {step.path for step in self.steps}  # a line of an earlier run, taken back: it was absent before
        if self.start is None or any(self.editor.entry(_way(name)) or name in settled for name in names):
            return
        path, value = (change.path, change.old) if forward else (change.before, change.new)
        span = f"from {change.version}" if forward else f"until {_before(change.version)}"
        section, _, key = path.rpartition(".")
        try:
            self.editor.put(_way(section), [f"{key}: {value}  # mindport added, {span}"])
            note = tr("absent, it meant {old} before, and means {new} now", old=value, new=change.new if forward else change.old)
            self.step(ADDED, path, value, change.version, note)
        except CannotEditError as error:
            self.left(path, value, change.version, error)

    def _rename(self, change: Renamed, old: str, new: str) -> None:
        way = _way(f"{change.section}.{old}" if change.section else old)
        if self.editor.entry(way) is None:
            return
        try:
            self.editor.rename(way, new)
            self.step(RENAMED, ".".join(way), new, change.version, tr("its name in MindFormers {version}", version=self.to.name))
        except CannotEditError as error:
            self.left(".".join(way), new, change.version, error)

    def _holders(self, path: str, word: str) -> Iterator[str]:
        """The keys that hold a word: the one at a path, or, of a list, those of its parts."""
        section, _, key = path.rpartition(".")
        content = value_at(self.values, section)
        parts = [(f"{section}.{n}", part) for n, part in enumerate(content)] if isinstance(content, list) else [(section, content)]
        for place, part in parts:
            if isinstance(part, Mapping) and part.get(key) == word:
                yield f"{place}.{key}"

    def _replace(self, path: str, word: str, version: str) -> None:
        old = self.editor.source_of(_way(path))
        try:
            self.editor.replace(_way(path), word)
            self.step(RENAMED, path, word, version, tr("it was {old}", old=old))
        except CannotEditError as error:
            self.left(path, word, version, error)

    def _write_back(self, version: str, new: str, old: str) -> None:
        """A setting of a newer section, written where older versions read it."""
        value = value_at(self.values, new)
        general = section_keys("general_config") or {}
        if value in (None, "") or isinstance(value, Mapping | list) or not in_span(self.to, general[old]):
            return
        until = _before(version)
        try:
            with self.editor.undone_on_failure():
                source = self.editor.source_of(_way(new))
                if value_at(self.values, old) not in (None, "", False):
                    raise CannotEditError(tr("{key} says something else already", key=old))
                if self.editor.entry(_way(old)) is not None:
                    self.editor.comment_out(_way(old), f"# mindport from {version}: ")
                self.editor.put((), [f"{old}: {source}  # mindport added, until {until}"])
            self.step(ADDED, old, source, version, tr("from {key}, which older versions do not read", key=new))
        except CannotEditError as error:
            self.left(new, old, version, error)

    # AdamW

    def replace_adam(self) -> None:
        """Older optimizers become AdamW, and AdamW one of these where it is not there yet."""
        name = value_at(self.values, "optimizer.type")
        if since(self.to, "1.6") and name in ADAM and self._between("1.6"):
            mine = {key: self._word(f"optimizer.{key}") for key in ("beta1", "beta2")}
            new = {"type": "AdamW"}
            if any(mine.values()):
                new["betas"] = f"[{mine['beta1'] or '0.9'}, {mine['beta2'] or '0.999'}]"
            self._exchange(("beta1", "beta2"), new, f"until {ADAM_UNTIL}", "from 1.6", "1.6")
        elif not since(self.to, ADAM_SINCE) and name == "AdamW" and self._between(ADAM_SINCE):
            betas = value_at(self.values, "optimizer.betas")
            new = {"type": ADAM[0]}
            if isinstance(betas, list) and len(betas) == 2:
                new |= {"beta1": str(betas[0]), "beta2": str(betas[1])}
            self._exchange(("betas",), new, f"from {ADAM_SINCE}", f"until {_before(ADAM_SINCE)}", ADAM_SINCE)

    def _word(self, path: str) -> str | None:
        return self.editor.source_of(_way(path)) if self.editor.entry(_way(path)) else None

    def _exchange(self, gone: tuple[str, ...], new: dict[str, str], mine: str, theirs: str, version: str) -> None:
        """Set keys of the optimizer aside, and write others in their place."""
        old = self._word("optimizer.type")
        try:
            with self.editor.undone_on_failure():
                lines = [f"{key}: {value}  # mindport added, {theirs}" for key, value in new.items()]
                self.editor.put_after(("optimizer", "type"), lines[1:])
                for key in gone:
                    if self.editor.entry(("optimizer", key)):
                        self.editor.comment_out(("optimizer", key), f"# mindport {mine}: ")
                self.editor.put_after(("optimizer", "type"), [f"mindport_type: {new['type']}  # mindport added, {theirs}"])
                self.editor.comment_out(("optimizer", "type"), f"# mindport {mine}: ")
                self.editor.rename(("optimizer", "mindport_type"), "type")
        except CannotEditError as error:
            self.left("optimizer.type", new["type"], version, error)
            return
        self.step(RENAMED, "optimizer.type", new["type"], version, tr("it was {old}", old=old))
        for key, value in list(new.items())[1:]:
            self.step(ADDED, f"optimizer.{key}", value, version, tr("what {optimizer} takes", optimizer=new["type"]))
        for key in gone:
            if f"# mindport {mine}: {key}:" in self.editor.text:
                self.step(DROPPED, f"optimizer.{key}", "", version, tr("{optimizer} does not take it", optimizer=new["type"]))

    # What the version has no place for

    def set_aside(self) -> None:
        """Keys and sections that the version does not know: as comments in their place, or in a block at the end."""
        if self.generation == PYNATIVE:
            self._aside_pynative("", self.values)
            return
        for section, span in {**SECTION_SPANS, **(section_keys("general_config") or {})}.items():
            if section in self.values and not in_span(self.to, span):
                self._aside((section,), span)
        if self.generation == MCORE:
            for key, span in table("mcore_fields").items():
                if key in (value_at(self.values, "model.model_config") or {}) and not in_span(self.to, span):
                    self._aside(("model", "model_config", key), span)
        unknown: list[tuple[str, list[str]]] = []
        for section in (*strict_sections(), "monitor_config.stable_rank_config"):
            spans = section_keys(section.rpartition(".")[2]) or {}
            content = value_at(self.values, section)
            if isinstance(content, Mapping):
                for key in list(content):
                    if key not in spans:
                        unknown += self._unknown(section, str(key))
                    elif not in_span(self.to, spans[key]):
                        self._aside((*_way(section), str(key)), spans[key])
        self._report_top_level()
        self._block(unknown)

    def set_aside_classes(self) -> None:
        """Callbacks that the version does not have; of other classes, it is only said."""
        if self.generation == PYNATIVE:
            return
        callbacks = self.values.get("callbacks")
        for number in reversed(range(len(callbacks) if isinstance(callbacks, list) else 0)):
            span = self._gone("callbacks", callbacks[number])
            if span:
                self._aside(("callbacks", str(number)), span)
        for section, kind in COMPONENTS.items():
            part = value_at(self.values, section)
            span = self._gone(kind, part) if kind not in ("callbacks", "model", "model_config") else None
            if span and not any(step.path == f"{section}.type" for step in self.steps):
                reason = tr("the class is in MindFormers {versions} only", versions=versions_in(span))
                self.left(f"{section}.type", "", "", CannotEditError(reason))

    def _gone(self, kind: str, part: Any) -> str | None:
        """The span of the class that a part names, where the version is not in it."""
        name = part.get("type") if isinstance(part, Mapping) else None
        span = components(kind).get(name) if isinstance(name, str) else None
        return span if span and not in_span(self.to, span) else None

    def _aside_pynative(self, path: str, content: Mapping[Any, Any]) -> None:
        declared = table("pynative")["keys"]
        for key in list(content):
            way = f"{path}.{key}" if path else str(key)
            spans = declared.get(way)
            open_since = table("pynative")["open"].get(path)
            if spans and not any(in_span(self.to, span) for span in spans):
                self._aside(_way(way), next(iter(spans)))
            elif spans and isinstance(content[key], Mapping):
                self._aside_pynative(way, content[key])
            elif not spans and not (open_since and in_span(self.to, open_since)):
                self._block(self._unknown(path, str(key)))

    def _aside(self, way: Way, span: str) -> None:
        first, last = span.split("-")
        newer = bool(first) and not since(self.to, first)
        mark = f"from {first}" if newer else f"until {last}"
        version = first if newer else _after(last)
        path = ".".join(way)
        try:
            self.editor.comment_out(way, f"# mindport {mark}: ")
            note = tr("it came with MindFormers {version}", version=first) if newer else tr("MindFormers {version} no longer has it", version=version)
            self.step(DROPPED, path, "", version, note)
        except CannotEditError as error:
            self.left(path, "", version, error)

    def _unknown(self, section: str, key: str) -> list[tuple[str, list[str]]]:
        path = f"{section}.{key}"
        try:
            lines = self.editor.take(_way(path))
        except CannotEditError as error:
            self.left(path, "", "", error)
            return []
        home = belongs_to(section, key)
        note = tr("no version of MindFormers knows it; it is in the block at the end")
        if home:
            note = tr("it has no use here, and its place is taken; it is in the block at the end")
        self.step(KEPT, path, home or "", "", note)
        return [(section, lines)]

    def _block(self, unknown: list[tuple[str, list[str]]]) -> None:
        if not unknown:
            return
        begin = "# ---- mindport: keys that MindFormers does not know, kept as comments ----"
        lines = [] if begin in self.editor.text else [begin]
        for section, content in unknown:
            lines += [f"# {section}:", *(f"#   {line}" for line in content)]
        self.editor.append(lines)

    def _report_top_level(self) -> None:
        general = section_keys("general_config") or {}
        for key in self.values:
            if key not in general and key not in SECTIONS:
                self.step(KEPT, str(key), "", "", tr("MindFormers does not know it, and lets it be; it stays where it is"))


def _known_general(old: str, new: str, version: Version) -> bool:
    spans = section_keys("general_config") or {}
    return any(name in spans and in_span(version, spans[name]) for name in (old, new))


def _way(path: str) -> Way:
    return tuple(path.split(".")) if path else ()


def _changed(before: Mapping[Any, Any], after: Mapping[Any, Any], path: str = "") -> list[str]:
    """The keys that were added, removed or given another value; of a whole section, the section."""
    found = []
    for key in dict.fromkeys([*before, *after]):
        way = f"{path}.{key}" if path else str(key)
        old, new = before.get(key, _ABSENT), after.get(key, _ABSENT)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += _changed(old, new, way)
        elif repr(old) != repr(new):
            found.append(way)
    return found


_ABSENT = object()


def _before(name: str) -> str:
    """The version before one."""
    names = list(VERSIONS)
    return names[names.index(name) - 1]


def _after(name: str) -> str:
    """The version after one."""
    names = list(VERSIONS)
    return names[names.index(name) + 1]


def default_output(path: Path, to: Version) -> Path:
    """Where a carried file goes if nobody says: beside the old one, with the version in its name."""
    return path.with_name(f"{path.stem}_mindformers_{to.name}{path.suffix}")
