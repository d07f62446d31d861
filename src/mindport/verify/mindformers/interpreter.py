"""The Python that has MindFormers: where it is looked for, and whether it will do.

MindFormers pins MindSpore and transformers to versions of its own, so it is rarely in the environment that Mindport is
in. Nothing is installed into the one that is found: `process` lends it Mindport's source.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mindport.errors import MindportError, brief
from mindport.i18n import tr
from mindport.targets.mindformers.versions import LATEST_EXECUTED, version_named

VARIABLE = "MINDPORT_MINDFORMERS_PYTHON"
"""Names the Python, where no option does."""

PROJECT_FOLDER = ".venv-mindformers"
"""Where `make conformance` puts its environment."""

PROJECT = Path(__file__).parents[4]
"""Where Mindport's own source is, if it is not installed but run from there."""

READY = ".ready"
"""In an environment that was made to the end."""

PACKAGES = ("mindformers", "mindspore", "numpy", "torch", "transformers")

OLDEST_PYTHON = (3, 10)
"""That Mindport's source runs in."""

_MARK = "mindport found "
_PROBE = f"""
import json, sys
from importlib.metadata import PackageNotFoundError, version
found = {{"python": ".".join(map(str, sys.version_info[:3]))}}
for name in {PACKAGES!r}:
    try:
        found[name] = version(name)
    except PackageNotFoundError:
        pass
print({_MARK!r} + json.dumps(found))
"""
_PATIENCE = 60
"""Seconds for an answer."""
_LONGEST = 2000


@dataclass(frozen=True)
class Interpreter:
    """A Python and what is installed in it.

    Args:
        python: the executable.
        versions: package -> version, and `python`; what is not installed is not there.
    """

    python: Path
    versions: Mapping[str, str]

    @property
    def has_reference(self) -> bool:
        """Whether transformers can compute the other side there."""
        return "torch" in self.versions and "transformers" in self.versions


@dataclass(frozen=True)
class Search:
    """What was found.

    Args:
        found: the first that will do, or None.
        passed_over: why others will not do, a sentence each.
    """

    found: Interpreter | None
    passed_over: tuple[str, ...]


def search(asked: Path | None, made: Path, apart_from: Sequence[Path] = ()) -> Search:
    """The Python to run MindFormers with.

    Args:
        asked: the one that the user names; without it, the environment variable counts.
        made: the environment that Mindport makes for itself.
        apart_from: model folders. What is downloaded is not to be trusted with code.

    Raises:
        MindportError: the one that the user names will not do.
    """
    named = asked or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    if named:
        python = (named / "bin" / "python" if named.is_dir() else named).absolute()
        found = look_at(python)
        return Search(found, ())
    passed_over: list[str] = []
    for python in _places(made, apart_from):
        try:
            return Search(look_at(python), tuple(passed_over))
        except MindportError as error:
            passed_over.append(error.message)
    return Search(None, tuple(passed_over))


def look_at(python: Path) -> Interpreter:
    """What is installed there.

    Raises:
        MindportError: it is no Python, or MindFormers is not there in the version that Mindport has executed.
    """
    found = Interpreter(python, _versions(python))
    why = _unsuitable(found.versions)
    if why:
        raise MindportError(
            tr("{python} will not do: {why}.", python=python, why=why),
            tr("Name another with --python, or leave the choice to Mindport."),
        )
    return found


def own() -> Interpreter:
    """The Python that runs this."""
    return Interpreter(Path(sys.executable), _versions(Path(sys.executable)))


def _places(made: Path, apart_from: Sequence[Path]) -> Iterator[Path]:
    if importlib.util.find_spec("mindformers") is not None:
        yield Path(sys.executable)
    for folder in dict.fromkeys([Path.cwd() / PROJECT_FOLDER, PROJECT / PROJECT_FOLDER, made]):
        inside = any(folder.resolve().is_relative_to(model.resolve()) for model in apart_from)
        if not inside and (folder / READY).is_file():
            yield folder / "bin" / "python"


def _versions(python: Path) -> dict[str, str]:
    try:
        done = subprocess.run(
            [python, "-c", _PROBE],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
            check=False,
            cwd=os.sep,  # no module of the current folder is to be taken for one of Python's
        )
        line = next(line for line in done.stdout.splitlines()[::-1] if line.startswith(_MARK))
        found = json.loads(line[len(_MARK) : _LONGEST])
        if not all(isinstance(value, str) for value in found.values()) or "python" not in found:
            raise ValueError(line)
    except (OSError, subprocess.TimeoutExpired, StopIteration, ValueError, AttributeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else tr("it gives no answer")
        raise MindportError(
            tr("{python} is no Python that can be run: {why}.", python=python, why=why),
            tr("Name another with --python."),
        ) from None
    return {str(name): value for name, value in found.items()}


def _unsuitable(versions: Mapping[str, str]) -> str:
    """Why MindFormers cannot be run there; "" where it can."""
    wanted = version_named(LATEST_EXECUTED)
    if "mindformers" not in versions:
        return tr("MindFormers is not installed there")
    for package, title, needed in (
        ("mindformers", "MindFormers", wanted.name),
        ("mindspore", "MindSpore", wanted.mindspore),
    ):
        if _release(versions.get(package, "")) != _release(needed):
            return tr(
                "it has {title} {found}, and Mindport has executed {needed} alone",
                title=title,
                found=brief(versions.get(package)),
                needed=".".join(_release(needed)),
            )
    if _number(versions["python"]) < OLDEST_PYTHON:
        return tr("it is Python {found}, and Mindport needs 3.10", found=brief(versions["python"]))
    return ""


def _release(version: str) -> list[str]:
    return version.split(".")[:2]


def _number(version: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in version.split(".")[:2])
    except ValueError:
        return ()
