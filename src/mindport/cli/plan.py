"""The plan of a conversion, for people and for machines: `--dry-run`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from mindport.cli.output import print_json, print_table
from mindport.i18n import tr
from mindport.records.formats import printable

if TYPE_CHECKING:
    from mindport.checkpoint.convert import Planned
    from mindport.checkpoint.implied import Implied


def show_plan(planned: Planned, folder: Path, *, as_json: bool) -> None:
    """Print what a conversion would do. Nothing is written.

    Raises:
        typer.Exit: status 1, if it could not be done.
    """
    from mindport.checkpoint.carry_out import free_bytes
    from mindport.checkpoint.estimate import peak_bytes
    from mindport.checkpoint.implied import describe
    from mindport.checkpoint.problems import collapse
    from mindport.checkpoint.ranks import rank_of

    rank = rank_of(os.environ)
    if rank is None or rank.number:  # one of several processes is enough
        return
    plan, job = planned.plan, planned.job
    free = free_bytes(folder)
    files = job.files if job else ()
    needed = sum(file.nbytes for file in files)
    possible = job is not None and needed <= free
    if as_json:
        print_json(
            {
                "possible": possible,
                "problems": [{"tensor": problem.tensor, "what": problem.what} for problem in plan.problems],
                "implied": [_implied(found) for found in planned.implied],
                "stray": list(planned.found.stray),
                "skipped": dict(plan.skipped),
                "tied_copies": sorted(plan.copies),
                "files": [{"name": file.name, "nbytes": file.nbytes, "tensors": len(file.outputs)} for file in files],
                "bytes_in": plan.bytes_in,
                "bytes_out": needed,
                "peak_memory": peak_bytes(plan) if job else None,
                "free": free,
            }
        )
    else:
        _print(planned, collapse(plan.problems), describe(list(planned.implied)))
        if job:
            print_table(
                ("file", "tensors", "size (MB)"),
                [(file.name, str(len(file.outputs)), f"{file.nbytes / 1e6:,.1f}") for file in files],
            )
            typer.echo(
                tr(
                    "read {read:,.1f} MB, write {write:,.1f} MB, {free:,.1f} MB free; about {peak:,.0f} MB of memory",
                    read=plan.bytes_in / 1e6,
                    write=needed / 1e6,
                    free=free / 1e6,
                    peak=peak_bytes(plan) / 1e6,
                )
            )
            if not possible:
                typer.secho(tr("The disk is too full."), fg="red")
    if not possible:
        raise typer.Exit(1)


def _print(planned: Planned, problems: list[tuple[str, str]], hint: str) -> None:
    plan = planned.plan
    if problems:
        print_table(("tensor", "problem"), problems)
    if hint:
        typer.secho(printable(hint), fg="yellow")
    if planned.found.stray:
        names = printable(", ".join(planned.found.stray))
        typer.secho(tr("Weight files that are not read: {names}", names=names), fg="yellow")
    counted: dict[str, int] = {}
    for reason in plan.skipped.values():
        counted[reason] = counted.get(reason, 0) + 1
    for reason, count in counted.items():
        typer.echo(tr("left out: {count} tensors: {reason}", count=count, reason=tr(reason)))
    if plan.copies:
        typer.echo(tr("left out: {count} copies of tied weights, once they are found equal", count=len(plan.copies)))


def _implied(found: Implied) -> dict[str, Any]:
    return {
        "field": found.field,
        "keys": list(found.keys),
        "config": found.config,
        "tensors": found.tensors,
        "explains": found.explains,
        "alternatives": [_implied(other) for other in found.alternatives],
    }
