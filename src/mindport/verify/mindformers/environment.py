"""The environment that Mindport makes for MindFormers where there is none: by venv and pip, pinned, all or nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mindport.checkpoint.publish import try_lock
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.targets.mindformers.versions import LATEST_EXECUTED, version_named
from mindport.verify.mindformers.interpreter import READY, Interpreter, look_at
from mindport.verify.mindformers.process import last_lines

CONSTRAINTS = Path(__file__).with_name("constraints.txt")
"""The versions that are known to work together."""

PACKAGES = ("mindformers", "mindspore", "numpy", "setuptools")
REFERENCE_PACKAGES = ("safetensors", "torch", "transformers")

GIGABYTES, OF_TORCH = 3.4, 0.8
"""On the disk: of the environment, and of torch, where pip takes the build for processors."""


@dataclass(frozen=True)
class Plan:
    """What would be made.

    Args:
        folder: of the environment.
        base: Python to make it with.
        packages: to be installed.
    """

    folder: Path
    base: Path
    packages: tuple[str, ...]

    @property
    def gigabytes(self) -> float:
        """On the disk, about."""
        return GIGABYTES + (OF_TORCH if "torch" in self.packages else 0)


def cache_folder() -> Path:
    """Where Mindport's own environment is, or would be."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "mindport" / f"mindformers-{LATEST_EXECUTED}"


def plan(folder: Path, *, reference: bool) -> Plan:
    """What it takes to make an environment.

    Args:
        reference: transformers has to compute the other side there, too.

    Raises:
        MindportError: the Python that the constraints are for is not here.
    """
    wanted = version_named(LATEST_EXECUTED).python
    here = ".".join(map(str, sys.version_info[:2]))
    base = sys.executable if here == wanted else shutil.which(f"python{wanted}")
    if base is None:
        raise MindportError(
            tr("An environment for MindFormers needs Python {wanted}, which is not found.", wanted=wanted),
            tr("Install python{wanted}, or name a Python that has MindFormers with --python.", wanted=wanted),
        )
    return Plan(folder, Path(base), (*PACKAGES, *(REFERENCE_PACKAGES if reference else ())))


def make(plan: Plan) -> Interpreter:
    """Make it, in the place of what is there. What is not finished is removed; if it stays, after a kill, it is not
    taken for an environment.

    Raises:
        MindportError: another process is making it, or venv or pip fails.
    """
    folder = plan.folder
    python = folder / "bin" / "python"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _alone(folder):
            _remove(folder)
            try:
                _do(plan, plan.base, "-m", "venv", folder)
                _do(plan, python, *_INSTALL, "--constraint", CONSTRAINTS, *plan.packages)
                made = look_at(python)
                (folder / READY).touch()
            except BaseException:
                _remove(folder)
                raise
    except OSError as error:
        raise _failed(plan, error.strerror or str(error)) from error
    return made


_QUIET = ("--quiet", "--no-input", "--disable-pip-version-check", "--progress-bar", "off")
_INSTALL = ("-m", "pip", "install", *_QUIET, "--no-compile", "--prefer-binary")


def _do(plan: Plan, *command: Path | str) -> None:
    # Packages on somebody's way of imports would count as installed.
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(
        [*map(str, command)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        env=kept,
        cwd=plan.folder.parent,
    )
    if done.returncode:
        raise _failed(plan, last_lines(done.stdout))


def _failed(plan: Plan, why: str) -> MindportError:
    return MindportError(
        tr("The environment {folder} could not be made: {why}", folder=plan.folder, why=why),
        tr("See to that, or name a Python that has MindFormers with --python."),
    )


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """A lock, beside the folder.

    Raises:
        MindportError: another process has it.
    """
    lock = os.open(folder.with_name(f".{folder.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not try_lock(lock):
            raise MindportError(
                tr("Another process is making {folder}.", folder=folder), tr("Wait for it, or end it first.")
            )
        yield
    finally:
        os.close(lock)


def _remove(folder: Path) -> None:
    """The mark that it is complete goes first."""
    (folder / READY).unlink(missing_ok=True)
    if folder.exists():
        shutil.rmtree(folder)
