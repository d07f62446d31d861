"""What a run of MindFormers has shown, and what it has not: plain data, and the sentences that say it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mindport.i18n import tr
from mindport.targets.mindformers.versions import LATEST_EXECUTED
from mindport.verify.compare import Difference
from mindport.verify.gates import Gate
from mindport.verify.mindformers.overrides import Override


@dataclass(frozen=True)
class FirstStep:
    """The first training step of both sides, from the same weights on the same tokens.

    Args:
        loss, reference_loss: of the next token.
        gradient_norm, reference_gradient_norm: of all gradients, before clipping.
    """

    loss: float
    reference_loss: float
    gradient_norm: float
    reference_gradient_norm: float

    @property
    def loss_difference(self) -> float:
        """Absolute."""
        return abs(self.loss - self.reference_loss)

    @property
    def gradient_norm_difference(self) -> float:
        """Relative to the reference."""
        apart = abs(self.gradient_norm - self.reference_gradient_norm)
        return apart / abs(self.reference_gradient_norm) if self.reference_gradient_norm else apart

    def passes(self, gate: Gate) -> bool:
        """Whether both keep their bounds. A NaN passes nothing."""
        return self.loss_difference <= gate.loss and self.gradient_norm_difference <= gate.grad_norm


@dataclass(frozen=True)
class Process:
    """A process of the comparison.

    Args:
        python: the executable.
        versions: of what it computed with.
        seconds: from its start to its end.
        peak_mb: most memory that it held at once.
    """

    python: str
    versions: Mapping[str, str]
    seconds: float
    peak_mb: float


@dataclass(frozen=True)
class Proof:
    """A finished comparison with MindFormers, passed or not.

    Args:
        version: of MindFormers that the folder was written for; what was run is in `processes`.
        generation, graph, layout: of the weights.
        yaml: name of the file that was run.
        overrides: keys of its model section that are other on a CPU.
        gate: the pass marks.
        length: tokens of a compared sequence.
        tensors: loaded by exact names and shapes.
        parity: logits of each batch.
        step: the first training step, or None.
        no_step: why there is none; "" where there is.
        stand_ins: what took the place of Ascend's kernels, and what that computes.
        carried: the model has modules for multi-token prediction, which transformers does not compute.
        processes: "mindformers" and "transformers".
    """

    version: str
    generation: str
    graph: str
    layout: Mapping[str, Any]
    yaml: str
    overrides: tuple[Override, ...]
    gate: Gate
    length: int
    tensors: int
    parity: tuple[Difference, ...]
    step: FirstStep | None
    no_step: str
    stand_ins: Mapping[str, str]
    carried: bool
    processes: Mapping[str, Process]

    @property
    def passed(self) -> bool:
        """Whether every comparison keeps the gate."""
        every = bool(self.parity) and all(found.passes(self.gate) for found in self.parity)
        return every and (self.step is None or self.step.passes(self.gate))

    @property
    def proven(self) -> tuple[str, ...]:
        """What holds now, a sentence each."""
        executed = self.processes["mindformers"].versions.get("mindformers", LATEST_EXECUTED)
        found = [
            tr("The files hold, byte for byte, what converting the model gives."),
            tr(
                "{yaml} describes this model, and MindFormers {version} takes it and all {count} tensors, by exact "
                "names and shapes.",
                yaml=self.yaml,
                version=executed,
                count=self.tensors,
            ),
        ]
        if all(parity.passes(self.gate) for parity in self.parity):
            found.append(
                tr(
                    "Its own {generation} graph of {graph} computes in graph mode what transformers computes, at "
                    "{count} positions.",
                    generation=self.generation,
                    graph=self.graph,
                    count=sum(parity.positions for parity in self.parity),
                )
            )
        if self.step and self.step.passes(self.gate):
            found.append(tr("The first training step has the same loss and the same gradient norm."))
        return tuple(found)

    @property
    def not_proven(self) -> tuple[str, ...]:
        """What nobody has seen, a sentence each; the stand-ins besides, in `stand_ins`."""
        found = []
        if self.version != LATEST_EXECUTED:
            found.append(
                tr(
                    "The folder is for MindFormers {version}; it was executed in {executed}, not in {version}.",
                    version=self.version,
                    executed=LATEST_EXECUTED,
                )
            )
        found.append(tr("The kernels of an NPU: everything ran on a CPU."))
        reduced = sorted({str(o.given) for o in self.overrides if o.value == "float32" and o.given})
        if reduced:
            found.append(
                tr("Mixed precision: the YAML asks for {dtypes}, and all ran in float32.", dtypes=", ".join(reduced))
            )
        found += [
            tr("Several devices: parallelism, pipelines, and how weights are cut for them."),
            tr("Sequences of more than {count} tokens.", count=self.length),
            tr("The rest of the YAML: data, optimizer, schedule, callbacks. `mindport validate` checks what it says."),
        ]
        if self.carried:
            found.append(
                tr("The modules for multi-token prediction: loaded, but transformers has nothing to compare with.")
            )
        if self.no_step:
            found.append(tr("A training step: {why}.", why=self.no_step))
        return tuple(found)
