"""What verbs print: tables for people, JSON for machines, errors in one sentence."""

from __future__ import annotations

import dataclasses
import json
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from mindport.errors import MindportError
from mindport.i18n import tr

if TYPE_CHECKING:
    from mindport.checkpoint.execute import Progress


def print_json(value: Any) -> None:
    """Indented JSON on standard output."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, default=_plain))


def print_error(error: MindportError, *, as_json: bool) -> None:
    """The error on standard error, or as an object on standard output where JSON was asked for."""
    if as_json:
        print_json({"error": {"message": error.message, "fix": error.fix}})
    else:
        typer.secho(f"{tr('error')}: {error}", err=True, fg="red")


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Aligned columns; the last one is not padded."""
    table = [list(headers), *[[str(cell) for cell in row] for row in rows]]
    widths = [max(map(_width, column)) for column in zip(*table, strict=True)]
    for number, row in enumerate(table):
        cells = [cell + " " * (width - _width(cell)) for cell, width in zip(row[:-1], widths, strict=False)]
        typer.secho("  ".join([*cells, row[-1]]).rstrip(), bold=number == 0)


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


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(type(value).__name__)
