"""`mindport verify --weights` and `--load`: a folder by itself, without its source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import typer

from mindport.cli.output import byte_progress, finish, print_table
from mindport.config.native import native_only, read_native_config
from mindport.errors import MindportError
from mindport.i18n import tr


def check_weights(folder: Path, *, as_json: bool) -> None:
    """Whether every byte of a finished folder is what was written.

    Raises:
        MindportError: there is no manifest, or something differs.
    """
    from mindport.checkpoint.problems import collapse
    from mindport.checkpoint.recheck import Recheck

    check = Recheck(folder)
    with byte_progress(check.nbytes, tr("reading weights")) as progress:
        report = check.run(progress)
    error = None
    if report.problems:
        error = MindportError(
            tr("{folder} is not as its manifest says in {count} places.", folder=folder, count=len(report.problems)),
            tr("Convert the model again, or copy the folder again from where it was made."),
        )
    if not as_json:
        _print(collapse(report.problems))
        typer.echo(
            tr(
                "{tensors} tensors, {mb:.1f} MB, are as they were written; {files} other files compared",
                tensors=report.tensors,
                mb=report.nbytes / 1e6,
                files=report.files,
            )
        )
    finish({"passed": error is None, **asdict(report)}, error, as_json=as_json)


def check_load(path: Path, network: str | None, *, as_json: bool) -> None:
    """Whether weights are, name by name, those of a network, which then holds them.

    Args:
        path: a converted folder; with a network of the user's own, any folder or file of weights.
        network: `module:Class` of the user's own, whose code is run; None: the native network of the folder.

    Raises:
        MindportError: something cannot be read or built, or does not fit.
    """
    from mindport.verify.frameworks import installed, require

    if network is None:
        if path.is_file():
            raise MindportError(
                tr("{path} is not a folder.", path=path),
                tr("Give the converted folder, or name a network of your own with --network."),
            )
        native_only(path, read_native_config(path))  # a wrong path is found before the framework is loaded
    elif not path.exists():
        raise MindportError(tr("{path} does not exist.", path=path), tr("Check the path."))
    installed("mindspore")
    require("mindspore")
    from mindport.models.folder import native_loading, own_loading

    loading = native_loading(path) if network is None else own_loading(path, network)
    with byte_progress(loading.nbytes, tr("loading weights")) as progress:
        report = loading.run(progress)
    error = None
    if report.count:
        error = MindportError(tr("{count} weights do not fit the network.", count=report.count), report.hint)
    if not as_json:
        _print(report.rows)
        if not error:
            typer.echo(
                tr(
                    "{tensors} tensors, {mb:.1f} MB: every name, shape, dtype and value as in the file",
                    tensors=report.tensors,
                    mb=report.nbytes / 1e6,
                )
            )
        if report.widened:
            typer.echo(tr("widened to float32, without loss: {dtypes}", dtypes=", ".join(report.widened)))
        if report.carried:
            typer.echo(tr("{count} more tensors are carried along, not computed", count=report.carried))
    named = {"passed": error is None, "network": "native" if network is None else network}
    finish({**named, **asdict(report)}, error, as_json=as_json)


def _print(rows: Sequence[tuple[str, str]]) -> None:
    if rows:
        print_table(("tensor", "problem"), rows)
