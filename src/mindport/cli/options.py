"""Options that several verbs share."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from mindport.i18n import tr


class TargetName(str, Enum):
    """Names of `mindport.targets.TARGETS`."""

    native = "native"


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
To = Annotated[TargetName, typer.Option("--to", help=tr("Target of the conversion."))]
Format = Annotated[WeightsFormat, typer.Option("--format", help=tr("Format of the converted weights."))]
Overwrite = Annotated[bool, typer.Option("--overwrite", help=tr("Replace the folder if it exists."))]
GateOption = Annotated[GateName, typer.Option("--gate", help=tr("Pass marks: strict float32, or usual acceptance."))]
Json = Annotated[bool, typer.Option("--json", help=tr("Print JSON for machines."))]
