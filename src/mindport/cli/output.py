"""What verbs print: tables for people, JSON for machines, errors in one sentence."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from mindport.config.hf import ModelConfig
from mindport.config.strict_json import strict_json
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.records.formats import printable

if TYPE_CHECKING:
    from mindport.checkpoint.carry_out import Progress
    from mindport.verify.compare import Difference
    from mindport.verify.gates import Gate


def print_json(value: Any) -> None:
    """Indented JSON on standard output."""
    typer.echo(strict_json(value))


def finish(result: Mapping[str, Any], error: MindportError | None, *, as_json: bool) -> None:
    """End a verb that has a result, good or bad: with JSON, one object that holds the result and the error.

    Raises:
        MindportError: the error, where the result was already shown to people.
        typer.Exit: status 1, where the error is part of the JSON.
    """
    if not as_json:
        if error:
            raise error
        return
    print_json({**result, **({"error": error.as_dict()} if error else {})})
    if error:
        raise typer.Exit(1)


def print_error(error: MindportError, *, as_json: bool) -> None:
    """The error on standard error, or as an object on standard output where JSON was asked for."""
    if as_json:
        print_json({"error": error.as_dict()})
    else:
        typer.secho(f"{tr('error')}: {printable(str(error), lines=True)}", err=True, fg="red")


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Aligned columns under headers in the user's language; the last column is not padded."""
    table = [[tr(header) for header in headers], *[[printable(cell) for cell in row] for row in rows]]
    widths = [max(map(_width, column)) for column in zip(*table, strict=True)]
    for number, row in enumerate(table):
        cells = [cell + " " * (width - _width(cell)) for cell, width in zip(row[:-1], widths, strict=False)]
        typer.secho("  ".join([*cells, row[-1]]).rstrip(), bold=number == 0)


def print_parity(differences: Sequence[tuple[str, Difference]], gate: Gate) -> None:
    """A table of comparisons, each in a mode, with its verdict."""
    print_table(
        ("mode", "output", "max abs error", "mean abs error", "scale", "cosine", "top-1", "verdict"),
        [
            (
                mode,
                d.what,
                f"{d.max_abs:.2e}",
                f"{d.mean_abs:.2e}",
                f"{d.scale:.2f}",
                f"{d.cosine:.8f}",
                "-" if d.top1 is None else f"{d.top1:.1%}",
                verdict(d.passes(gate)),
            )
            for mode, d in differences
        ],
    )


def verdict(passed: bool) -> str:
    """In a cell of a table."""
    return tr("pass") if passed else tr("FAIL")


def read_and_left_out(model: ModelConfig) -> str:
    """Of a composite config: which part was read, and the keys that were not."""
    left_out = printable(", ".join(model.part.left_out)) or "-"
    return tr("Only the text model, {part}, is read. Left out: {keys}", part=model.part.name, keys=left_out)


def warn_unused(keys: Sequence[str]) -> None:
    """Name the keys of a configuration that say nothing that is known, if there are any."""
    named = printable(", ".join(keys))
    if named:
        text = tr("These config keys are not known and were not used: {keys}.", keys=named)
        typer.secho(text, err=True, fg="yellow")


def short(value: Any, most: int = 40) -> str:
    """A value as JSON, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= most else text[: most - 3] + "..."


def print_stage(name: str, passed: bool, summary: str, seconds: float) -> None:
    """One line about a finished stage."""
    mark = typer.style("ok  ", fg="green") if passed else typer.style("FAIL", fg="red")
    label = tr(name)
    typer.echo(f"{mark} {label}{' ' * max(1, 26 - _width(label))}{seconds:7.1f} s  {summary}")


@contextmanager
def byte_progress(total: int | None, what: str) -> Iterator[Progress]:
    """A progress bar with rate and time left, on a terminal; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn(what), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda count: progress.update(task, advance=count)


def _width(text: str) -> int:
    """Columns of a terminal that a text takes; Chinese characters take two."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)
