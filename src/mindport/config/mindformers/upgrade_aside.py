"""What a version has no place for: keys, sections and classes it does not know, set aside, kept, or named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mindport.config.mindformers.changes import SECTION_SPANS
from mindport.config.mindformers.known import (
    COMPONENTS,
    components,
    in_span,
    section_keys,
    strict_sections,
    table,
    versions_in,
)
from mindport.config.mindformers.misplaced import belongs_to, reason_for
from mindport.config.mindformers.plan import value_at
from mindport.config.mindformers.section_rules import SECTIONS
from mindport.config.mindformers.upgrade_marks import aside
from mindport.config.mindformers.upgrade_work import KEPT, Work, way_of
from mindport.config.yaml_edit import CannotEditError
from mindport.i18n import tr
from mindport.targets.mindformers.versions import MCORE, PYNATIVE


def set_aside(work: Work) -> None:
    """Keys and sections that the version does not know: as comments in their place, or in a block at the end."""
    if work.generation == PYNATIVE:
        _aside_pynative(work, "", work.values)
        return
    for section, span in {**SECTION_SPANS, **(section_keys("general_config") or {})}.items():
        if section in work.values and not in_span(work.to, span):
            aside(work, (section,), span)
    if work.generation == MCORE:
        for key, span in table("mcore_fields").items():
            if value_at(work.values, f"model.model_config.{key}") is not None and not in_span(work.to, span):
                aside(work, ("model", "model_config", key), span)
    unknown: list[tuple[str, list[str]]] = []
    for section in (*strict_sections(), "monitor_config.stable_rank_config"):
        spans = section_keys(section.rpartition(".")[2]) or {}
        content = value_at(work.values, section)
        if isinstance(content, Mapping):
            for key in list(content):
                if key not in spans:
                    unknown += _unknown(work, section, str(key))
                elif not in_span(work.to, spans[key]):
                    aside(work, (*way_of(section), str(key)), spans[key])
    _report_top_level(work)
    _block(work, unknown)


def set_aside_classes(work: Work) -> None:
    """Callbacks that the version does not have; of other classes, it is only said."""
    if work.generation == PYNATIVE:
        return
    given = work.values.get("callbacks")
    callbacks = given if isinstance(given, list) else []
    for number in reversed(range(len(callbacks))):
        span = _gone(work, "callbacks", callbacks[number])
        if span:
            aside(work, ("callbacks", str(number)), span)
    for section, kind in COMPONENTS.items():
        part = value_at(work.values, section)
        span = _gone(work, kind, part) if kind not in ("callbacks", "model", "model_config") else None
        if span and not any(step.path == f"{section}.type" for step in work.steps):
            reason = tr("the class is in MindFormers {versions} only", versions=versions_in(span))
            work.left(f"{section}.type", "", "", CannotEditError(reason))


def _gone(work: Work, kind: str, part: Any) -> str | None:
    """The span of the class that a part names, where the version is not in it."""
    name = part.get("type") if isinstance(part, Mapping) else None
    span = components(kind).get(name) if isinstance(name, str) else None
    return span if span and not in_span(work.to, span) else None


def _aside_pynative(work: Work, path: str, content: Mapping[Any, Any]) -> None:
    declared = table("pynative")["keys"]
    for key in list(content):
        way = f"{path}.{key}" if path else str(key)
        spans = declared.get(way)
        open_since = table("pynative")["open"].get(path)
        if spans and not any(in_span(work.to, span) for span in spans):
            aside(work, way_of(way), next(iter(spans)))
        elif spans and isinstance(content[key], Mapping):
            _aside_pynative(work, way, content[key])
        elif not spans and not (open_since and in_span(work.to, open_since)):
            _block(work, _unknown(work, path, str(key)))


def _unknown(work: Work, section: str, key: str) -> list[tuple[str, list[str]]]:
    path = f"{section}.{key}"
    try:
        lines = work.editor.take(way_of(path))
    except CannotEditError as error:
        work.left(path, "", "", error)
        return []
    home, because = belongs_to(section, key), reason_for(section, key)
    note = tr("no version of MindFormers knows it; it is in the block at the end")
    if because and not home:
        note = tr("{reason}; it is in the block at the end", reason=tr(because))
    if home:
        note = tr("it has no use here, and its place is taken; it is in the block at the end")
    work.step(KEPT, path, home or "", "", note)
    return [(section, lines)]


def _block(work: Work, unknown: list[tuple[str, list[str]]]) -> None:
    if not unknown:
        return
    begin = "# ---- mindport: keys that MindFormers does not know, kept as comments ----"
    lines = [] if begin in work.editor.text else [begin]
    for section, content in unknown:
        lines += [f"# {section}:", *(f"#   {line}" for line in content)]
    work.editor.append(lines)


def _report_top_level(work: Work) -> None:
    general = section_keys("general_config") or {}
    for key in work.values:
        if key not in general and key not in SECTIONS:
            work.step(KEPT, str(key), "", "", tr("MindFormers does not know it, and lets it be; it stays where it is"))
