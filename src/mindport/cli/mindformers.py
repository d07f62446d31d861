"""`mindport verify --engine mindformers`: the comparison in MindFormers itself."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mindport.cli.options import GateName
from mindport.cli.output import finish, print_parity, print_table, short, verdict
from mindport.config.hf import read_hf_config
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.records.formats import printable

if TYPE_CHECKING:
    from mindport.verify.mindformers.interpreter import Interpreter
    from mindport.verify.mindformers.proof import Proof

Python = Annotated[
    Path | None,
    typer.Option(
        "--python",
        metavar="PATH",
        help=tr("With --engine mindformers: the Python that has MindFormers; looked for, if not given."),
        show_default=False,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help=tr("With --engine mindformers: make its environment without asking."))]
NoStep = Annotated[bool, typer.Option("--no-step", help=tr("With --engine mindformers: compare no training step."))]
Timeout = Annotated[
    float,
    typer.Option("--timeout", metavar="SECONDS", min=1, help=tr("With --engine mindformers: most time for each side.")),
]


def run_mindformers(
    model: Path,
    folder: Path,
    gate: GateName,
    declarations: Path | None,
    python: Path | None,
    timeout: float,
    *,
    step: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Check the folder, find or make the environment, compare, and print.

    Raises:
        MindportError: one of them is not possible, or the comparison misses its gate.
    """
    read_hf_config(model)
    from mindport.verify.gates import GATES
    from mindport.verify.mindformers.engine import Request, prove
    from mindport.verify.mindformers.folder import runnable
    from mindport.verify.mindformers.interpreter import own

    checked = runnable(model, folder)
    here = own()
    mindformers = _environment(python, (model, folder), here, yes=yes, as_json=as_json)
    request = Request(model, folder, declarations, GATES[gate.value], step, timeout)
    proof = prove(request, checked, mindformers, here, lambda text: typer.echo(f"{printable(text)} ...", err=True))
    error = None
    if not proof.passed:
        error = MindportError(
            tr("MindFormers computes something else than the {gate} gate allows.", gate=proof.gate.name),
            tr("The conversion gave weights another dtype, which alone can do this: convert them once without --dtype.")
            if checked.cast
            else tr("The weights were loaded by exact names, so it is their layout, or what the YAML says."),
        )
    if not as_json:
        _print(proof)
    result = {
        "passed": proof.passed,
        "engine": "mindformers",
        **asdict(proof),
        "proven": proof.proven,
        "not_proven": proof.not_proven,
    }
    finish(result, error, as_json=as_json)


def _environment(
    python: Path | None, models: tuple[Path, ...], here: Interpreter, *, yes: bool, as_json: bool
) -> Interpreter:
    from mindport.verify.mindformers import environment
    from mindport.verify.mindformers.interpreter import search

    place = environment.cache_folder()
    looked = search(python, place, models)
    for sentence in looked.passed_over:
        typer.secho(printable(sentence), err=True, fg="yellow")
    if looked.found:
        return looked.found
    plan = environment.plan(place, reference=not here.has_reference)
    what = tr(
        "MindFormers is not found. Mindport can make an environment for it in {folder}: {packages} and what they need, "
        "about {size:.1f} GB.",
        folder=plan.folder,
        packages=", ".join(plan.packages),
        size=plan.gigabytes,
    )
    if not yes:
        if as_json or not _somebody_is_there():
            raise MindportError(what, tr("Give --yes to have it made, or name a Python that has it with --python."))
        typer.echo(what, err=True)
        if not typer.confirm(tr("Make it?"), err=True):
            raise MindportError(
                tr("Nothing was made, so MindFormers cannot be run."),
                tr("Name a Python that has it with --python."),
            )
    else:
        typer.echo(what, err=True)
    return environment.make(plan)


def _somebody_is_there() -> bool:
    return sys.stdin.isatty()


def _print(proof: Proof) -> None:
    for name, side in proof.processes.items():
        versions = ", ".join(f"{package} {version}" for package, version in side.versions.items())
        typer.echo(
            tr(
                "{name}: {versions}; {seconds:.0f} s, {peak:.0f} MB at most",
                name=name,
                versions=printable(versions),
                seconds=side.seconds,
                peak=side.peak_mb,
            )
        )
    if proof.overrides:
        typer.echo(tr("other than in {yaml}, as this is a CPU:", yaml=proof.yaml))
        rows = [(o.key, short(o.given), short(o.value), o.reason) for o in proof.overrides]
        print_table(("key", "in the YAML", "here", "reason"), rows)
    print_parity([("graph", found) for found in proof.parity], proof.gate)
    if proof.step:
        typer.echo(
            tr(
                "training step: loss {loss:.6f} (transformers {other:.6f}), gradient norm {norm:.6f} "
                "({other_norm:.6f}): {verdict}",
                loss=proof.step.loss,
                other=proof.step.reference_loss,
                norm=proof.step.gradient_norm,
                other_norm=proof.step.reference_gradient_norm,
                verdict=verdict(proof.step.passes(proof.gate)),
            )
        )
    stand_ins = [f"{name}: {note}" for name, note in proof.stand_ins.items()]
    for title, sentences in ((tr("proven:"), proof.proven), (tr("not proven:"), proof.not_proven)):
        typer.secho(title, bold=True)
        for sentence in sentences:
            typer.echo(f"- {printable(sentence)}")
    if stand_ins:
        typer.echo(tr("kernels that had a stand-in, and what it computes:"))
        for line in stand_ins:
            typer.echo(f"  - {printable(line)}")
