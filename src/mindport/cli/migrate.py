"""`mindport migrate`."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from mindport.cli.options import (
    Declarations,
    Format,
    GateName,
    GateOption,
    Json,
    ModelFolder,
    OutputFolder,
    Overwrite,
    WeightsFormat,
    with_declarations,
)
from mindport.cli.output import byte_progress, print_json, print_stage
from mindport.i18n import tr


class TargetName(str, Enum):
    """Targets of a whole migration."""

    native = "native"


def command(
    context: typer.Context,
    model: ModelFolder,
    output: OutputFolder,
    to: Annotated[TargetName, typer.Option("--to", help=tr("Target of the migration."))] = TargetName.native,
    weights_format: Format = WeightsFormat.safetensors,
    steps: Annotated[int, typer.Option("--steps", min=2, help=tr("Training steps on both sides."))] = 10,
    gate: GateOption = GateName.strict,
    overwrite: Overwrite = False,
    declarations: Declarations = None,
    as_json: Json = False,
) -> None:
    with_declarations(context, declarations, model)
    from mindport.records.migrate import migrate
    from mindport.verify.alignment import Settings
    from mindport.verify.gates import GATES

    with byte_progress(None, tr("writing weights")) as progress:
        migration = migrate(
            model,
            output,
            gate=GATES[gate.value],
            settings=Settings(steps=steps),
            weights_format=weights_format.value,
            overwrite=overwrite,
            announce=lambda stage: (
                None if as_json else print_stage(stage.name, stage.passed, stage.summary, stage.seconds)
            ),
            progress=progress,
        )
    if as_json:
        print_json({"folder": output, "report": output / "report.html", **migration.to_json()})
    else:
        typer.echo(tr("report: {path}", path=output / "report.html"))
