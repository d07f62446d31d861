"""The result of a whole migration, as plain data: what the command prints, the report shows and `--json` writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mindport.config.audit import Row
from mindport.verify.alignment import Alignment
from mindport.verify.compare import Difference
from mindport.verify.gates import Gate
from mindport.verify.text import Text


@dataclass(frozen=True)
class Stage:
    """One step of a migration: its name, whether it passed, one line about it, and how long it took."""

    name: str
    passed: bool
    summary: str
    seconds: float


@dataclass(frozen=True)
class WeightsRecord:
    """What was converted.

    Args:
        tensors_in, tensors_out: tensors read and written.
        nbytes: bytes of weights written.
        dtypes: of the written weights.
        file: name of the weights file.
        skipped: source tensors left out -> reason.
        tied_copies: source tensors that repeat a tied weight.
        placed: source tensor -> parameters it became, layers collapsed, in file order.
        seconds, peak_mb: of the conversion; peak_mb is what the process's peak memory grew by.
    """

    tensors_in: int
    tensors_out: int
    nbytes: int
    dtypes: tuple[str, ...]
    file: str
    skipped: Mapping[str, str]
    tied_copies: tuple[str, ...]
    placed: tuple[tuple[str, str], ...]
    seconds: float
    peak_mb: float


@dataclass(frozen=True)
class Migration:
    """A finished migration, passed or not.

    Args:
        source, target: of the conversion ("all-MiniLM-L6-v2", "native").
        model_type, hf_class, parameters: what the model is.
        fields: the config check-up.
        weights: what was converted.
        gate: pass marks, fixed before anything ran.
        parity: forward comparisons, per execution mode ("pynative", "graph").
        text: greedy continuation, for decoders with a language-model head.
        embeddings: sentence embeddings compared, for encoders without a head.
        alignment: training steps on both sides.
        stages: in order.
        versions: package -> version.
        remarks: what was assumed or could not be made equal, one sentence each.
    """

    source: str
    target: str
    model_type: str
    hf_class: str
    parameters: int
    fields: tuple[Row, ...]
    weights: WeightsRecord
    gate: Gate
    parity: Mapping[str, tuple[Difference, ...]]
    text: Text | None
    embeddings: Difference | None
    alignment: Alignment | None
    stages: tuple[Stage, ...]
    versions: Mapping[str, str]
    remarks: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return bool(self.stages) and all(stage.passed for stage in self.stages)

    def to_json(self) -> dict[str, Any]:
        """Plain data with the verdict first."""
        return {"passed": self.passed, **asdict(self)}
