"""Proof in MindFormers itself: a folder's own YAML and weights in MindFormers' own graph, against transformers."""

from __future__ import annotations

import math
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from mindport.checkpoint.problems import collapse_names, listed
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.targets.mindformers import LEGACY
from mindport.verify.compare import Difference
from mindport.verify.frameworks import EXTRAS
from mindport.verify.gates import Gate
from mindport.verify.mindformers.exchange import GRAPH, REFERENCE, Job, Tokens, read_answer, read_logits
from mindport.verify.mindformers.folder import Runnable
from mindport.verify.mindformers.interpreter import Interpreter
from mindport.verify.mindformers.process import run
from mindport.verify.mindformers.proof import FirstStep, Process, Proof
from mindport.verify.mindformers.resources import available_bytes
from mindport.verify.parity import forward_parity

Announce = Callable[[str], None]

OF_FORWARD, OF_STEP = 4, 12
"""Peak memory of MindFormers, as a multiple of the weights in float32; measured, see docs/mindformers.md."""
OF_FRAMEWORKS = 10**9
"""Bytes that the frameworks take by themselves."""


@dataclass(frozen=True)
class Request:
    """What is asked for.

    Args:
        model: the Hugging Face folder.
        folder: the converted one.
        declarations: folder of declarations of architectures, or None.
        gate: the pass marks.
        step: a training step, too.
        timeout: seconds, for each side.
    """

    model: Path
    folder: Path
    declarations: Path | None
    gate: Gate
    step: bool
    timeout: float


def prove(
    request: Request, checked: Runnable, mindformers: Interpreter, here: Interpreter, announce: Announce
) -> Proof:
    """Run both sides, one after the other, and compare.

    Args:
        checked: the folder of the request.
        mindformers: the Python that has MindFormers.
        here: ours, which computes the other side if it has transformers.
        announce: called with a sentence before something that takes long.

    Raises:
        MindportError: a side cannot be run to its end, or not enough memory is there.
    """
    transformers = here if here.has_reference else mindformers
    if not transformers.has_reference:
        raise MindportError(
            tr("Neither {here} nor {there} has torch and transformers.", here=here.python, there=mindformers.python),
            tr("Run: pip install 'mindport[{extras}]'.", extras=EXTRAS["torch"]),
        )
    no_step = _why_no_step(request, checked)
    with tempfile.TemporaryDirectory(prefix="mindport-") as made:
        exchange = Path(made)
        _job(request, checked, step=not no_step).write(exchange)
        announce(tr("transformers computes its side in {python}", python=transformers.python))
        reference = _side(transformers, REFERENCE, exchange, request.timeout, "torch", "transformers")
        announce(tr("MindFormers computes its side in {python}", python=mindformers.python))
        graph = _side(mindformers, GRAPH, exchange, request.timeout, "mindformers", "mindspore")
        return _compared(request, checked, exchange, no_step, {"mindformers": graph, "transformers": reference})


def _job(request: Request, checked: Runnable, *, step: bool) -> Job:
    destination = checked.destination
    return Job(
        str(request.model.absolute()),
        str(request.folder.absolute()),
        str(request.declarations.absolute()) if request.declarations else None,
        destination.family.generation,
        destination.family.name,
        str(checked.yaml.absolute()) if checked.executed_as_written else None,
        checked.section,
        {override.key: override.value for override in checked.overrides},
        tuple(str(file.absolute()) for file in checked.weights.files),
        checked.weights.format,
        checked.length,
        step,
    )


def _why_no_step(request: Request, checked: Runnable) -> str:
    """Why no training step is computed; "" if one is.

    Raises:
        MindportError: there is not even memory for the logits.
    """
    weights = 4 * sum(prod(entry.shape) for entry in checked.weights.entries.values())
    there = available_bytes()
    forward, step = (OF_FRAMEWORKS + times * weights for times in (OF_FORWARD, OF_STEP))
    if there is not None and forward > there:
        raise MindportError(
            tr(
                "MindFormers would need about {needed:.0f} GB of memory for this model, and {there:.0f} GB are free.",
                needed=math.ceil(forward / 1e9),
                there=there / 1e9,
            ),
            tr("Free some memory, or verify a smaller model of the same kind."),
        )
    if not request.step:
        return tr("it was not asked for")
    if checked.config.vocab:
        return tr("the conversion changed the vocabulary, over which a loss is computed")
    if there is not None and step > there:
        return tr(
            "it would need about {needed:.0f} GB of memory, and {there:.0f} GB are free",
            needed=math.ceil(step / 1e9),
            there=there / 1e9,
        )
    return ""


def _side(python: Interpreter, who: str, exchange: Path, timeout: float, *packages: str) -> Process:
    started = time.perf_counter()
    run(python.python, who, exchange, timeout)
    peak = read_answer(exchange, who).get("peak_mb")
    versions = {name: python.versions[name] for name in ("python", *packages) if name in python.versions}
    return Process(str(python.python), versions, time.perf_counter() - started, _number(peak, python))


def _compared(request: Request, checked: Runnable, exchange: Path, no_step: str, sides: Mapping[str, Process]) -> Proof:
    answers = {who: read_answer(exchange, who) for who in (REFERENCE, GRAPH)}
    python = sides["mindformers"].python
    _check_loaded(answers[GRAPH], python)
    transformer, destination = checked.config.model.transformer, checked.destination
    stand_ins = answers[GRAPH].get("stand_ins")
    tensors = answers[GRAPH].get("tensors")
    if not isinstance(stand_ins, dict) or not isinstance(tensors, int):
        raise _strange(python)
    return Proof(
        destination.version.name,
        destination.family.generation,
        destination.family.name,
        destination.layout.settings() if destination.layout else {},
        checked.yaml.name,
        checked.overrides,
        request.gate,
        checked.length,
        tensors,
        _parity(exchange, python),
        None if no_step else _step(answers, python),
        no_step,
        {str(name): str(note) for name, note in stand_ins.items()},
        destination.family.generation != LEGACY and transformer.mtp_num_layers > 0,
        sides,
    )


def _check_loaded(answer: Mapping[str, Any], python: str) -> None:
    wrong = answer.get("wrong")
    rows = isinstance(wrong, list) and all(
        isinstance(row, list) and len(row) == 2 and all(isinstance(text, str) for text in row) for row in wrong
    )
    if not rows:
        raise _strange(python)
    if wrong:
        raise MindportError(
            tr("The weights are not those that MindFormers' graph has:")
            + f"\n{listed(collapse_names((name, what) for name, what in wrong), 20)}\n",
            tr("Convert the model again, and leave its YAML as it is written."),
        )


def _parity(exchange: Path, python: str) -> tuple[Difference, ...]:
    try:
        tokens = Tokens.read(exchange)
        ours, theirs = read_logits(exchange, GRAPH), read_logits(exchange, REFERENCE)
        for batch in tokens.batches:
            if ours[batch.name].dtype != np.float32 or ours[batch.name].shape != theirs[batch.name].shape:
                raise ValueError(batch.name)
        return tuple(
            forward_parity(
                tokens.batches, lambda batch: {"logits": ours[batch.name]}, lambda batch: {"logits": theirs[batch.name]}
            )
        )
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        raise _strange(python) from None


def _step(answers: Mapping[str, Mapping[str, Any]], python: str) -> FirstStep:
    ours, theirs = answers[GRAPH].get("step"), answers[REFERENCE].get("step")
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        raise _strange(python)
    try:
        return FirstStep(*(float(side[key]) for key in ("loss", "gradient_norm") for side in (ours, theirs)))
    except (KeyError, TypeError, ValueError):
        raise _strange(python) from None


def _number(value: Any, python: Interpreter) -> float:
    if not isinstance(value, int | float):
        raise _strange(str(python.python))
    return float(value)


def _strange(python: str) -> MindportError:
    return MindportError(
        tr("{python} did not answer as Mindport asked.", python=python),
        tr("Name another Python with --python, or leave the choice to Mindport."),
    )
