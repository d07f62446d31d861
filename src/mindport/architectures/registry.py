"""Finds declarations by model_type: in this package, in folders that the user names, in installed packages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from mindport.architectures.sources import (
    TABLES,
    EntryPoints,
    Folder,
    Package,
    Source,
    failed_at,
    load,
    module_name,
    read_table,
)
from mindport.architectures.vocabulary import Architecture
from mindport.errors import MindportError, brief
from mindport.i18n import tr

_PACKAGE = Package()
_folders: list[Folder] = []
_CONFIG = "config.json"
"""A folder that holds one is a model folder."""

_installed = EntryPoints()


def model_types() -> tuple[str, ...]:
    """Every declared model_type, sorted. This asks all installed packages; to know about one, ask `source_of`."""
    return tuple(sorted({name for source in _sources() for name in source.model_types()}))


def source_of(model_type: str) -> Source | None:
    """Where a model_type is declared; None where it is not. Installed packages are asked last, and only if needed."""
    return next((source for source in _sources() if model_type in source.model_types()), None)


@contextmanager
def code_of(model_type: str) -> Iterator[None]:
    """Where the functions of a declaration run. What one of the user's raises becomes a sentence with its line.

    Raises:
        MindportError: the declaration is not Mindport's own, and failed.
    """
    try:
        yield
    except MindportError:
        raise
    except Exception as error:
        source = source_of(model_type)
        if source is None or source.kind == Package.kind:
            raise
        raise failed_at(Path(str(source.module(model_type).__file__)), error) from error


@cache
def architecture(model_type: str) -> Architecture:
    """The declaration of a model_type.

    Raises:
        MindportError: nothing is declared under this name, or what is cannot be loaded.
    """
    return load(_declaring(model_type), model_type)


@cache
def class_defaults(model_type: str) -> dict[str, Any]:
    """What the Hugging Face config class assumes for keys a file leaves out.

    Our own table, checked in a test against the class of the installed transformers, so that it need not be imported.

    Raises:
        MindportError: nothing is declared under this name, or its table cannot be read.
    """
    return read_table(_declaring(model_type).table(model_type))


def register_classes(model_type: str) -> None:
    """Call `register()` of the declaration's module, if it has one.

    That is how a user's own architecture makes its PyTorch class known to transformers. It is called before
    transformers loads a model, and on no other occasion.

    Raises:
        MindportError: it fails.
    """
    module = _declaring(model_type).module(model_type)
    register = getattr(module, "register", None)
    if register:
        try:
            register()
        except Exception as error:
            raise failed_at(Path(str(module.__file__)), error) from error


def use_declarations(folder: Path, *, apart_from: Iterable[Path] = ()) -> ExitStack:
    """Take the declarations of a folder into use. **Its Python modules are run** when a model asks for them.

    Args:
        folder: holds modules with `ARCHITECTURE`, and `defaults/` with a table for each.
        apart_from: model folders, or files in them. What is downloaded is not to be trusted with code.

    Returns:
        What puts an end to it, as a context manager or by `close()`. Without either they stay in use.

    Raises:
        MindportError: the folder is not there, declares nothing or what Mindport itself declares, or is a model folder.
    """
    _refuse_model_folders(folder, apart_from)
    source = Folder(folder)
    names = source.model_types()
    if not names:
        raise MindportError(
            tr("{folder} holds no declarations.", folder=folder),
            tr(
                "A declaration is a module, such as my_arch.py, with its table of class defaults, {table}.",
                table=f"{TABLES}/my_arch.json",
            ),
        )
    taken = sorted(set(names) & {*_PACKAGE.model_types(), *(n for other in _folders for n in other.model_types())})
    if taken:
        raise MindportError(
            tr("{folder} declares what is declared already: {names}.", folder=folder, names=", ".join(taken)),
            tr("Give your variant a model_type of its own, in the declaration and in config.json."),
        )
    _folders.append(source)
    _forget()
    end = ExitStack()
    end.callback(_forget)
    end.callback(source.unload)
    end.callback(_folders.remove, source)
    return end


def _refuse_model_folders(folder: Path, apart_from: Iterable[Path]) -> None:
    if not folder.is_dir():
        raise MindportError(tr("{path} is not a folder.", path=folder), tr("Give the folder of your declarations."))
    models = [path.parent if path.name == _CONFIG else path for path in apart_from]
    inside = any(folder.resolve().is_relative_to(model.resolve()) for model in models)
    if inside or (folder / _CONFIG).exists():
        raise MindportError(
            tr("{folder} belongs to a model, and code from a model folder is never run.", folder=folder),
            tr("Keep declarations in a folder of their own, and read them before you use them."),
        )


def _sources() -> Iterator[Source]:
    """The package first: what it declares costs no look at anything else. What the user names precedes the rest."""
    yield _PACKAGE
    yield from _folders
    yield _installed


def _declaring(model_type: str) -> Source:
    source = source_of(model_type)
    if source is None:
        raise _undeclared(model_type)
    return source


def _undeclared(model_type: str) -> MindportError:
    for folder in _folders:
        if module_name(model_type) in {path.stem for path in folder.path.glob("*.py")}:
            return MindportError(
                tr("{folder} has no table of class defaults for {name}.", folder=folder.path, name=brief(model_type)),
                tr(
                    "Write {path}; an empty object will do where every file has all keys.",
                    path=folder.table(model_type),
                ),
            )
    import difflib  # for a refusal alone

    near = difflib.get_close_matches(model_type.lower(), model_types(), n=1, cutoff=0.3)
    hint = tr("Nearest supported model_type: {near}.", near=near[0]) if near else ""
    return MindportError(
        tr("model_type {model_type} is not supported.", model_type=brief(model_type)),
        f"{hint} {tr('`mindport list` shows those that are.')}".strip(),
    )


def _forget() -> None:
    """Sources have changed."""
    architecture.cache_clear()
    class_defaults.cache_clear()
