"""A network of the user's own, named as `module:Class`."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import mindspore
from mindspore import nn

from mindport.errors import MindportError, brief
from mindport.i18n import tr
from mindport.schema import TransformerConfig

_NOT_THE_USERS = tuple(str(Path(str(module)).parent) for module in (mindspore.__file__, importlib.__file__, __file__))
"""Folders of code in which the line is not looked for at which the user's failed."""


def build_own(network: str, config: Callable[[], TransformerConfig]) -> nn.Cell:
    """Import what is named, and call it. **Its code is run.**

    As under `python -m`, modules are looked for in the current folder first. What the code prints goes to standard
    error, for standard output is the verb's own.

    Args:
        network: `module:Class`, or `module:function`. It is called without arguments, or, if it has one parameter
            without a default, with the configuration.
        config: gives the configuration.

    Raises:
        MindportError: there is no such thing, its code fails, or it does not make a network.
    """
    module_name, _, name = network.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), *name.split("."))):
        raise MindportError(
            tr("{network} does not name a network.", network=brief(network)), tr("Write it as module:Class.")
        )
    with _as_a_program():
        named = _named(module_name, name)
        if isinstance(named, nn.Cell):  # one that the module has made; to call it would be to run it
            return named
        arguments = _arguments(network, named, config)
        try:
            made = named(*arguments[0], **arguments[1])
        except MindportError:
            raise
        except (Exception, SystemExit) as error:
            raise MindportError(
                tr("{network} could not be built: {error}.", network=network, error=_failure(error)),
                tr("It is called without arguments, or with the configuration if it has one parameter to be given."),
            ) from error
    if not isinstance(made, nn.Cell):
        raise MindportError(
            tr("{network} makes a {kind}, not a mindspore.nn.Cell.", network=network, kind=type(made).__name__),
            tr("Name a class of networks, or a function that returns one."),
        )
    return made


def _named(module_name: str, name: str) -> Any:
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise _not_imported(module_name, error) from error
        raise MindportError(
            tr("There is no module {module}.", module=error.name),
            tr("Run the command in the folder that holds it, or install it."),
        ) from None
    except (Exception, SystemExit) as error:
        raise _not_imported(module_name, error) from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise MindportError(
                tr("Module {module} has no {name}.", module=module_name, name=name), tr("Check the name.")
            )
        found = getattr(found, part)
    return found


def _arguments(
    network: str, named: Any, config: Callable[[], TransformerConfig]
) -> tuple[list[TransformerConfig], dict[str, TransformerConfig]]:
    """Positional and keyword arguments."""
    if not callable(named):
        raise MindportError(
            tr("{network} is a {kind}, not a mindspore.nn.Cell.", network=network, kind=type(named).__name__),
            tr("Name a class of networks, or a function that returns one."),
        )
    try:
        parameters = inspect.signature(named).parameters.values()
    except (TypeError, ValueError):  # not written in Python
        return [], {}
    needed = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if len(needed) > 1:
        raise MindportError(
            tr(
                "{network} has to be given {count} arguments: {names}.",
                network=network,
                count=len(needed),
                names=", ".join(parameter.name for parameter in needed),
            ),
            tr("Write a function without parameters that makes the network, and name that."),
        )
    if not needed:
        return [], {}
    if needed[0].kind == inspect.Parameter.KEYWORD_ONLY:
        return [], {needed[0].name: config()}
    return [config()], {}


@contextmanager
def _as_a_program() -> Iterator[None]:
    """The current folder is searched for modules, as that of a program is."""
    here = os.getcwd()
    sys.path.insert(0, here)
    importlib.invalidate_caches()
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if here in sys.path:
            sys.path.remove(here)


def _not_imported(module: str, error: BaseException) -> MindportError:
    return MindportError(
        tr("Module {module} could not be imported: {error}.", module=module, error=_failure(error)), tr("Correct it.")
    )


def _failure(error: BaseException) -> str:
    """What went wrong, and at which line of the user's code."""
    what = f"{type(error).__name__}: {next(iter(str(error).strip().splitlines()), '')}".rstrip(": .")
    if isinstance(error, SyntaxError) and error.filename:
        return f"{what} ({error.filename}:{error.lineno})"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(("<", *_NOT_THE_USERS))
    ]
    return f"{what} ({frames[-1].filename}:{frames[-1].lineno})" if frames else what
