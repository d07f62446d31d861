"""What the processes of a comparison hand each other, as files of one folder: a job, tokens, logits, a first step.

JSON and arrays without pickle: an interpreter that answers with something else is found out, and nothing is run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mindport.config.json_file import read_json_object, write_json
from mindport.verify.batches import Batch

REFERENCE, GRAPH = "reference", "graph"
"""The two processes: transformers, and MindFormers. Each writes `NAME.npz` and `NAME.json`."""

JOB, BATCHES = "job.json", "batches.npz"

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Job:
    """What is to be computed.

    Args:
        model: the Hugging Face folder.
        folder: the converted one.
        declarations: folder of declarations of architectures, or None.
        generation, graph: which of MindFormers' graphs.
        yaml: file that MindFormers reads the model's section from; None: its own reader does not know this version's
            files, and `section` counts.
        section: `model.model_config`, as Mindport reads it.
        overrides: keys of the section that are other on a CPU.
        weights: files.
        format: of them, "safetensors" or "ckpt".
        length: tokens of a sequence.
        step: the first training step is to be computed, too.
    """

    model: str
    folder: str
    declarations: str | None
    generation: str
    graph: str
    yaml: str | None
    section: Mapping[str, Any]
    overrides: Mapping[str, Any]
    weights: tuple[str, ...]
    format: str
    length: int
    step: bool

    def write(self, exchange: Path) -> None:
        """For the processes."""
        (exchange / JOB).write_text(json.dumps(asdict(self)), encoding="utf-8")

    @staticmethod
    def read(exchange: Path) -> Job:
        """In a process."""
        return Job(**read_json_object(exchange / JOB))


@dataclass(frozen=True)
class Tokens:
    """What both sides are run on, the same for both unless the conversion changed the vocabulary.

    Args:
        batches: (2, length) each, in the rows of the converted vocabulary.
        step: (2, length + 1), of the training step.
        rows: rows of the converted vocabulary that the source has, too; None: all.
    """

    batches: tuple[Batch, ...]
    step: np.ndarray
    rows: np.ndarray | None

    def write(self, exchange: Path) -> None:
        """For the other process."""
        arrays = {f"{number}.{batch.name}.ids": batch.input_ids for number, batch in enumerate(self.batches)}
        arrays |= {f"{number}.{batch.name}.mask": batch.attention_mask for number, batch in enumerate(self.batches)}
        rows = {} if self.rows is None else {"rows": self.rows}
        np.savez(exchange / BATCHES, step=self.step, **arrays, **rows)

    @staticmethod
    def read(exchange: Path) -> Tokens:
        """Back.

        Raises:
            OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile: they are not there.
        """
        with np.load(exchange / BATCHES, allow_pickle=False) as file:
            named = sorted(name.removesuffix(".ids") for name in file.files if name.endswith(".ids"))
            batches = (Batch(name.partition(".")[2], file[f"{name}.ids"], file[f"{name}.mask"]) for name in named)
            return Tokens(tuple(batches), file["step"], file["rows"] if "rows" in file.files else None)


def write_logits(exchange: Path, who: str, logits: Arrays) -> None:
    """Of each batch, by its name."""
    np.savez(exchange / f"{who}.npz", **logits)


def read_logits(exchange: Path, who: str) -> dict[str, np.ndarray]:
    """Back.

    Raises:
        OSError, ValueError, EOFError, zipfile.BadZipFile: they are not there.
    """
    with np.load(exchange / f"{who}.npz", allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def write_answer(exchange: Path, who: str, answer: Mapping[str, Any]) -> None:
    """What a process has to say besides."""
    write_json(exchange / f"{who}.json", dict(answer))


def read_answer(exchange: Path, who: str) -> dict[str, Any]:
    """Back; {} where it said nothing.

    Raises:
        MindportError: it is no JSON object.
    """
    path = exchange / f"{who}.json"
    return read_json_object(path) if path.is_file() else {}
