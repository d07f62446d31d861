"""`mindport inspect`."""

from __future__ import annotations

from typing import Annotated

import typer

from mindport.cli.options import Declarations, Json, ModelOrConfig, with_declarations
from mindport.cli.output import finish, print_table, read_and_left_out, short
from mindport.cli.tokenizer import print_tokenizer
from mindport.config.audit import Row, audit, unhandled_keys
from mindport.config.hf import read_hf_config
from mindport.config.tokenizer_check import ERROR, check_tokenizer
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.records.formats import printable
from mindport.schema import count_parameters


def command(
    context: typer.Context,
    model: ModelOrConfig,
    strict: Annotated[
        bool, typer.Option("--strict", help=tr("Fail if a key is unhandled, or the tokenizer does not fit."))
    ] = False,
    declarations: Declarations = None,
    as_json: Json = False,
) -> None:
    with_declarations(context, declarations, model)
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
    tokenizer = check_tokenizer(model, described) if model.is_dir() else None
    if tokenizer and not as_json:
        print_tokenizer(tokenizer)
    errors = []
    if strict and unhandled:
        errors.append(
            MindportError(
                tr("Unhandled config keys: {keys}.", keys=", ".join(unhandled)),
                tr("Remove them from config.json if they mean nothing, or run without --strict."),
            )
        )
    wrong = [finding.message for finding in tokenizer.findings if finding.level == ERROR] if tokenizer else []
    if strict and wrong:
        errors.append(
            MindportError(
                tr("The tokenizer does not fit the model: {problems}", problems=" ".join(wrong)),
                tr("Correct its files, or run without --strict."),
            )
        )
    error = None
    if errors:
        error = MindportError(" ".join(e.message for e in errors), " ".join(e.fix for e in errors))
    result = {
        "model_type": described.model_type,
        "hf_class": described.hf_class,
        "part": described.part.name,
        "left_out": described.part.left_out,
        "parameters": parameters,
        "fields": rows,
        "unhandled": unhandled,
        "transformer": described.transformer,
        "tokenizer": tokenizer,
    }
    finish(result, error, as_json=as_json)


def _cells(row: Row) -> tuple[str, ...]:
    goes_to = ", ".join(f"{name} = {short(value)}" for name, value in row.to.items())
    return (
        row.key,
        short(row.value),
        tr(row.layer) if row.layer else "-",
        tr(row.origin),
        tr(row.status),
        goes_to or (tr(row.note) if row.note else "-"),
    )
