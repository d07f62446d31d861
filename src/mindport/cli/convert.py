"""`mindport convert`."""

from __future__ import annotations

import time

import typer

from mindport.cli.options import (
    Declarations,
    Format,
    Json,
    ModelOrConfig,
    OutputFolder,
    Overwrite,
    TargetName,
    To,
    WeightsFormat,
    with_declarations,
)
from mindport.cli.output import byte_progress, print_json, read_and_left_out
from mindport.config.audit import unhandled_keys
from mindport.config.native import FILE_NAME
from mindport.i18n import tr
from mindport.records.formats import printable


def command(
    context: typer.Context,
    model: ModelOrConfig,
    output: OutputFolder,
    to: To = TargetName.native,
    weights_format: Format = WeightsFormat.safetensors,
    overwrite: Overwrite = False,
    declarations: Declarations = None,
    as_json: Json = False,
) -> None:
    with_declarations(context, declarations, model)
    from mindport.checkpoint.convert import convert

    started = time.perf_counter()
    with byte_progress(None, tr("writing weights")) as progress:
        done = convert(model, output, weights_format=weights_format.value, overwrite=overwrite, progress=progress)
    seconds = time.perf_counter() - started
    plan = done.plan
    described = done.config.model
    unhandled = unhandled_keys(described)
    if as_json:
        print_json(
            {
                "folder": done.folder,
                "target": to.value,
                "config": done.folder / FILE_NAME,
                "weights": done.folder / done.weights.name if done.weights else None,
                "tensors_in": len(plan.source) if plan else 0,
                "tensors_out": len(plan.outputs) if plan else 0,
                "nbytes": plan.bytes_out if plan else 0,
                "skipped": plan.skipped if plan else {},
                "tied_copies": sorted(plan.copies) if plan else [],
                "unhandled": unhandled,
                "left_out": described.part.left_out,
                "seconds": seconds,
            }
        )
        return
    typer.echo(f"{done.folder / FILE_NAME}")
    if described.part.path:
        typer.secho(read_and_left_out(described), err=True, fg="yellow")
    if unhandled:
        keys = printable(", ".join(unhandled))
        typer.secho(tr("These config keys are not known and were not used: {keys}.", keys=keys), err=True, fg="yellow")
    if plan and done.weights:
        typer.echo(
            tr(
                "{path}: {count} tensors, {mb:.1f} MB in {seconds:.1f} s",
                path=done.folder / done.weights.name,
                count=len(plan.outputs),
                mb=plan.bytes_out / 1e6,
                seconds=seconds,
            )
        )
        for name, reason in plan.skipped.items():
            typer.echo(tr("skipped {name}: {reason}", name=name, reason=tr(reason)))
