"""The environment that is made for MindFormers: what with, and that it is there complete or not at all."""

from __future__ import annotations

import fcntl
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mindport.errors import MindportError
from mindport.verify.mindformers import environment, interpreter
from mindport.verify.mindformers.environment import (
    CONSTRAINTS,
    PACKAGES,
    REFERENCE_PACKAGES,
    Plan,
    cache_folder,
    make,
    plan,
)
from mindport.verify.mindformers.interpreter import READY, search

from .fakes import SUITABLE

BASE = """#!{python}
import json, os, sys
from pathlib import Path
if sys.argv[1:3] == ["-m", "venv"]:
    assert "PYTHONPATH" not in os.environ
    if {venv_fails!r}:
        sys.exit("no ensurepip here")
    python = Path(sys.argv[3]) / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(Path(__file__).read_text())
    python.chmod(0o755)
elif sys.argv[1:3] == ["-m", "pip"]:
    assert "PYTHONPATH" not in os.environ
    Path({arguments!r}).write_text(json.dumps(sys.argv))
    {pip}
else:
    print("mindport found " + json.dumps({versions!r}))
"""


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where what pip was called with is written."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))  # what lies there is not installed
    return tmp_path / "arguments.json"


def base(
    path: Path, arguments: Path, pip: str = "pass", versions: dict[str, str] = SUITABLE, *, venv_fails: bool = False
) -> Path:
    """A Python whose venv and pip are a few lines."""
    path.write_text(
        BASE.format(python=sys.executable, arguments=str(arguments), pip=pip, versions=versions, venv_fails=venv_fails)
    )
    path.chmod(0o755)
    return path


def test_the_constraints_pin_what_is_installed() -> None:
    """They are a part of the package, and those that `make conformance` runs with."""
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", CONSTRAINTS.read_text(encoding="utf-8"), re.MULTILINE))
    assert {*PACKAGES, *REFERENCE_PACKAGES} <= pinned.keys()
    assert pinned["mindformers"].startswith("1.9.")
    assert pinned["mindspore"].startswith("2.9.")
    makefile = (Path(__file__).parents[3] / "Makefile").read_text(encoding="utf-8")
    assert f"CONSTRAINTS_MF := {CONSTRAINTS.relative_to(Path(__file__).parents[3])}\n" in makefile


def test_a_finished_environment_is_found(tmp_path: Path, arguments: Path) -> None:
    folder = tmp_path / "cache" / "mindformers-1.9"
    made = make(Plan(folder, base(tmp_path / "base", arguments), ("mindformers", "torch")))
    assert made.python == folder / "bin" / "python"
    assert made.versions == SUITABLE
    assert search(made.python, folder).found == made
    assert (folder / READY).is_file()
    said = arguments.read_text()
    assert str(CONSTRAINTS) in said
    assert '"mindformers", "torch"]' in said


FAILURES = {
    "pip says no": ("sys.exit('ERROR: no matching distribution')", SUITABLE, "ERROR: no matching distribution"),
    "pip dies": ("os.kill(os.getpid(), 9)", SUITABLE, "could not be made"),
    "pip installs something else": ("pass", {**SUITABLE, "mindformers": "1.8.0"}, "Mindport has executed 1.9 alone"),
}


@pytest.mark.parametrize("what", FAILURES)
def test_a_failure_leaves_nothing(what: str, tmp_path: Path, arguments: Path) -> None:
    pip, versions, sentence = FAILURES[what]
    folder = tmp_path / "cache" / "made"
    with pytest.raises(MindportError, match=re.escape(sentence)):
        make(Plan(folder, base(tmp_path / "base", arguments, pip, versions), ("mindformers",)))
    assert arguments.is_file()
    assert not folder.exists()


def test_a_python_without_venv(tmp_path: Path, arguments: Path) -> None:
    with pytest.raises(MindportError, match="no ensurepip here"):
        make(Plan(tmp_path / "made", base(tmp_path / "base", arguments, venv_fails=True), ()))
    assert not (tmp_path / "made").exists()


def test_an_interrupt_leaves_nothing(tmp_path: Path, arguments: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "made"
    run = subprocess.run

    def interrupted(command: list[str], **options: object) -> object:
        if "pip" in command:
            assert (folder / "bin" / "python").is_file()
            raise KeyboardInterrupt
        return run(command, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make(Plan(folder, base(tmp_path / "base", arguments), ()))
    assert not folder.exists()


def test_what_a_kill_left_is_not_taken_and_replaced(
    tmp_path: Path, arguments: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Both may have an environment of their own.
    monkeypatch.setattr(interpreter, "PROJECT", tmp_path / "project")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "made"
    (folder / "lib").mkdir(parents=True)
    (folder / "lib" / "half").touch()
    assert search(None, folder, [tmp_path]).found is None
    make(Plan(folder, base(tmp_path / "base", arguments), ()))
    assert not (folder / "lib" / "half").exists()
    assert (folder / READY).is_file()


def test_two_at_once(tmp_path: Path, arguments: Path) -> None:
    folder = tmp_path / "made"
    with (tmp_path / ".made.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(MindportError, match="Another process is making"):
            make(Plan(folder, base(tmp_path / "base", arguments), ()))
    assert not folder.exists()
    make(Plan(folder, base(tmp_path / "base", arguments), ()))


def test_a_folder_that_cannot_be_made(tmp_path: Path, arguments: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MindportError, match="could not be made"):
        make(Plan(tmp_path / "file" / "made", base(tmp_path / "base", arguments), ()))


def test_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "mindport" / "mindformers-1.9"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "mindport" / "mindformers-1.9"
    monkeypatch.setattr(environment.sys, "version_info", (3, 12, 0))
    monkeypatch.setattr(environment.shutil, "which", lambda name: f"/usr/bin/{name}")
    without, with_torch = (plan(tmp_path, reference=reference) for reference in (False, True))
    assert without.base == Path("/usr/bin/python3.11")
    assert "torch" not in without.packages
    assert "torch" in with_torch.packages
    assert without.gigabytes < with_torch.gigabytes
    monkeypatch.setattr(environment.shutil, "which", lambda name: None)
    with pytest.raises(MindportError, match=r"needs Python 3\.11"):
        plan(tmp_path, reference=False)
    monkeypatch.setattr(environment.sys, "version_info", (3, 11, 9))
    assert plan(tmp_path, reference=False).base == Path(sys.executable)
