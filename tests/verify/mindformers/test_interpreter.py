"""Which Python is taken to run MindFormers, and why others are not."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from mindport.errors import MindportError
from mindport.verify.mindformers import interpreter as module
from mindport.verify.mindformers.interpreter import PROJECT_FOLDER, READY, VARIABLE, look_at, search

from .fakes import SUITABLE, interpreter


@pytest.fixture(autouse=True)
def _nothing_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A current folder, a project and a Python without any MindFormers."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(module, "PROJECT", tmp_path / "project")
    monkeypatch.delenv(VARIABLE, raising=False)
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "mindformers" else found(name))


def environment(folder: Path, versions: dict[str, str] = SUITABLE, *, ready: bool = True) -> Path:
    """An environment as `make conformance` leaves it."""
    python = interpreter(folder / "bin" / "python", versions).python
    if ready:
        (folder / READY).touch()
    return python


def test_nothing_is_found_where_nothing_is(tmp_path: Path) -> None:
    found = search(None, tmp_path / "made")
    assert found.found is None
    assert found.passed_over == ()


def test_the_order_of_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tmp_path / "made"
    for folder in (made, tmp_path / "project" / PROJECT_FOLDER, tmp_path / "here" / PROJECT_FOLDER):
        python = environment(folder)
        found = search(None, made).found
        assert found is not None
        assert found.python == python
        assert found.versions == SUITABLE
    for named in (tmp_path / "other" / "bin" / "python", tmp_path / "other"):  # the environment will do, too
        environment(tmp_path / "other")
        monkeypatch.setenv(VARIABLE, str(named))
        found = search(None, made).found
        assert found is not None
        assert found.python == tmp_path / "other" / "bin" / "python"
    option = interpreter(tmp_path / "option", SUITABLE).python
    found = search(option, made).found
    assert found is not None
    assert found.python == option


def test_our_own_python_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = interpreter(tmp_path / "own", SUITABLE).python
    environment(tmp_path / "made")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(sys, "executable", str(own))
    found = search(None, tmp_path / "made").found
    assert found is not None
    assert found.python == own


def test_a_relative_path_is_one_of_the_current_folder(tmp_path: Path) -> None:
    interpreter(tmp_path / "here" / "py", SUITABLE)
    found = search(Path("py"), tmp_path / "made").found
    assert found is not None
    assert found.python == tmp_path / "here" / "py"


def test_an_environment_that_was_not_finished_is_not_taken(tmp_path: Path) -> None:
    environment(tmp_path / "made", ready=False)
    assert search(None, tmp_path / "made").found is None


def test_nothing_is_run_that_lies_in_a_model(tmp_path: Path) -> None:
    here = tmp_path / "here"
    environment(here / PROJECT_FOLDER)
    assert search(None, tmp_path / "made", [here]).found is None
    assert search(None, tmp_path / "made", [tmp_path / "project"]).found is not None


UNSUITABLE = {
    "no MindFormers": ({"mindformers": ""}, "MindFormers is not installed there"),
    "another MindFormers": (
        {"mindformers": "1.8.0"},
        "it has MindFormers '1.8.0', and Mindport has executed 1.9 alone",
    ),
    "a later MindFormers": ({"mindformers": "1.90.0"}, "it has MindFormers '1.90.0'"),
    "another MindSpore": ({"mindspore": "2.10.1"}, "it has MindSpore '2.10.1', and Mindport has executed 2.9 alone"),
    "no MindSpore": ({"mindspore": ""}, "it has MindSpore None"),
    "an old Python": ({"python": "3.9.18"}, "it is Python '3.9.18', and Mindport needs 3.10"),
    "no number": ({"python": "three"}, "it is Python 'three'"),
}


@pytest.mark.parametrize("what", UNSUITABLE)
def test_what_will_not_do(what: str, tmp_path: Path) -> None:
    changes, sentence = UNSUITABLE[what]
    versions = {name: version for name, version in {**SUITABLE, **changes}.items() if version}
    python = environment(tmp_path / "made", versions)
    found = search(None, tmp_path / "made")
    assert found.found is None
    (why,) = found.passed_over
    assert str(python) in why
    assert sentence in why
    with pytest.raises(MindportError, match="will not do"):  # and is an error where it was asked for
        search(python, tmp_path / "nothing")


def test_the_next_place_is_taken_where_one_will_not_do(tmp_path: Path) -> None:
    environment(tmp_path / "here" / PROJECT_FOLDER, {**SUITABLE, "mindformers": "1.8.0"})
    python = environment(tmp_path / "made")
    found = search(None, tmp_path / "made")
    assert found.found is not None
    assert found.found.python == python
    assert len(found.passed_over) == 1


def test_a_local_build_is_the_same_release(tmp_path: Path) -> None:
    versions = {**SUITABLE, "mindspore": "2.9.1+cpu", "mindformers": "1.9.3"}
    assert look_at(interpreter(tmp_path / "py", versions).python).versions == versions


HOSTILE = {
    "it ends": "sys.exit(3)",
    "it says nothing of use": "print('hello'); sys.exit()",
    "no JSON": "print('mindport found {'); sys.exit()",
    "no object": "print('mindport found [1]'); sys.exit()",
    "no text": "print('mindport found {\"python\": 3}'); sys.exit()",
    "no Python": 'print(\'mindport found {"mindformers": "1.9.0"}\'); sys.exit()',
    "bytes": "sys.stdout.buffer.write(bytes(range(256)) * 9); sys.exit()",
    "far too much": "print('mindport found {\"python\": \"' + '3' * 10**6 + '\"}'); sys.exit()",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_an_answer_that_is_none(what: str, tmp_path: Path) -> None:
    python = interpreter(tmp_path / "py", SUITABLE, first=HOSTILE[what]).python
    with pytest.raises(MindportError, match="is no Python that can be run: it gives no answer"):
        look_at(python)


def test_a_python_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 0.5)
    python = interpreter(tmp_path / "py", SUITABLE, first="time.sleep(60)").python
    with pytest.raises(MindportError, match="it gives no answer"):
        look_at(python)


def test_no_file_and_no_program(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    for name, why in {"nothing": "No such file", "text": "Permission denied"}.items():
        with pytest.raises(MindportError, match=why):
            look_at(tmp_path / name)


def test_modules_of_the_current_folder_are_not_run(tmp_path: Path) -> None:
    (tmp_path / "here" / "json.py").write_text("raise SystemExit(9)")
    done = subprocess.run([sys.executable, "-c", "import json"], cwd=tmp_path / "here", check=False)
    assert done.returncode == 9  # it would be
    assert module.own().versions["python"] == ".".join(map(str, sys.version_info[:3]))
