"""The tokenizer's part of `mindport inspect`, for people."""

from __future__ import annotations

import typer

from mindport.cli.output import print_table, short
from mindport.config.tokenizer_check import ERROR, TokenizerCheck
from mindport.i18n import tr
from mindport.records.formats import printable


def print_tokenizer(check: TokenizerCheck) -> None:
    """Counts, special tokens, settings, and what to look at."""
    if check.tokens is None:
        typer.echo(tr("tokenizer: not counted; vocab_size {size}", size=check.vocab_size))
    else:
        typer.echo(
            tr(
                "tokenizer: {tokens} tokens, largest id {largest}; vocab_size {size}, {padding} rows without a token",
                tokens=check.tokens,
                largest=check.largest_id,
                size=check.vocab_size,
                padding=check.padding_rows,
            )
        )
    if check.special:
        print_table(
            ("special token", "text", "id in the tokenizer", "id in the config", "verdict"),
            [(s.role, short(s.token), short(s.id), short(s.config_id), tr(s.verdict)) for s in check.special],
        )
    typer.echo(
        tr(
            "padding side: {side}; chat template: {template}",
            side=printable(check.padding_side or tr("not said")),
            template=check.chat_template or tr("none"),
        )
    )
    sizes = ", ".join(f"{parts}: {size}" for parts, size in check.padded_vocab.items())
    typer.echo(tr("vocab_size padded for tensor parallel: {sizes}", sizes=sizes))
    for finding in check.findings:
        label, colour = (tr("error"), "red") if finding.level == ERROR else (tr("warning"), "yellow")
        typer.secho(f"{label}: {printable(finding.message)}", fg=colour)
