"""Where declarations come from: this package, a folder of the user's, packages that are installed beside it.

A source is a set of modules, `my_arch.py` for the model_type `my-arch`, each with `ARCHITECTURE`, and of tables of
class defaults, `defaults/my-arch.json`. A table is what makes a declaration known: names are listed without importing
anything.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from mindport.architectures.check import mistakes
from mindport.architectures.vocabulary import Architecture
from mindport.errors import MindportError, brief
from mindport.i18n import tr

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "mindport.architectures"
"""Group of entry points. Their names are model_types, their values modules."""

TABLES = "defaults"
"""Folder of the tables of class defaults, beside the modules."""


class Source(Protocol):
    """Declarations of one origin."""

    @property
    def kind(self) -> str:
        """package, folder or entry point."""

    def owner(self, model_type: str) -> str:
        """Who declares it, for people: a package, or a folder."""

    def model_types(self) -> tuple[str, ...]:
        """What it declares, without importing any of it."""

    def module(self, model_type: str) -> ModuleType:
        """The module of a declaration.

        Raises:
            MindportError: it cannot be imported.
        """

    def table(self, model_type: str) -> Path:
        """The file of its class defaults."""


@dataclass(frozen=True)
class Package:
    """The declarations that come with Mindport."""

    kind = "package"

    def owner(self, model_type: str) -> str:
        return "mindport"

    def model_types(self) -> tuple[str, ...]:
        return _tables(Path(__file__).parent)

    def module(self, model_type: str) -> ModuleType:
        return importlib.import_module(f"mindport.architectures.{module_name(model_type)}")

    def table(self, model_type: str) -> Path:
        return Path(__file__).parent / TABLES / f"{model_type}.json"


@dataclass(frozen=True)
class Folder:
    """Declarations in a folder of the user's. Its modules are run: only a folder that the user names is read."""

    path: Path
    kind = "folder"

    def owner(self, model_type: str) -> str:
        return str(self.path)

    def model_types(self) -> tuple[str, ...]:
        return _tables(self.path)

    def module(self, model_type: str) -> ModuleType:
        file = self.path / f"{module_name(model_type)}.py"
        if not file.is_file():
            raise MindportError(
                tr("{path} does not exist.", path=file),
                tr("Write the declaration there, or remove {table}.", table=self.table(model_type)),
            )
        if self._package not in sys.modules:
            package = ModuleType(self._package)
            package.__path__ = [str(self.path.resolve())]
            sys.modules[self._package] = package
        try:
            return importlib.import_module(f"{self._package}.{file.stem}")
        except MindportError:
            raise
        except (Exception, SystemExit) as error:
            raise failed_at(file, error) from error

    def table(self, model_type: str) -> Path:
        return self.path / TABLES / f"{model_type}.json"

    def unload(self) -> None:
        """Forget what was imported, so that a changed folder can be read again."""
        for name in [name for name in sys.modules if name.split(".")[0] == self._package]:
            del sys.modules[name]

    @property
    def _package(self) -> str:
        """The folder's modules are a package of its own: they can import each other, and shadow nothing."""
        import hashlib  # slow to load, and most runs have no such folder

        return f"mindport_declarations_{hashlib.sha256(str(self.path.resolve()).encode()).hexdigest()[:12]}"


@dataclass(frozen=True)
class EntryPoints:
    """Declarations of installed packages."""

    kind = "entry point"

    @cached_property
    def _found(self) -> Mapping[str, EntryPoint]:
        from importlib.metadata import entry_points  # a few milliseconds, and a tenth of a second where it is cold

        found: dict[str, EntryPoint] = {}
        for entry in entry_points(group=ENTRY_POINTS):
            if entry.name in found:
                raise MindportError(
                    tr(
                        "{one} and {other} both declare model_type {name}.",
                        one=_distribution(found[entry.name]),
                        other=_distribution(entry),
                        name=brief(entry.name),
                    ),
                    tr("Uninstall one of them."),
                )
            found[entry.name] = entry
        return found

    def owner(self, model_type: str) -> str:
        return _distribution(self._found[model_type])

    def model_types(self) -> tuple[str, ...]:
        return tuple(sorted(self._found))

    def module(self, model_type: str) -> ModuleType:
        entry = self._found[model_type]
        try:
            return importlib.import_module(entry.module)
        except Exception as error:
            raise MindportError(
                tr(
                    "The declaration of {name} by {owner} cannot be loaded: {error}.",
                    name=brief(model_type),
                    owner=_distribution(entry),
                    error=_first_line(error),
                ),
                tr("Repair or uninstall that package."),
            ) from error

    def table(self, model_type: str) -> Path:
        return Path(str(self.module(model_type).__file__)).parent / TABLES / f"{model_type}.json"


def module_name(model_type: str) -> str:
    """Name of the module that declares a model_type."""
    return model_type.replace("-", "_").replace(".", "_")


def load(source: Source, model_type: str) -> Architecture:
    """The declaration of a model_type, of a source that lists it.

    Raises:
        MindportError: the module cannot be loaded, or is not a declaration of this model_type.
    """
    module = source.module(model_type)
    declared = getattr(module, "ARCHITECTURE", None)
    if not isinstance(declared, Architecture):
        raise MindportError(
            tr("{path} does not define ARCHITECTURE.", path=module.__file__),
            tr("Set ARCHITECTURE = Architecture(...) in it."),
        )
    if declared.model_type != model_type:
        raise MindportError(
            tr(
                "{path} declares model_type {found}, but is listed as {wanted}.",
                path=module.__file__,
                found=brief(declared.model_type),
                wanted=brief(model_type),
            ),
            tr("Name the module and its table of class defaults after the model_type."),
        )
    wrong = mistakes(declared)
    if wrong:
        raise MindportError(
            tr("{path} is not a valid declaration: {problems}.", path=module.__file__, problems="; ".join(wrong)),
            tr("See docs/extending/own_architecture.md."),
        )
    return declared


def read_table(path: Path) -> dict[str, Any]:
    """A table of class defaults.

    Raises:
        MindportError: missing, or not a JSON object.
    """
    try:
        table = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise MindportError(
            tr("{path} could not be read: {error}.", path=path, error=error.strerror),
            tr("Write there what the config class assumes for keys that a file leaves out."),
        ) from None
    except (ValueError, RecursionError) as error:
        raise MindportError(
            tr("{path} is not valid JSON: {error}.", path=path, error=error), tr("Correct it.")
        ) from None
    if not isinstance(table, dict):
        raise MindportError(tr("{path} does not hold a JSON object.", path=path), tr("Correct it."))
    return table


def _tables(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in (folder / TABLES).glob("*.json")))


def _distribution(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.value


def failed_at(file: Path, error: BaseException) -> MindportError:
    """One sentence with the line, in the folder of a declaration's module, at which its code failed."""
    if isinstance(error, SyntaxError) and error.filename:
        path, line, what = error.filename, error.lineno or 1, error.msg
    else:
        inside = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if Path(frame.filename).is_relative_to(file.parent.resolve())
        ]
        path, line = (inside[-1].filename, inside[-1].lineno or 1) if inside else (str(file), 1)
        what = f"{type(error).__name__}: {_first_line(error)}"
    return MindportError(tr("{path}, line {line}: {error}.", path=path, line=line, error=what), tr("Correct it."))


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".")
