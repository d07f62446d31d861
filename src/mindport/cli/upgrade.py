"""`mindport upgrade`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mindport.cli.options import Json
from mindport.cli.output import finish, print_table
from mindport.cli.validate import print_finding
from mindport.config.mindformers.findings import ERROR
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.records.formats import printable

if TYPE_CHECKING:
    from mindport.config.mindformers.upgrade import Upgrade
    from mindport.config.mindformers.upgrade_work import UpgradeStep


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help=tr("A MindFormers YAML."), show_default=False)],
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="VERSION", help=tr("Version of MindFormers to go to, newer or older."), show_default=False
        ),
    ],
    start: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="VERSION", help=tr("Version that the file is for, where it is known."), show_default=False
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="OUT", help=tr("File to write; beside FILE, if not given."), show_default=False
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help=tr("Replace the file if it exists."))] = False,
    as_json: Json = False,
) -> None:
    # Rules and tables that no other verb needs.
    from mindport.config.mindformers.upgrade import default_output, upgrade
    from mindport.config.mindformers.validate import validate_file
    from mindport.config.yaml_file import parse_yaml, read_yaml, write_text
    from mindport.targets.mindformers import version_named

    target = version_named(to)
    source = read_yaml(file)
    done = upgrade(source, target, version_named(start) if start is not None else None)
    written = output or default_output(file, target)
    write_text(written, done.text, overwrite=overwrite)
    findings = validate_file(parse_yaml(done.text, written), target).findings
    errors = [finding for finding in findings if finding.level == ERROR]
    if not as_json:
        _print(done, written)
        for finding in errors:
            print_finding(finding)
    result = {"path": file, "output": written, "version": target.name, "steps": done.steps, "findings": findings}
    finish(result, _error(done, len(errors), target.name), as_json=as_json)


def _print(done: Upgrade, written: Path) -> None:
    if done.steps:
        print_table(("key", "done", "to", "since", "note"), [_cells(step) for step in done.steps])
    else:
        typer.echo(tr("Nothing had to be changed."))
    typer.echo(tr("written to {path}", path=printable(str(written))))


def _cells(step: UpgradeStep) -> tuple[str, ...]:
    return (step.path or "-", tr(step.action), step.to or "-", step.version or "-", step.note)


def _error(done: Upgrade, errors: int, version: str) -> MindportError | None:
    from mindport.config.mindformers.upgrade_work import LEFT

    left = sum(step.action == LEFT for step in done.steps)
    if left:
        return MindportError(
            tr("{count} things are left to be done by hand; the rest is done.", count=left),
            tr("The notes say why; change them in the file that was written."),
        )
    if errors:
        return MindportError(
            tr(
                "Everything was carried over, and MindFormers {version} would not train with it as meant.",
                version=version,
            ),
            tr("Correct the errors above, or those under `findings`."),
        )
    return None
