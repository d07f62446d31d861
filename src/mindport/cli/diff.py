"""`mindport diff`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mindport.cli.options import Declarations, Json, with_declarations
from mindport.cli.output import print_json, print_table, short
from mindport.config.diff import ADDED, BOOKKEEPING, REMOVED, SAME, Change, ConfigDiff, count_effects, diff
from mindport.i18n import tr
from mindport.records.formats import printable

_CONFIG = tr("A configuration of any kind, or the folder that holds it.")


def command(
    context: typer.Context,
    a: Annotated[Path, typer.Argument(metavar="A", help=_CONFIG, show_default=False)],
    b: Annotated[Path, typer.Argument(metavar="B", help=_CONFIG, show_default=False)],
    raw: Annotated[
        bool, typer.Option("--raw", help=tr("Show keys, too, that only spell the same differently."))
    ] = False,
    declarations: Declarations = None,
    as_json: Json = False,
) -> None:
    with_declarations(context, declarations, a, b)
    found = diff(a, b)
    if as_json:
        print_json(
            {"equal": found.equal, "a": found.a, "b": found.b, "fields": found.fields, "keys": found.keys}
            | {"slots": found.slots}
        )
    else:
        _print(found, raw)
    if not found.equal:
        raise typer.Exit(1)


def _print(found: ConfigDiff, raw: bool) -> None:
    for name, side in (("A", found.a), ("B", found.b)):
        typer.echo(printable(f"{name}: {side.path}, {side.hf_class} ({side.model_type})"))
    if found.fields:
        print_table(("MindSpore field", "in A", "in B", "changes"), [_field_cells(change) for change in found.fields])
    quiet = [change for change in found.keys if change.effect in (SAME, BOOKKEEPING)]
    keys = [change for change in found.keys if raw or change not in quiet]
    if keys:
        print_table(
            ("key", "change", "in A", "in B", "changes", "MindSpore field"), [_key_cells(change) for change in keys]
        )
    if quiet and not raw:
        typer.echo(tr("{count} keys differ in spelling or bookkeeping only; --raw shows them.", count=len(quiet)))
    if any((found.slots.added, found.slots.removed, found.slots.reshaped)):
        typer.echo(
            tr(
                "weights: {added} added, {removed} removed, {reshaped} of another shape",
                added=found.slots.added,
                removed=found.slots.removed,
                reshaped=found.slots.reshaped,
            )
        )
    if found.equal:
        typer.echo(tr("No difference in meaning."))
    elif found.fields:
        counts = ", ".join(f"{tr(effect)} {count}" for effect, count in count_effects(found.fields).items())
        typer.echo(tr("{count} fields differ: {counts}", count=len(found.fields), counts=counts))


def _field_cells(change: Change) -> tuple[str, ...]:
    return (change.path, *_values(change), tr(change.effect))


def _key_cells(change: Change) -> tuple[str, ...]:
    goes_to = ", ".join(change.fields) or (tr(change.note) if change.note else "-")
    return (change.path, tr(change.change), *_values(change), tr(change.effect), goes_to)


def _values(change: Change) -> tuple[str, str]:
    return ("-" if change.change == ADDED else short(change.a), "-" if change.change == REMOVED else short(change.b))
