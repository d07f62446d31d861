"""The table of changes, applied to a file: new names for a newer version, old ones for an older one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mindport.config.mindformers.changes import (
    ADAM,
    ADAM_SINCE,
    ADAM_UNTIL,
    CHANGES,
    Change,
    Reclassed,
    Redefaulted,
    Renamed,
)
from mindport.config.mindformers.known import components, in_span, respelt, section_keys, since
from mindport.config.mindformers.plan import value_at
from mindport.config.mindformers.upgrade_marks import added, mark
from mindport.config.mindformers.upgrade_work import ADDED, DROPPED, RENAMED, Work, before, way_of
from mindport.config.yaml_edit import CannotEditError
from mindport.i18n import tr
from mindport.targets.mindformers import Version


def apply_table(work: Work) -> None:
    """New names for a newer version, in order; old ones for an older one, backwards."""
    for change in CHANGES:
        if since(work.to, change.version) and work.between(change.version):
            _apply(work, change, forward=True)
    for change in reversed(CHANGES):
        if not since(work.to, change.version) and work.between(change.version):
            _apply(work, change, forward=False)


def _apply(work: Work, change: Change, *, forward: bool) -> None:
    if work.generation not in change.generations:
        return
    old, new = (change.old, change.new) if forward else (change.new, change.old)
    if isinstance(change, Renamed):
        if not forward and change.section == "" and not _known_general(old, new, work.to):
            return  # neither name is known there: it is set aside under its own
        _rename(work, change, old, new)
    elif isinstance(change, Reclassed):
        for path in _holders(work, change.path, old):
            _replace(work, path, new, change.version)
    elif isinstance(change, Redefaulted):
        _write_default(work, change, forward=forward)
    elif not forward:
        _write_back(work, change.version, old, new)


def _write_default(work: Work, change: Redefaulted, *, forward: bool) -> None:
    """What absence meant in the file's version is written down, since it will mean something else."""
    names = (change.path, change.before)
    settled = {step.path for step in work.steps}  # a line of an earlier run, taken back: it was absent before
    if work.start is None or any(work.editor.entry(way_of(name)) or name in settled for name in names):
        return
    path, value = (change.path, change.old) if forward else (change.before, change.new)
    span = f"from {change.version}" if forward else f"until {before(change.version)}"
    section, _, key = path.rpartition(".")
    try:
        work.editor.put(way_of(section), [f"{key}: {value}{added(span)}"])
        note = tr(
            "absent, it meant {old} before, and means {new} now",
            old=value,
            new=change.new if forward else change.old,
        )
        work.step(ADDED, path, value, change.version, note)
    except CannotEditError as error:
        work.left(path, value, change.version, error)


def _rename(work: Work, change: Renamed, old: str, new: str) -> None:
    way = way_of(f"{change.section}.{old}" if change.section else old)
    if work.editor.entry(way) is None:
        return
    try:
        work.editor.rename(way, new)
        work.step(
            RENAMED,
            ".".join(way),
            new,
            change.version,
            tr("its name in MindFormers {version}", version=work.to.name),
        )
    except CannotEditError as error:
        work.left(".".join(way), new, change.version, error)


def _holders(work: Work, path: str, word: str) -> Iterator[str]:
    """The keys that hold a word: the one at a path, or, of a list, those of its parts."""
    section, _, key = path.rpartition(".")
    content = value_at(work.values, section)
    parts = (
        [(f"{section}.{n}", part) for n, part in enumerate(content)]
        if isinstance(content, list)
        else [(section, content)]
    )
    for place, part in parts:
        if isinstance(part, Mapping) and part.get(key) == word:
            yield f"{place}.{key}"


def _replace(work: Work, path: str, word: str, version: str, why: str = "") -> None:
    old = work.editor.source_of(way_of(path))
    try:
        work.editor.replace(way_of(path), word)
        work.step(RENAMED, path, word, version, why or tr("it was {old}", old=old))
    except CannotEditError as error:
        work.left(path, word, version, error)


def _write_back(work: Work, version: str, new: str, old: str) -> None:
    """A setting of a newer section, written where older versions read it."""
    value = value_at(work.values, new)
    general = section_keys("general_config") or {}
    if value in (None, "") or isinstance(value, Mapping | list) or not in_span(work.to, general[old]):
        return
    until = before(version)
    try:
        with work.editor.undone_on_failure():
            source = work.editor.source_of(way_of(new))
            if value_at(work.values, old) not in (None, "", False):
                raise CannotEditError(tr("{key} says something else already", key=old))
            if work.editor.entry(way_of(old)) is not None:
                work.editor.comment_out(way_of(old), mark(f"from {version}"))
            work.editor.put((), [f"{old}: {source}{added(f'until {until}')}"])
        work.step(ADDED, old, source, version, tr("from {key}, which older versions do not read", key=new))
    except CannotEditError as error:
        work.left(new, old, version, error)


def respell(work: Work) -> None:
    """Callbacks that no version has, but for their spelling."""
    spans = components("callbacks")
    for section in ("callbacks", "eval_callbacks"):
        content = work.values.get(section)
        for number, part in enumerate(content if isinstance(content, list) else ()):
            name = part.get("type") if isinstance(part, Mapping) else None
            right = respelt(name, spans) if isinstance(name, str) else None
            if right:
                _replace(work, f"{section}.{number}.type", right, "", tr("no version has {name}", name=name))


def replace_adam(work: Work) -> None:
    """Older optimizers become AdamW, and AdamW one of these where it is not there yet."""
    name = value_at(work.values, "optimizer.type")
    if since(work.to, "1.6") and name in ADAM and work.between("1.6"):
        mine = {key: work.word(f"optimizer.{key}") for key in ("beta1", "beta2")}
        new = {"type": "AdamW"}
        if any(mine.values()):
            new["betas"] = f"[{mine['beta1'] or '0.9'}, {mine['beta2'] or '0.999'}]"
        _exchange(work, ("beta1", "beta2"), new, f"until {ADAM_UNTIL}", "from 1.6", "1.6")
    elif not since(work.to, ADAM_SINCE) and name == "AdamW" and work.between(ADAM_SINCE):
        betas = value_at(work.values, "optimizer.betas")
        new = {"type": ADAM[0]}
        if isinstance(betas, list) and len(betas) == 2:
            new |= {"beta1": str(betas[0]), "beta2": str(betas[1])}
        _exchange(work, ("betas",), new, f"from {ADAM_SINCE}", f"until {before(ADAM_SINCE)}", ADAM_SINCE)


def _exchange(work: Work, gone: tuple[str, ...], new: dict[str, str], mine: str, theirs: str, version: str) -> None:
    """Set keys of the optimizer aside, and write others in their place."""
    old = work.word("optimizer.type")
    try:
        with work.editor.undone_on_failure():
            lines = [f"{key}: {value}{added(theirs)}" for key, value in new.items()]
            work.editor.put_after(("optimizer", "type"), lines[1:])
            for key in gone:
                if work.editor.entry(("optimizer", key)):
                    work.editor.comment_out(("optimizer", key), mark(mine))
            work.editor.put_after(("optimizer", "type"), [f"mindport_type: {new['type']}{added(theirs)}"])
            work.editor.comment_out(("optimizer", "type"), mark(mine))
            work.editor.rename(("optimizer", "mindport_type"), "type")
    except CannotEditError as error:
        work.left("optimizer.type", new["type"], version, error)
        return
    work.step(RENAMED, "optimizer.type", new["type"], version, tr("it was {old}", old=old))
    for key, value in list(new.items())[1:]:
        work.step(ADDED, f"optimizer.{key}", value, version, tr("what {optimizer} takes", optimizer=new["type"]))
    for key in gone:
        if f"{mark(mine)}{key}:" in work.editor.text:
            work.step(
                DROPPED, f"optimizer.{key}", "", version, tr("{optimizer} does not take it", optimizer=new["type"])
            )


def _known_general(old: str, new: str, version: Version) -> bool:
    spans = section_keys("general_config") or {}
    return any(name in spans and in_span(version, spans[name]) for name in (old, new))
