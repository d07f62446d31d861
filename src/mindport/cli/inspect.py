"""`mindport inspect`."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from mindport.cli.options import Json, ModelOrConfig
from mindport.cli.output import finish, print_table, read_and_left_out
from mindport.config.audit import Row, audit, unhandled_keys
from mindport.config.hf import read_hf_config
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.records.formats import printable
from mindport.schema import count_parameters


def command(
    model: ModelOrConfig,
    strict: Annotated[bool, typer.Option("--strict", help=tr("Fail if a key is unhandled."))] = False,
    as_json: Json = False,
) -> None:
    described = read_hf_config(model)
    rows = audit(described)
    parameters = count_parameters(described.transformer)
    unhandled = unhandled_keys(described)
    if not as_json:
        typer.echo(
            tr(
                "{hf_class} ({model_type}), {parameters:,} parameters",
                hf_class=described.hf_class,
                model_type=described.model_type,
                parameters=parameters,
            )
        )
        if described.part.path:
            typer.echo(read_and_left_out(described))
        print_table(("key", "value", "layer", "origin", "status", "MindSpore field"), [_cells(row) for row in rows])
        keys = printable(", ".join(unhandled)) or "-"
        typer.echo(tr("{count} unhandled keys: {keys}", count=len(unhandled), keys=keys))
    error = None
    if strict and unhandled:
        error = MindportError(
            tr("Unhandled config keys: {keys}.", keys=", ".join(unhandled)),
            tr("Remove them from config.json if they mean nothing, or run without --strict."),
        )
    result = {
        "model_type": described.model_type,
        "hf_class": described.hf_class,
        "part": described.part.name,
        "left_out": described.part.left_out,
        "parameters": parameters,
        "fields": rows,
        "unhandled": unhandled,
        "transformer": described.transformer,
    }
    finish(result, error, as_json=as_json)


def _cells(row: Row) -> tuple[str, ...]:
    goes_to = ", ".join(f"{name} = {_short(value)}" for name, value in row.to.items())
    return (
        row.key,
        _short(row.value),
        tr(row.layer) if row.layer else "-",
        tr(row.origin),
        tr(row.status),
        goes_to or (tr(row.note) if row.note else "-"),
    )


def _short(value: Any, most: int = 40) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= most else text[: most - 3] + "..."
