"""Options of the verbs that write weights, and what they become."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from mindport.config.json_file import parse_json, read_limited
from mindport.errors import MindportError, brief
from mindport.i18n import tr


class VocabRule(str, Enum):
    """Names of `mindport.schema.VOCAB_RULES`."""

    zeros = "zeros"
    mean = "mean"
    normal = "normal"
    source = "source"


Dtypes = Annotated[
    list[str] | None,
    typer.Option(
        "--dtype",
        metavar="[GROUP=]DTYPE",
        help=tr("Dtype of the weights, such as bf16, or of some: router=fp32, norm=fp32. May be repeated."),
        show_default=False,
    ),
]
ShardSize = Annotated[
    str | None,
    typer.Option("--shard-size", metavar="SIZE", help=tr("Most weights in a file, such as 5GB."), show_default=False),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help=tr("Print the plan, and write nothing."))]
Resume = Annotated[bool, typer.Option("--resume", help=tr("Go on with what a killed run left."))]
VocabSize = Annotated[
    int | None,
    typer.Option("--vocab-size", metavar="N", help=tr("Cut or pad embedding and head to N rows."), show_default=False),
]
VocabInit = Annotated[
    VocabRule | None, typer.Option("--vocab-init", help=tr("Values of new rows."), show_default=False)
]
VocabMap = Annotated[
    Path | None,
    typer.Option(
        "--vocab-map",
        metavar="FILE",
        help=tr("JSON array: for each new row the old row, or null."),
        show_default=False,
    ),
]

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


@contextmanager
def resumable(output: Path) -> Iterator[None]:
    """After an interrupt, says how to go on, if something is left to go on with."""
    try:
        yield
    except BaseException as error:
        from mindport.checkpoint.carry_out import may_go_on
        from mindport.checkpoint.publish import work_of
        from mindport.checkpoint.ranks import rank_of

        rank = rank_of(os.environ)
        if may_go_on(type(error)) and rank and rank.number == 0 and work_of(output).is_dir():
            typer.secho(tr("The unfinished folder is kept: go on with --resume."), err=True, fg="yellow")
        raise


def parse_size(text: str | None) -> int | None:
    """Bytes from words such as `5GB`, `500MB`, `2GiB`.

    Raises:
        MindportError: it is not a size above 0.
    """
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d{1,12}(?:\.\d{1,6})?)\s*([kmgt]i?)?b?\s*", text.lower())
    size = int(float(match[1]) * _UNITS[match[2] or ""]) if match else 0
    if size < 1:
        raise MindportError(tr("{text} is no size.", text=brief(text)), tr("Write 5GB or 500MB, for example."))
    return size


def read_vocab_map(path: Path | None) -> tuple[Any, ...] | None:
    """A JSON array from a file.

    Raises:
        MindportError: it cannot be read, or is something else.
    """
    if path is None:
        return None
    try:
        entries = parse_json(read_limited(path))
    except (ValueError, json.JSONDecodeError):
        entries = None
    if not isinstance(entries, list):
        raise MindportError(
            tr("{path} is not a JSON array.", path=path),
            tr("Give for each new row the number of the old row, or null."),
        )
    return tuple(entries)
