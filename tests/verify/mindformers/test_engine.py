"""The comparison itself, with two small scripts in place of transformers and MindFormers."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import textwrap
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mindport.checkpoint.goal import Goal
from mindport.checkpoint.options import Options
from mindport.config.native import read_native_config
from mindport.errors import MindportError
from mindport.targets.mindformers import LEGACY
from mindport.verify.gates import STRICT
from mindport.verify.mindformers import engine, resources
from mindport.verify.mindformers.engine import Request, prove
from mindport.verify.mindformers.exchange import write_answer, write_logits
from mindport.verify.mindformers.folder import Runnable, runnable
from mindport.verify.mindformers.proof import Proof
from mindport.verify.mindformers.tokens import tokens_for

from .fakes import REFERENCE, SUITABLE, converted, hugging_face, interpreter

SIDE = """
import numpy as np
from mindport.config.native import read_native_config
from mindport.verify.mindformers.exchange import Job, Tokens, read_logits, write_answer, write_logits
from mindport.verify.mindformers.tokens import tokens_for
from pathlib import Path
exchange = Path(exchange)
assert Path.cwd() == exchange
job = Job.read(exchange)
step = {"loss": 2.5, "gradient_norm": 7.0} if job.step else None
"""

TRANSFORMERS = f"""{SIDE}
config = read_native_config(Path(job.folder))
tokens = tokens_for(config.model.transformer, None, job.length, config.vocab)
tokens.write(exchange)
random = np.random.default_rng(0)
width = config.model.transformer.vocab_size if tokens.rows is None else len(tokens.rows)
logits = {{b.name: random.normal(size=(2, job.length, width)).astype(np.float32) for b in tokens.batches}}
write_logits(exchange, who, logits)
write_answer(exchange, who, {{"step": step, "peak_mb": 12.5}})
"""

COPY = f"""{SIDE}
logits = {{name: array.copy() for name, array in read_logits(exchange, "reference").items()}}
answer = {{"wrong": [], "tensors": 21, "step": step, "stand_ins": {{"Outer": "a product"}}, "peak_mb": 99}}
"""

WRITE = """
write_logits(exchange, who, logits)
write_answer(exchange, who, answer)
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hugging_face(tmp_path_factory.mktemp("source") / "hf")


@pytest.fixture(scope="module")
def folder(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return converted(model, tmp_path_factory.mktemp("converted") / "mf")


@pytest.fixture(scope="module")
def checked(model: Path, folder: Path) -> Runnable:
    return runnable(model, folder)


@pytest.fixture(scope="module")
def computed(folder: Path, checked: Runnable, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the side of transformers answers, computed once."""
    place = tmp_path_factory.mktemp("computed")
    tokens = tokens_for(read_native_config(folder).model.transformer, None, checked.length, None)
    tokens.write(place)
    random = np.random.default_rng(0)
    write_logits(place, "reference", {b.name: random.normal(size=(2, 16, 19)).astype("f") for b in tokens.batches})
    write_answer(place, "reference", {"step": {"loss": 2.5, "gradient_norm": 7.0}, "peak_mb": 12.5})
    return place


Run = Callable[..., Proof]


@pytest.fixture
def run(model: Path, folder: Path, checked: Runnable, computed: Path, tmp_path: Path) -> Run:
    """run(body of MindFormers' side, body of transformers' side) -> the proof."""

    def command(
        body: str = "",
        reference: str = f"import shutil; shutil.copytree({str(computed)!r}, exchange, dirs_exist_ok=True)",
        *,
        step: bool = True,
        timeout: float = 60,
        of: Runnable = checked,
    ) -> Proof:
        request = Request(model, folder, None, STRICT, step, timeout)
        mindformers = interpreter(tmp_path / "mf", SUITABLE, COPY + body + WRITE)
        here = interpreter(tmp_path / "here", REFERENCE, reference)
        return prove(request, of, mindformers, here, lambda _: None)

    return command


def test_equal_sides_pass(run: Run, tmp_path: Path) -> None:
    proof = run()
    assert proof.passed
    assert [parity.what for parity in proof.parity] == [
        "logits, unpadded",
        "logits, all over the vocabulary",
        "logits, right-padded",
    ]
    assert [parity.positions for parity in proof.parity] == [32, 32, 27]
    assert proof.step is not None
    assert (proof.step.loss_difference, proof.step.gradient_norm_difference) == (0.0, 0.0)
    assert proof.tensors == 21
    assert proof.stand_ins == {"Outer": "a product"}
    assert (proof.version, proof.generation, proof.graph, proof.layout) == (
        "1.9",
        LEGACY,
        "llama",
        {"qkv_concat": False},
    )
    sides = proof.processes
    assert sides["mindformers"].versions == {"python": "3.11.7", "mindformers": "1.9.0", "mindspore": "2.9.0"}
    assert sides["transformers"].versions == REFERENCE
    assert (sides["mindformers"].peak_mb, sides["transformers"].peak_mb) == (99, 12.5)
    assert len(proof.proven) == 4
    assert "the YAML asks for bfloat16" in " ".join(proof.not_proven)


def test_the_job_is_the_folder_s_own(run: Run, folder: Path, model: Path) -> None:
    body = f"""
assert job.model == {str(model)!r} and job.folder == {str(folder)!r}
assert job.yaml == {str(folder / "pretrain.yaml")!r}
assert job.weights == [{str(folder / "model.safetensors")!r}] and job.format == "safetensors"
assert (job.generation, job.graph, job.length, job.step) == ("legacy", "llama", 16, True)
assert job.overrides["compute_dtype"] == "float32" and job.section["theta"] == 54321.0
import mindport, sys
assert "source" in mindport.__file__ and sys.path.count("") == 0
"""
    assert run(body).passed


def test_what_belongs_to_this_process_is_not_handed_on(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK_ID", "MS_ROLE", "RUN_MODE", "PYTHONHOME", "MS_WORKER_NUM", "DEVICE_ID"):
        monkeypatch.setenv(name, "/nowhere")
    body = """
for name in ("RANK_ID", "MS_ROLE", "RUN_MODE", "PYTHONHOME", "MS_WORKER_NUM", "DEVICE_ID"):
    assert name not in os.environ, name
assert os.environ["LOCAL_DEFAULT_PATH"].startswith(str(exchange))
"""
    assert run(body).passed


WRONG = {
    "one value": "logits['unpadded'][1, 3, 4] += 1e-3",
    "NaN": "logits['unpadded'][0, 0, 0] = np.nan",
    "all NaN": "logits['right-padded'][:] = np.nan",
    "rows swapped": "logits['unpadded'] = logits['unpadded'][::-1]",
    "the last batch": "logits['right-padded'][0, 15] += 1e-3",
    "the loss": "answer['step']['loss'] += 2e-4",
    "the gradient norm": "answer['step']['gradient_norm'] *= 1.002",
    "a loss that is NaN": "answer['step']['loss'] = float('nan')",
    "an infinite gradient": "answer['step']['gradient_norm'] = float('inf')",
}


@pytest.mark.parametrize("what", WRONG)
def test_a_difference_fails(what: str, run: Run) -> None:
    proof = run(WRONG[what])
    assert not proof.passed
    assert len(proof.proven) == 3


def test_padding_is_not_compared(run: Run) -> None:
    assert run("logits['right-padded'][1, 11:] = 1e9").passed


def test_a_tiny_difference_passes(run: Run) -> None:
    body = "logits['unpadded'][0] += 1e-6; answer['step']['loss'] += 1e-6; answer['step']['gradient_norm'] *= 1.0001"
    assert run(body).passed


HOSTILE = {
    "nothing": "sys.exit()",
    "no logits": "write_logits = lambda *_: None",
    "no answer": "write_answer = lambda *_: None",
    "half of the logits": "del logits['unpadded']",
    "another shape": "logits['unpadded'] = logits['unpadded'][:, :-1]",
    "another dtype": "logits['unpadded'] = logits['unpadded'].astype(np.float64)",
    "complex numbers": "logits['unpadded'] = logits['unpadded'].astype(np.complex64)",
    "a pickle": "logits['unpadded'] = np.array([print], object)",
    "no archive": "(exchange / 'graph.npz').write_bytes(b'x' * 99); write_logits = lambda *_: None",
    "an empty archive": "(exchange / 'graph.npz').write_bytes(b''); write_logits = lambda *_: None",
    "other tokens": "(exchange / 'batches.npz').write_bytes(b'')",
    "no step": "answer['step'] = None",
    "half a step": "del answer['step']['loss']",
    "a step in words": "answer['step']['loss'] = 'small'",
    "nothing of the weights": "del answer['wrong']",
    "strange rows": "answer['wrong'] = [['a']]",
    "strange notes": "answer['stand_ins'] = 3",
    "no count": "answer['tensors'] = 'many'",
    "no peak": "answer['peak_mb'] = None",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_an_answer_that_is_none(what: str, run: Run) -> None:
    with pytest.raises(MindportError, match="did not answer as Mindport asked"):
        run(HOSTILE[what])


@pytest.mark.parametrize("text", ["{", "[]", "\\xff"])
def test_an_answer_that_is_no_json(text: str, run: Run) -> None:
    with pytest.raises(MindportError, match="JSON"):
        run(f"(exchange / 'graph.json').write_text('{text}'); write_answer = lambda *_: None")


def test_weights_that_do_not_fit_are_listed(run: Run) -> None:
    rows = "answer['wrong'] = [[f'decoder.layers.{i}.a', 'is not in the graph'] for i in range(3)]"
    with pytest.raises(MindportError) as raised:
        run(f"{rows}; write_logits = lambda *_: None")
    assert "decoder.layers.{0..2}.a: is not in the graph" in raised.value.message


def test_a_sentence_of_the_other_side_is_ours(run: Run) -> None:
    said = "write_answer(exchange, who, {'error': {'message': 'No such thing.', 'fix': 'Make one.'}}); sys.exit(1)"
    with pytest.raises(MindportError) as raised:
        run(said)
    assert raised.value.as_dict() == {"message": "No such thing.", "fix": "Make one."}
    with pytest.raises(MindportError, match="No such thing"):
        run("", reference=f"{SIDE}{said}")


def test_a_crash_says_what_was_written_last(run: Run) -> None:
    body = "print(*range(10**6), file=sys.stderr); raise RuntimeError('the end \\x1b[31m of it')"
    with pytest.raises(MindportError, match=r"crashed \(status 1\); it wrote last: .*RuntimeError: the end") as raised:
        run(body)
    assert len(raised.value.message) < 2000
    assert "\n" not in raised.value.message


def test_a_killed_side(run: Run) -> None:
    with pytest.raises(MindportError, match="was killed, as happens when memory runs out"):
        run("os.kill(os.getpid(), 9)")
    with pytest.raises(MindportError, match=r"crashed \(status -11\)"):
        run("os.kill(os.getpid(), 11)")


def test_a_side_that_takes_too_long_is_ended_with_its_children(run: Run, tmp_path: Path) -> None:
    body = f"""
import subprocess
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
open({str(tmp_path / "child")!r}, "w").write(str(child.pid))
print("still at it", file=sys.stderr, flush=True)
time.sleep(60)
"""
    started = time.monotonic()
    with pytest.raises(MindportError, match=r"did not end within 4 s; it wrote last: still at it"):
        run(body, timeout=4)
    assert time.monotonic() - started < 40
    _await_end(int((tmp_path / "child").read_text()))


def test_an_interrupt_ends_the_side(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "pid"
    wait = subprocess.Popen.wait

    def interrupted(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        if timeout is None or "graph" not in process.args:  # type: ignore[operator]
            return wait(process, timeout)
        while not place.is_file() or not place.read_text():
            time.sleep(0.05)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(f"open({str(place)!r}, 'w').write(str(os.getpid())); time.sleep(60)")
    _await_end(int(place.read_text()))


def _await_end(pid: int) -> None:
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return
        if state == "Z":  # nobody has asked for its status yet
            return
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    pytest.fail("it lives on")


def test_nothing_is_left_behind(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    run()
    with pytest.raises(MindportError):
        run("sys.exit(3)")
    assert list((tmp_path / "temporary").iterdir()) == []


# --- what is not computed ---------------------------------------------------------------------------------------------


def test_without_a_step(run: Run) -> None:
    proof = run("assert not job.step", step=False)
    assert proof.passed
    assert proof.step is None
    assert "A training step: it was not asked for." in proof.not_proven


def test_memory_for_the_logits_alone(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "OF_FRAMEWORKS", 10**9)
    monkeypatch.setattr(engine, "available_bytes", lambda: 10**9 + 50_000)
    proof = run()
    assert proof.passed
    assert proof.step is None
    assert "it would need about 2 GB of memory" in proof.no_step


def test_no_memory(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "available_bytes", lambda: 10**8)
    with pytest.raises(MindportError, match=r"would need about 2 GB of memory for this model, and 0 GB are free"):
        run()


def test_where_nobody_knows_the_memory(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "available_bytes", lambda: None)
    assert run().step is not None


def test_a_changed_vocabulary(run: Run, model: Path, tmp_path: Path) -> None:
    """Rows that the source does not have are neither asked for nor compared, and there is no loss."""
    options = Options(vocab_size=24, vocab_rule="mean")
    folder = converted(model, tmp_path / "resized", options=options)
    body = "tokens = Tokens.read(exchange)\nassert list(tokens.rows) == list(range(19)), tokens.rows"
    proof = run(body, of=runnable(model, folder), reference=TRANSFORMERS.replace("job.folder", repr(str(folder))))
    assert proof.passed
    assert "the conversion changed the vocabulary" in proof.no_step


def test_another_version_is_said_plainly(run: Run, model: Path, tmp_path: Path) -> None:
    folder = converted(model, tmp_path / "old", Goal("1.7", tmp_path / "old", LEGACY))
    proof = run("assert job.yaml is None", of=runnable(model, folder))
    assert proof.not_proven[0] == "The folder is for MindFormers 1.7; it was executed in 1.9, not in 1.7."


def test_transformers_nowhere(model: Path, folder: Path, checked: Runnable, tmp_path: Path) -> None:
    request = Request(model, folder, None, STRICT, True, 9)
    both = interpreter(tmp_path / "py", SUITABLE)
    with pytest.raises(MindportError, match="has torch and transformers"):
        prove(request, checked, both, both, lambda _: None)


def test_transformers_where_mindformers_is(
    run: Run, model: Path, folder: Path, checked: Runnable, tmp_path: Path
) -> None:
    request = Request(model, folder, None, STRICT, True, 60)
    sides = [textwrap.indent(side, " ") for side in (TRANSFORMERS, COPY + WRITE)]
    body = f"if who == 'reference':\n{sides[0]}\nelse:\n{sides[1]}"
    there = interpreter(tmp_path / "there", {**SUITABLE, **REFERENCE}, body)
    here = replace(there, python=tmp_path / "nothing", versions={"python": "3.12.1"})
    proof = prove(request, checked, there, here, lambda _: None)
    assert proof.passed
    assert {side.python for side in proof.processes.values()} == {str(there.python)}


def test_memory_is_measured() -> None:
    there = resources.available_bytes()
    assert there is None or there > 10**6
    assert 1 < resources.peak_mb() < 10**6
    assert not math.isnan(resources.peak_mb())


def test_the_least_bound_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"max": "1000", "current": "900", "stat": "anon 1\ninactive_file 300\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(resources, "_GROUPS", (tuple(str(tmp_path / name) for name in files),))
    assert resources.available_bytes() == 400
    (tmp_path / "max").write_text("max\n")
    assert resources.available_bytes() != 400
