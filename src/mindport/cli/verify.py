"""`mindport verify`."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from mindport.cli.checks import check_load, check_weights
from mindport.cli.mindformers import NoStep, Python, Timeout, Yes, run_mindformers
from mindport.cli.options import Declarations, GateName, GateOption, Json, with_declarations
from mindport.cli.output import finish, print_parity
from mindport.config.hf import read_hf_config
from mindport.config.native import native_only, read_native_config
from mindport.errors import MindportError
from mindport.i18n import tr


class EngineName(str, Enum):
    """What computes the converted folder."""

    native = "native"
    mindformers = "mindformers"


def command(
    context: typer.Context,
    # First, and as a list, so that a single path is DIR.
    model: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="MODEL",
            help=tr("Hugging Face model folder; not with --weights or --load."),
            show_default=False,
        ),
    ] = None,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help=tr("Converted folder."), show_default=False)] = ...,  # type: ignore[assignment]
    weights: Annotated[
        bool, typer.Option("--weights", help=tr("Only check the files of DIR against its manifest."))
    ] = False,
    load: Annotated[
        bool, typer.Option("--load", help=tr("Only load the weights of DIR into its network, by exact names."))
    ] = False,
    network: Annotated[
        str | None,
        typer.Option(
            "--network",
            metavar="MODULE:CLASS",
            help=tr("With --load: a network of your own instead; its Python code is run."),
            show_default=False,
        ),
    ] = None,
    gate: GateOption = GateName.strict,
    engine: Annotated[
        EngineName, typer.Option("--engine", help=tr("What computes DIR: Mindport's own network, or MindFormers."))
    ] = EngineName.native,
    python: Python = None,
    yes: Yes = False,
    no_step: NoStep = False,
    timeout: Timeout = 3600,
    declarations: Declarations = None,
    as_json: Json = False,
) -> None:
    models = model or []
    _check_usage(context, len(models), weights, load, network)
    _check_engine(context, engine, weights or load, python, yes, no_step)
    with_declarations(context, declarations, *models, folder)
    if weights:
        check_weights(folder, as_json=as_json)
    elif load:
        check_load(folder, network, as_json=as_json)
    elif engine is EngineName.mindformers:
        run_mindformers(
            models[0], folder, gate, declarations, python, timeout, step=not no_step, yes=yes, as_json=as_json
        )
    else:
        _compare(models[0], folder, gate, as_json=as_json)


def _check_engine(
    context: typer.Context, engine: EngineName, alone: bool, python: Path | None, yes: bool, no_step: bool
) -> None:
    """End with a sentence about wrong usage, if it is."""
    if engine is EngineName.mindformers:
        if alone:
            context.fail(tr("--weights and --load have no engine."))
        return
    given = [name for name, value in {"--python": python, "--yes": yes, "--no-step": no_step}.items() if value]
    if given:
        context.fail(tr("{options} belongs to --engine mindformers.", options=", ".join(given)))


def _check_usage(context: typer.Context, models: int, weights: bool, load: bool, network: str | None) -> None:
    """End with a sentence about wrong usage, if it is."""
    if weights and load:
        context.fail(tr("--weights and --load are two checks; run one after the other."))
    if network is not None and not load:
        context.fail(tr("--network belongs to --load."))
    if (weights or load) and models:
        context.fail(tr("--weights and --load take DIR alone."))
    if not (weights or load) and models != 1:
        context.fail(tr("Give MODEL and DIR; or DIR alone, with --weights or --load."))


def _compare(model: Path, folder: Path, gate: GateName, *, as_json: bool) -> None:
    """Both sides, loaded and run."""
    read_hf_config(model)  # a wrong path is found before the frameworks are loaded
    native_only(folder, read_native_config(folder))
    from mindport.verify.gates import GATES
    from mindport.verify.ladder import MODES, Ladder

    marks = GATES[gate.value]
    ladder = Ladder(model, folder)
    parity = {mode: ladder.forward(mode) for mode in MODES}
    text, embeddings = ladder.text(MODES[0]), ladder.embeddings(MODES[0])
    differences = [(mode, d) for mode, found in parity.items() for d in found]
    differences += [(MODES[0], embeddings)] if embeddings else []
    passed = all(d.passes(marks) for _, d in differences) and (text is None or text.equal)
    if not as_json:
        typer.echo(ladder.load_summary)
        print_parity(differences, marks)
        if text:
            typer.echo(
                tr(
                    "greedy text, {count} tokens: {verdict}",
                    count=text.tokens,
                    verdict=tr("equal") if text.equal else tr("different"),
                )
            )
    error = None
    if not passed:
        error = MindportError(
            tr("The outputs differ by more than the {gate} gate allows.", gate=marks.name),
            tr("The weights were loaded exactly, so the difference is in the computation or the config."),
        )
    result = {
        "passed": passed,
        "gate": marks,
        "tensors": ladder.loaded.report.tensors,
        "carried": ladder.loaded.report.carried,
        "weights_equal": True,  # a folder that is not exactly the converted source has already been an error
        "parity": parity,
        "text": text,
        "embeddings": embeddings,
    }
    finish(result, error, as_json=as_json)
