"""`mindport convert`."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from mindport.cli.goal import Generation, Graph, Inference, Layout, SettingsFiles, Singles, To, goal_of
from mindport.cli.options import (
    Declarations,
    Json,
    ModelOrConfig,
    OutputFolder,
    Overwrite,
    WeightsFormat,
    with_declarations,
)
from mindport.cli.output import print_json, read_and_left_out, warn_unused
from mindport.cli.plan import carried_out, print_written
from mindport.cli.weights import (
    DryRun,
    Dtypes,
    Resume,
    ShardSize,
    VocabInit,
    VocabMap,
    VocabSize,
    parse_size,
    read_vocab_map,
)
from mindport.config.audit import unhandled_keys
from mindport.config.native import FILE_NAME
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.targets import NATIVE


def command(
    context: typer.Context,
    model: ModelOrConfig,
    output: OutputFolder,
    to: To = NATIVE.name,
    generation: Generation = None,
    graph: Graph = None,
    layout: Layout = None,
    inference: Inference = False,
    settings: SettingsFiles = None,
    singles: Singles = None,
    weights_format: Annotated[
        WeightsFormat | None,
        typer.Option(
            "--format",
            help=tr("Format of the converted weights; safetensors, where the target loads it."),
            show_default=False,
        ),
    ] = None,
    dtype: Dtypes = None,
    shard_size: ShardSize = None,
    vocab_size: VocabSize = None,
    vocab_init: VocabInit = None,
    vocab_map: VocabMap = None,
    dry_run: DryRun = False,
    resume: Resume = False,
    overwrite: Overwrite = False,
    declarations: Declarations = None,
    as_json: Json = False,
) -> None:
    with_declarations(context, declarations, model)
    from mindport.checkpoint.convert import Conversion, convert, plan_conversion
    from mindport.checkpoint.options import PLAIN, Options
    from mindport.checkpoint.policy import parse_policy
    from mindport.checkpoint.publish import check_free

    started = time.perf_counter()
    goal = goal_of(to, output, generation, graph, layout, inference, settings, singles)
    asked = weights_format.value if weights_format else None
    options = Options(
        goal.weights_format(asked) if goal else asked or PLAIN.weights_format,
        parse_size(shard_size),
        parse_policy(dtype or ()),
        vocab_size,
        vocab_init.value if vocab_init else None,
        read_vocab_map(vocab_map),
    )
    if not model.is_dir():
        if dry_run:
            raise MindportError(
                tr("{path} is not a folder.", path=model), tr("A plan is about weights: give the model folder.")
            )
        done = convert(model, output, options, goal, overwrite=overwrite)
    else:
        check_free(output, overwrite=overwrite, source=model)
        planned = plan_conversion(model, options, goal)
        if not carried_out(planned, output, dry_run=dry_run, overwrite=overwrite, resume=resume, as_json=as_json):
            return
        done = Conversion(output, planned.config, planned)
    seconds = time.perf_counter() - started
    plan = done.plan
    described = done.config.model
    unhandled = unhandled_keys(described)
    yaml_files = goal.yaml_files if goal else []
    if as_json:
        print_json(
            {
                "folder": done.folder,
                "target": to,
                "config": done.folder / FILE_NAME,
                "yaml": [done.folder / name for name in yaml_files],
                "weights": [done.folder / name for name in done.files],
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
    for name in (FILE_NAME, *yaml_files):
        typer.echo(f"{done.folder / name}")
    if described.part.path:
        typer.secho(read_and_left_out(described), err=True, fg="yellow")
    warn_unused(unhandled)
    if plan:
        name = done.files[0] if len(done.files) == 1 else f"model-*.{options.weights_format}"
        print_written(done.folder / name, plan, seconds)
        for name, reason in plan.skipped.items():
            typer.echo(tr("skipped {name}: {reason}", name=name, reason=tr(reason)))
