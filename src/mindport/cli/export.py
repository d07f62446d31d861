"""`mindport export`."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mindport.cli.options import Declarations, Json, OutputFolder, Overwrite, with_declarations
from mindport.cli.output import print_json, warn_unused
from mindport.cli.plan import carried_out, print_left_out, print_written
from mindport.cli.weights import DryRun, Dtypes, Resume, ShardSize, parse_size
from mindport.errors import MindportError
from mindport.i18n import tr

if TYPE_CHECKING:
    from mindport.config.native import NativeConfig


def command(
    context: typer.Context,
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help=tr("Converted folder; or a training YAML of MindFormers."), show_default=False
        ),
    ],
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
    version: Annotated[
        str | None,
        typer.Option(
            "--version",
            metavar="VERSION",
            help=tr("With a YAML: the version of MindFormers it is for; the newest that Mindport has run."),
            show_default=False,
        ),
    ] = None,
    pretrained: Annotated[
        Path | None,
        typer.Option(
            "--pretrained",
            metavar="DIR",
            help=tr("With a YAML: its pretrained_model_dir, where that is another one here."),
            show_default=False,
        ),
    ] = None,
    inference: Annotated[
        bool, typer.Option("--inference", help=tr("With a YAML: the weights are those of the inference graph."))
    ] = False,
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
    from mindport.checkpoint.export import export_config, plan_export
    from mindport.checkpoint.options import Options
    from mindport.checkpoint.policy import parse_policy
    from mindport.checkpoint.publish import check_free

    started = time.perf_counter()
    options = Options(shard_bytes=parse_size(shard_size), policy=parse_policy(dtype or ()), keep_vocab=keep_vocab)
    config = None
    if folder.is_file():
        config = _from_yaml(folder, version, pretrained, inference)
    elif version or pretrained or inference:
        context.fail(tr("--version, --pretrained and --inference belong to a YAML."))
    check_free(output, overwrite=overwrite, source=folder)
    if config and not weights:
        if dry_run or resume or options != Options():
            context.fail(tr("What was asked for is about weights: give them with --weights."))
        export_config(config, output, overwrite=overwrite)
        if as_json:
            print_json({"folder": output, "config": output / "config.json", "weights": []})
        else:
            typer.echo(f"{output / 'config.json'}")
        return
    planned = plan_export(folder, options, weights, config)
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


def _from_yaml(path: Path, version: str | None, pretrained: Path | None, inference: bool) -> NativeConfig:
    """The model of a training YAML; keys that say nothing that is known are named."""
    from mindport.config.mindformers.read import read_yaml
    from mindport.config.native import NativeConfig
    from mindport.targets.mindformers import MCORE, InferenceLayout

    reading = read_yaml(path, pretrained, version)
    warn_unused(reading.unknown)
    destination = reading.destination
    if inference and reading.generation != MCORE:
        raise MindportError(
            tr("The {generation} generation has one layout for both graphs.", generation=reading.generation),
            tr("Leave --inference out."),
        )
    if inference:
        destination = replace(destination, layout=InferenceLayout())
    return NativeConfig(reading.model, destination=destination)
