"""`mindport validate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mindport.cli.options import Json
from mindport.cli.output import finish
from mindport.config.mindformers.findings import ERROR, NOTE, WARNING, ConfigFinding
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.records.formats import printable

if TYPE_CHECKING:
    from mindport.config.mindformers.validate import Validation

_COLOURS = {ERROR: "red", WARNING: "yellow", NOTE: "cyan"}


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help=tr("A MindFormers YAML."), show_default=False)],
    version: Annotated[
        str | None,
        typer.Option(
            "--version",
            metavar="VERSION",
            help=tr("Version of MindFormers; the newest that Mindport has run, if not given."),
            show_default=False,
        ),
    ] = None,
    devices: Annotated[
        int | None,
        typer.Option("--devices", metavar="N", min=1, help=tr("Devices there are."), show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    from mindport.config.mindformers.validate import validate  # rules and tables that no other verb needs

    found = validate(file, version, devices)
    if not as_json:
        typer.echo(
            tr(
                "{path}: MindFormers {version} ({evidence}), {generation}",
                path=printable(str(found.path)),
                version=found.version,
                evidence=found.evidence,
                generation=found.generation,
            )
        )
        for finding in found.findings:
            print_finding(finding)
        typer.echo(_summary(found))
    errors = found.count(ERROR)
    error = None
    if errors:
        error = MindportError(
            tr("{count} errors: MindFormers {version} would not train as meant.", count=errors, version=found.version),
            tr("Correct them, from the first on."),
        )
    result = {
        "path": found.path,
        "version": found.version,
        "generation": found.generation,
        "evidence": found.evidence,
        "devices": found.devices,
        "global_batch_size": found.global_batch_size,
        "findings": found.findings,
    }
    finish(result, error, as_json=as_json)


def print_finding(finding: ConfigFinding) -> None:
    """A line on what is wrong and where, and a line on why, and what would work."""
    place = printable(finding.path)
    if finding.line is not None:
        place = tr("line {line}, {path}", line=finding.line, path=place)
    label = typer.style(tr(finding.level), fg=_COLOURS[finding.level])
    typer.echo(f"{label} {finding.code} ({place}): {printable(finding.message)}")
    reason = tr("Why: {reason}.", reason=printable(finding.reason))
    works = tr("Works: {fix}", fix=printable(finding.fix)) if finding.fix else ""
    typer.echo(f"    {reason} {works}".rstrip())


def _summary(found: Validation) -> str:
    counts = tr(
        "{errors} errors, {warnings} warnings, {notes} notes",
        errors=found.count(ERROR),
        warnings=found.count(WARNING),
        notes=found.count(NOTE),
    )
    if found.devices is None or found.global_batch_size is None:
        return counts
    plan = tr("{devices} devices, {batch} sequences in a step", devices=found.devices, batch=found.global_batch_size)
    return f"{counts}; {plan}"
