"""Lines that belong to other versions: as comments with a mark, and back; and added lines with one, taken out again.

# mindport from 1.9: grouped_lr_schedule:       known from that version on
# mindport until 1.5: auto_tune: False          known up to that version
type: AdamW  # mindport added, from 1.6         stands there only from that version on
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mindport.config.mindformers.known import in_span, since
from mindport.config.mindformers.upgrade_work import DROPPED, RESTORED, Work, after
from mindport.config.yaml_edit import CannotEditError, Way
from mindport.i18n import tr
from mindport.targets.mindformers import VERSIONS

_MARK = re.compile(r"# mindport (from|until) ([\d.]+): ")
_ADDED_MARK = re.compile(r"  # mindport added, (from|until) ([\d.]+)(?=\r?$)", re.MULTILINE)


def mark(span: str) -> str:
    """What a set-aside line begins with; the span as "from 1.9" or "until 1.5"."""
    return f"# mindport {span}: "


def added(span: str) -> str:
    """What an added line ends with."""
    return f"  # mindport added, {span}"


def settle_marks(work: Work) -> None:
    """Lines set aside, or added, for other versions than this one."""
    for found in {match[0]: match for match in _ADDED_MARK.finditer(work.editor.text)}.values():
        if not _belongs(work, found[1], found[2]):
            _settled(
                work, found[2], lambda mark=found[0]: work.editor.drop_lines(mark), tr("lines added for other versions")
            )
    for found in {match[0]: match for match in _MARK.finditer(work.editor.text)}.values():
        if _belongs(work, found[1], found[2]):
            _settled(
                work,
                found[2],
                lambda mark=found[0]: work.editor.uncomment(mark),
                tr("lines set aside for this version"),
            )


def _settled(work: Work, version: str, change: Any, what: str) -> None:
    before = work.editor.file
    try:
        change()
    except CannotEditError as error:
        work.left(what, "", version, error)
        return
    for path in _changed(before.values, work.values) or [""]:
        work.step(RESTORED, path, "", version, what)


def _belongs(work: Work, word: str, name: str) -> bool:
    if name not in VERSIONS:
        return False
    return in_span(work.to, f"{name}-" if word == "from" else f"-{name}")


def aside(work: Work, way: Way, span: str) -> None:
    """Turn a key of another version into a marked comment, and note it down."""
    first, last = span.split("-")
    newer = bool(first) and not since(work.to, first)
    span = f"from {first}" if newer else f"until {last}"
    version = first if newer else after(last)
    path = ".".join(way)
    try:
        work.editor.comment_out(way, mark(span))
        note = (
            tr("it came with MindFormers {version}", version=first)
            if newer
            else tr("MindFormers {version} no longer has it", version=version)
        )
        work.step(DROPPED, path, "", version, note)
    except CannotEditError as error:
        work.left(path, "", version, error)


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
