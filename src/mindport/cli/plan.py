"""The plan of a conversion, for people and for machines: `--dry-run`."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from mindport.cli.output import byte_progress, print_json, print_table
from mindport.cli.weights import resumable
from mindport.i18n import tr
from mindport.records.formats import printable

if TYPE_CHECKING:
    from mindport.checkpoint.convert import Planned
    from mindport.checkpoint.implied import Implied
    from mindport.checkpoint.plan import Plan


def carried_out(planned: Planned, output: Path, *, dry_run: bool, overwrite: bool, resume: bool, as_json: bool) -> bool:
    """Show a plan or carry it out, with a progress bar.

    Returns:
        whether this process published the folder, so that there is something to tell.

    Raises:
        MindportError: see `carry_out`.
        PlanError: there are problems.
        typer.Exit: status 1, if it was only to be shown and is not possible.
    """
    from mindport.checkpoint.carry_out import carry_out

    if dry_run:
        show_plan(planned, output, as_json=as_json)
        return False
    job = planned.ready()
    with resumable(output), byte_progress(job.nbytes, tr("writing weights")) as progress:
        return carry_out(job, output, overwrite=overwrite, resume=resume, progress=progress)


def print_written(path: Path, plan: Plan, seconds: float) -> None:
    """How much was written, and how long it took."""
    typer.echo(
        tr(
            "{path}: {count} tensors, {mb:.1f} MB in {seconds:.1f} s",
            path=path,
            count=len(plan.outputs),
            mb=plan.bytes_out / 1e6,
            seconds=seconds,
        )
    )


def print_left_out(plan: Plan) -> None:
    """How many tensors are left out, by reason."""
    for reason, count in Counter(plan.skipped.values()).items():
        typer.echo(tr("left out: {count} tensors: {reason}", count=count, reason=tr(reason)))


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
    needed = job.nbytes if job else 0
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
        _print(planned, collapse(plan.problems), describe(planned.implied))
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
    print_left_out(plan)
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
