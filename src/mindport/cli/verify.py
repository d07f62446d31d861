"""`mindport verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mindport.cli.options import GateName, GateOption, Json, ModelFolder
from mindport.cli.output import print_json, print_table
from mindport.errors import MindportError
from mindport.i18n import tr


def command(
    model: ModelFolder,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help=tr("Converted folder."), show_default=False)],
    gate: GateOption = GateName.strict,
    as_json: Json = False,
) -> None:
    from mindport.verify.gates import GATES
    from mindport.verify.ladder import MODES, Ladder

    marks = GATES[gate.value]
    ladder = Ladder(model, folder)
    parity = {mode: ladder.forward(mode) for mode in MODES}
    text, embeddings = ladder.text(MODES[0]), ladder.embeddings(MODES[0])
    differences = [(mode, d) for mode, found in parity.items() for d in found]
    differences += [(MODES[0], embeddings)] if embeddings else []
    passed = all(d.passes(marks) for _, d in differences) and (text is None or text.equal)
    if as_json:
        print_json(
            {
                "passed": passed,
                "gate": marks,
                "parameters": ladder.loaded.parameters,
                "weights_equal": True,  # a folder that does not load exactly has already been an error
                "parity": parity,
                "text": text,
                "embeddings": embeddings,
            }
        )
    else:
        typer.echo(
            tr("{count} parameters: every name, shape, dtype and value as in the file", count=ladder.loaded.parameters)
        )
        headers = ("mode", "output", "max abs error", "mean abs error", "scale", "cosine", "top-1", "verdict")
        print_table(
            [tr(header) for header in headers],
            [
                (
                    mode,
                    d.what,
                    f"{d.max_abs:.2e}",
                    f"{d.mean_abs:.2e}",
                    f"{d.scale:.2f}",
                    f"{d.cosine:.8f}",
                    "-" if d.top1 is None else f"{d.top1:.1%}",
                    tr("pass") if d.passes(marks) else tr("FAIL"),
                )
                for mode, d in differences
            ],
        )
        if text:
            typer.echo(
                tr(
                    "greedy text, {count} tokens: {verdict}",
                    count=text.tokens,
                    verdict=tr("equal") if text.equal else tr("different"),
                )
            )
    if not passed:
        raise MindportError(
            tr("The outputs differ by more than the {gate} gate allows.", gate=marks.name),
            tr("The weights were loaded exactly, so the difference is in the computation or the config."),
        )
