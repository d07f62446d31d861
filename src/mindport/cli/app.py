"""The command line: which verbs there are, and how errors end."""

from __future__ import annotations

import io
import signal
import sys

import typer

from mindport.cli import convert, diff, export, inspect, list_, migrate, upgrade, validate, verify
from mindport.cli.output import print_error
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.version import __version__

app = typer.Typer(
    name="mindport",
    help=tr("Move the training of Transformer models from PyTorch to MindSpore, and prove that it arrived."),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("inspect", help=tr("Check a config: every key, where it goes, and what happens to it."))(inspect.command)
app.command("diff", help=tr("Compare two configs: what differs, and what each difference changes."))(diff.command)
app.command("convert", help=tr("Convert a model folder, or a config alone, to a target."))(convert.command)
app.command("export", help=tr("Bring a converted folder, or a training checkpoint, back to Hugging Face."))(
    export.command
)
app.command("verify", help=tr("Compare a converted folder with its source, in numbers."))(verify.command)
app.command("migrate", help=tr("Do a whole migration: convert, check, compare, train ten steps, report."))(
    migrate.command
)
app.command("validate", help=tr("Check a MindFormers YAML: all that is wrong, why, and what would work."))(
    validate.command
)
app.command("upgrade", help=tr("Carry a MindFormers YAML to another version, with a report of every change."))(
    upgrade.command
)
app.command("list", help=tr("List supported architectures and targets."))(list_.command)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", help=tr("Print the version and end."), callback=_version, is_eager=True
    ),
) -> None:
    pass


def main() -> None:
    """Entry point. Exit status: 0 all is well, 1 something is not (a sentence or a table says what), 2 wrong usage."""
    # A request to end unwinds the stack, so that half-written folders are removed. MindSpore answers Ctrl-C with one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a file name or a value may not fit the terminal's encoding
    try:
        app()
    except MindportError as error:
        print_error(error, as_json="--json" in sys.argv)
        sys.exit(1)
    except OSError as error:
        print_error(
            MindportError(f"{error.filename or ''}: {error.strerror or error}".lstrip(": ")),
            as_json="--json" in sys.argv,
        )
        sys.exit(1)
