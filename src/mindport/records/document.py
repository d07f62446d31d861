"""What the record and the report of a migration say."""

from __future__ import annotations

from collections.abc import Iterable

from mindport.config.audit import UNHANDLED
from mindport.i18n import language, tr
from mindport.records.blocks import (
    Bullets,
    Document,
    Section,
)
from mindport.records.figures import figures
from mindport.records.migration import Migration
from mindport.records.sections import (
    config_section,
    embeddings_sections,
    model_section,
    parity_section,
    stages_section,
    text_sections,
    training_section,
    weights_section,
)
from mindport.version import __version__


def describe(migration: Migration) -> Document:
    """Everything worth saying about a migration, in the active language."""
    sections = (
        Section("model", tr("Model"), model_section(migration)),
        Section("stages", tr("Stages"), stages_section(migration)),
        Section("forward", tr("Forward parity"), parity_section(migration)),
        *text_sections(migration),
        *embeddings_sections(migration),
        Section("training", tr("Training steps"), training_section(migration)),
        Section("config", tr("Configuration"), config_section(migration)),
        Section("tensors", tr("Weights"), weights_section(migration)),
    )
    if migration.remarks:
        sections += (Section("remarks", tr("Remarks"), (Bullets(tuple(map(tr, migration.remarks))),)),)
    failed = [tr(stage.name) for stage in migration.stages if not stage.passed]
    return Document(
        language=language(),
        title=tr("Migration of {source} to {target}", source=migration.source, target=migration.target),
        passed=migration.passed,
        verdict=tr("The migration passed every check that was run.")
        if migration.passed
        else tr("The migration did not pass: {names}.", names=", ".join(failed)),
        figures=tuple(figures(migration)),
        warnings=tuple(_warnings(migration)),
        sections=sections,
        footer=tr(
            "Written by Mindport {version}. report.html shows the same with curves, migration.json as data.",
            version=__version__,
        ),
    )


def _warnings(migration: Migration) -> Iterable[str]:
    unhandled = sum(row.status == UNHANDLED for row in migration.fields)
    if unhandled:
        yield tr(
            "Unhandled config keys: {count}. Mindport does not know what they do; check each of them.",
            count=unhandled,
        )
    if not any(migration.parity.values()):
        yield tr("Forward parity was not checked.")
    if migration.alignment is None:
        yield tr("Training was not checked.")
    elif len(set(migration.alignment.losses)) < 2:
        yield tr("The loss did not change between steps: the weights may not have been updated.")
