"""`mindport export`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from mindport.cli.options import Declarations, Json, OutputFolder, Overwrite, with_declarations
from mindport.cli.output import print_json
from mindport.cli.plan import carried_out, print_left_out, print_written
from mindport.cli.weights import DryRun, Dtypes, Resume, ShardSize, parse_size
from mindport.i18n import tr


def command(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help=tr("Converted folder."), show_default=False)],
    output: OutputFolder,
    weights: Annotated[
        Path | None,
        typer.Option(
            "--weights",
            metavar="PATH",
            help=tr("Weights to export instead of the folder's own: a training checkpoint."),
            show_default=False,
        ),
    ] = None,
    dtype: Dtypes = None,
    shard_size: ShardSize = None,
    keep_vocab: Annotated[
        bool, typer.Option("--keep-vocab", help=tr("Do not undo a change of the vocabulary."))
    ] = False,
    dry_run: DryRun = False,
    resume: Resume = False,
    overwrite: Overwrite = False,
    declarations: Declarations = None,
    as_json: Json = False,
) -> None:
    with_declarations(context, declarations, folder)
    from mindport.checkpoint.export import plan_export
    from mindport.checkpoint.options import Options
    from mindport.checkpoint.policy import parse_policy
    from mindport.checkpoint.publish import check_free

    started = time.perf_counter()
    options = Options(shard_bytes=parse_size(shard_size), policy=parse_policy(dtype or ()), keep_vocab=keep_vocab)
    check_free(output, overwrite=overwrite, source=folder)
    planned = plan_export(folder, options, weights)
    if not carried_out(planned, output, dry_run=dry_run, overwrite=overwrite, resume=resume, as_json=as_json):
        return
    job, plan = planned.ready(), planned.plan
    seconds = time.perf_counter() - started
    if as_json:
        print_json(
            {
                "folder": output,
                "config": output / "config.json",
                "weights": [output / file.name for file in job.files],
                "tensors_in": len(plan.source),
                "tensors_out": len(plan.outputs),
                "nbytes": plan.bytes_out,
                "left_out": plan.skipped,
                "vocab_size": planned.config.model.transformer.vocab_size,
                "seconds": seconds,
            }
        )
        return
    print_written(output, plan, seconds)
    print_left_out(plan)
