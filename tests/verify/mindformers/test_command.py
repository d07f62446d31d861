"""`mindport verify --engine mindformers` as a user meets it, up to where MindFormers is run."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from mindport.cli import mindformers as command
from mindport.cli.app import app
from mindport.errors import MindportError
from mindport.verify.gates import STRICT
from mindport.verify.mindformers import engine, environment, interpreter
from mindport.verify.mindformers.__main__ import main
from mindport.verify.mindformers.environment import Plan
from mindport.verify.mindformers.exchange import Job, read_answer
from mindport.verify.mindformers.interpreter import VARIABLE, Interpreter, Search
from mindport.verify.mindformers.proof import FirstStep, Process, Proof

from .fakes import REFERENCE, SUITABLE, converted, hugging_face
from .fakes import interpreter as fake


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hugging_face(tmp_path_factory.mktemp("source") / "hf")


@pytest.fixture(scope="module")
def folder(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return converted(model, tmp_path_factory.mktemp("converted") / "mf")


class Stage:
    """What is found, what is made, and what the comparison is asked to do."""

    def __init__(self) -> None:
        self.found: Interpreter | None = None
        self.passed_over: tuple[str, ...] = ()
        self.made: list[Plan] = []
        self.requests: list[tuple[Any, ...]] = []
        self.loss = 2.0


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """No MindFormers anywhere, and none is run."""
    stage = Stage()
    made = Interpreter(tmp_path / "cache" / "bin" / "python", SUITABLE)

    def make(plan: Plan) -> Interpreter:
        stage.made.append(plan)
        return made

    def prove(*arguments: Any) -> Proof:
        stage.requests.append(arguments)
        side = Process("/py", SUITABLE, 1.0, 2.0)
        sides = {"mindformers": side, "transformers": Process("/here", REFERENCE, 1.0, 2.0)}
        parity = engine.forward_parity(*_logits())
        step = FirstStep(stage.loss, 2.0, 1.0, 1.0)
        overrides = arguments[1].overrides
        return Proof(
            "1.9",
            "legacy",
            "llama",
            {},
            "pretrain.yaml",
            overrides,
            STRICT,
            16,
            21,
            tuple(parity),
            step,
            "",
            {"Outer": "a \x1b product"},
            False,
            sides,
        )

    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(interpreter, "search", lambda *_: Search(stage.found, stage.passed_over))
    monkeypatch.setattr(environment, "plan", lambda place, reference: Plan(place, Path("/py"), ("mindformers",)))
    monkeypatch.setattr(environment, "make", make)
    monkeypatch.setattr(engine, "prove", prove)
    return stage


def _logits() -> tuple[Any, Any, Any]:
    import numpy as np

    from mindport.verify.batches import Batch

    ones = np.ones((2, 3), np.int32)
    array = np.arange(30, dtype=np.float32).reshape(2, 3, 5)
    return [Batch("unpadded", ones, ones)], lambda _: {"logits": array}, lambda _: {"logits": array}


def run(*arguments: Path | str, answer: str = "") -> Result:
    return CliRunner().invoke(app, ["verify", *map(str, arguments)], input=answer)


def verify(model: Path, folder: Path, *more: str, answer: str = "") -> Result:
    return run(model, folder, "--engine", "mindformers", *more, answer=answer)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["x", "y", "--python", "p"], "--python belongs to --engine mindformers."),
        (["x", "y", "--yes"], "--yes belongs to --engine mindformers."),
        (["x", "y", "--engine", "native", "--no-step"], "--no-step belongs to --engine mindformers."),
        (["x", "--engine", "mindformers", "--weights"], "--weights and --load have no engine."),
        (["x", "--engine", "mindformers", "--load"], "--weights and --load have no engine."),
        (["x", "--engine", "mindformers"], "Give MODEL and DIR"),
        (["x", "y", "--engine", "torch"], "--engine"),
        (["x", "y", "--engine", "mindformers", "--timeout", "0"], "--timeout"),
    ],
)
def test_wrong_usage(arguments: list[str], sentence: str) -> None:
    ended = run(*arguments)
    assert ended.exit_code == 2
    assert sentence in ended.stderr


def test_without_the_engine_it_is_named(model: Path, folder: Path) -> None:
    for more in ([], ["--engine", "native"]):
        ended = run(model, folder, *more)
        assert isinstance(ended.exception, MindportError)
        assert "mindport verify MODEL DIR --engine mindformers" in ended.exception.fix


def test_what_was_found_is_used(model: Path, folder: Path, stage: Stage) -> None:
    stage.found = Interpreter(Path("/py"), SUITABLE)
    ended = verify(model, folder, "--no-step", "--timeout", "7", "--gate", "acceptance")
    assert ended.exit_code == 0, ended.output
    assert stage.made == []
    ((request, checked, mindformers, here, _),) = stage.requests
    assert (request.model, request.folder, request.step, request.timeout) == (model, folder, False, 7.0)
    assert request.gate.name == "acceptance"
    assert mindformers is stage.found
    assert checked.yaml == folder / "pretrain.yaml"
    assert here.versions["python"]
    for text in (
        "proven:",
        "not proven:",
        "- The kernels of an NPU",
        "compute_dtype",
        "Outer: a \\x1b product",
        "pass",
    ):
        assert text in ended.stdout


def test_a_failed_comparison(model: Path, folder: Path, stage: Stage) -> None:
    stage.found, stage.loss = Interpreter(Path("/py"), SUITABLE), 2.1
    ended = verify(model, folder)
    assert isinstance(ended.exception, MindportError)
    assert "something else than the strict gate allows" in ended.exception.message
    assert "FAIL" in ended.stdout
    ended = verify(model, folder, "--json")
    assert ended.exit_code == 1
    assert (
        json.loads(ended.stdout)["error"]["message"]
        == "MindFormers computes something else than the strict gate allows."
    )


def test_json(model: Path, folder: Path, stage: Stage) -> None:
    stage.found = Interpreter(Path("/py"), SUITABLE)
    ended = verify(model, folder, "--json")
    assert ended.exit_code == 0, ended.output
    found = json.loads(ended.stdout)
    assert list(found) == ["passed", "engine", *(f.name for f in fields(Proof)), "proven", "not_proven"]
    assert found["passed"] is True
    assert found["step"] == {"loss": 2.0, "reference_loss": 2.0, "gradient_norm": 1.0, "reference_gradient_norm": 1.0}


# --- where there is none ----------------------------------------------------------------------------------------------


def test_nobody_is_there_to_be_asked(model: Path, folder: Path, stage: Stage) -> None:
    for more in ([], ["--json"]):
        ended = verify(model, folder, *more, answer="y\n")
        assert isinstance(ended.exception, MindportError)
        assert "MindFormers is not found. Mindport can make an environment for it in" in ended.exception.message
        assert "about 3.4 GB" in ended.exception.message
        assert "--yes" in ended.exception.fix
    assert stage.made == []
    assert stage.requests == []


def test_it_is_made_after_asking(model: Path, folder: Path, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_somebody_is_there", lambda: True)
    stage.passed_over = ("/old/python will not do: it is old.",)
    ended = verify(model, folder, answer="n\n")
    assert isinstance(ended.exception, MindportError)
    assert "Nothing was made" in ended.exception.message
    assert "/old/python will not do" in ended.stderr
    assert "about 3.4 GB" in ended.stderr
    assert stage.made == []
    ended = verify(model, folder, answer="y\n")
    assert ended.exit_code == 0, ended.output
    assert [plan.folder.name for plan in stage.made] == ["mindformers-1.9"]
    assert len(stage.requests) == 1


def test_yes_answers_it(model: Path, folder: Path, stage: Stage) -> None:
    ended = verify(model, folder, "--yes", "--json")
    assert ended.exit_code == 0, ended.output
    assert json.loads(ended.stdout)["passed"]
    assert len(stage.made) == 1
    assert "about 3.4 GB" in ended.stderr


def test_a_folder_that_will_not_do_is_found_out_before_anything_is_made(
    model: Path, stage: Stage, tmp_path: Path
) -> None:
    from mindport.checkpoint.convert import convert

    convert(model, tmp_path / "native")
    ended = verify(model, tmp_path / "native", "--yes")
    assert isinstance(ended.exception, MindportError)
    assert "native network" in ended.exception.message
    assert stage.made == []


def test_a_python_that_was_named_and_will_not_do(model: Path, folder: Path, tmp_path: Path) -> None:
    python = fake(tmp_path / "py", {**SUITABLE, "mindspore": "2.8.0"}).python
    ended = verify(model, folder, "--python", str(python), "--yes")
    assert isinstance(ended.exception, MindportError)
    assert "it has MindSpore '2.8.0'" in ended.exception.message


# --- the processes' own entry -----------------------------------------------------------------------------------------


def job(exchange: Path, **changes: Any) -> Path:
    values = {
        "declarations": None,
        "generation": "legacy",
        "graph": "llama",
        "yaml": None,
        "section": {},
        "overrides": {},
    }
    values |= {
        "model": "m",
        "folder": "f",
        "weights": (),
        "format": "safetensors",
        "length": 4,
        "step": False,
        **changes,
    }
    Job(**values).write(exchange)
    return exchange


def test_an_error_of_a_process_is_its_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    assert main("reference", str(job(tmp_path))) == 1
    assert "does not exist" in read_answer(tmp_path, "reference")["error"]["message"]
    assert "Traceback" in capsys.readouterr().err  # for those who look for more


def test_declarations_are_taken_into_use(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    assert main("graph", str(job(tmp_path, declarations=str(tmp_path / "mine")))) == 1
    assert "holds no declarations" in read_answer(tmp_path, "graph")["error"]["message"]
