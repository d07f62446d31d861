"""One process of a comparison: MindFormers' own graph with the folder's YAML and weights, in a Python that has it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.targets.mindformers import family_named
from mindport.verify.mindformers.exchange import GRAPH, Job, Tokens, write_answer, write_logits
from mindport.verify.mindformers.resources import peak_mb

_LONGEST = 600
"""Characters of somebody else's error that are passed on."""


def execute(exchange: Path, job: Job) -> None:
    """Build the graph, load the weights, and write what it computes of the tokens that the reference has chosen.

    Raises:
        MindportError: MindFormers refuses something; with what it says.
    """
    family = family_named(job.graph, job.generation)
    if family is None:
        raise ValueError(f"{job.graph} ({job.generation})")
    tokens = Tokens.read(exchange)
    with _said_by_mindformers(tr("reads {file}", file=Path(job.yaml).name if job.yaml else "-")):
        from mindport.verify.mindformers import graphs, stand_ins  # they import MindSpore

        section = _section(job)
    with _said_by_mindformers(tr("builds the model")):
        graph = graphs.build(family, section)
    with _said_by_mindformers(tr("loads the weights")):
        wrong = graph.load_files(job.weights, job.format)
    answer: dict[str, Any] = {"wrong": wrong, "tensors": len(graph.shapes()), "step": None}
    if not wrong:
        with _said_by_mindformers(tr("computes the logits")):
            logits = {batch.name: graph.logits(batch.input_ids) for batch in tokens.batches}
        if tokens.rows is not None:
            logits = {name: array[..., tokens.rows] for name, array in logits.items()}
        write_logits(exchange, GRAPH, logits)
    if not wrong and job.step:
        with _said_by_mindformers(tr("computes a training step")):
            step = graph.step(tokens.step)
        answer["step"] = {"loss": step.loss, "gradient_norm": step.gradient_norm}
    notes = stand_ins.notes()
    answer |= {"stand_ins": {name: notes[name] for name in stand_ins.used()}, "peak_mb": peak_mb()}
    write_answer(exchange, GRAPH, answer)


def _section(job: Job) -> dict[str, Any]:
    """The model's section, by MindFormers' own reader where that knows the file."""
    section: Mapping[str, Any] = job.section
    if job.yaml is not None:
        register = importlib.import_module("mindformers.tools.register")
        section = register.MindFormerConfig(job.yaml).model.model_config
    settings = {**section, **job.overrides}
    settings.pop("type", None)  # the class, which `family` names
    return settings


@contextmanager
def _said_by_mindformers(doing: str) -> Iterator[None]:
    """Whatever MindFormers raises, as the sentence that a user needs."""
    try:
        yield
    except MindportError:
        raise
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise MindportError(
            tr("MindFormers stops where it {doing}: {error}", doing=doing, error=said[:_LONGEST]),
            tr("Correct the YAML, or convert the model again."),
        ) from error
