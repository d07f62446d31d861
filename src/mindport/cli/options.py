"""Options that several verbs share."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from mindport.architectures import use_declarations
from mindport.i18n import tr


class WeightsFormat(str, Enum):
    """Formats converted weights can be written in."""

    safetensors = "safetensors"
    ckpt = "ckpt"


class GateName(str, Enum):
    """Names of `mindport.verify.gates.GATES`."""

    strict = "strict"
    acceptance = "acceptance"


ModelFolder = Annotated[
    Path, typer.Argument(metavar="MODEL", help=tr("Hugging Face model folder."), show_default=False)
]
ModelOrConfig = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help=tr("Hugging Face model folder, or a config.json."), show_default=False),
]
OutputFolder = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="DIR", help=tr("Folder to write; it appears when complete."), show_default=False
    ),
]
Format = Annotated[WeightsFormat, typer.Option("--format", help=tr("Format of the converted weights."))]
Overwrite = Annotated[bool, typer.Option("--overwrite", help=tr("Replace the folder if it exists."))]
GateOption = Annotated[GateName, typer.Option("--gate", help=tr("Pass marks: strict float32, or usual acceptance."))]
Declarations = Annotated[
    Path | None,
    typer.Option(
        "--declarations",
        metavar="DIR",
        help=tr("Folder of your own declarations of architectures; its Python code is run."),
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help=tr("Print JSON for machines."))]


def with_declarations(context: typer.Context, folder: Path | None, *models: Path) -> None:
    """Use the user's declarations until the verb ends, unless they lie in one of the models it is given.

    Raises:
        MindportError: see `use_declarations`.
    """
    if folder:
        context.with_resource(use_declarations(folder, apart_from=models))
