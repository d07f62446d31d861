"""A whole migration: check-up, conversion, exact load, parity, text, training, report."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from importlib import metadata
from math import prod
from pathlib import Path

from mindport.checkpoint.carry_out import Job, Progress, write_weights
from mindport.checkpoint.convert import plan_conversion
from mindport.checkpoint.options import Options
from mindport.checkpoint.problems import collapse_names
from mindport.checkpoint.publish import check_free, publish
from mindport.config.audit import audit, unhandled_keys
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.records.migration import Migration, Stage, WeightsRecord
from mindport.records.report import write_report
from mindport.schema import TransformerConfig
from mindport.verify.alignment import Settings
from mindport.verify.frameworks import installed
from mindport.verify.gates import Gate
from mindport.verify.ladder import MODES, Ladder
from mindport.version import __version__

Announce = Callable[[Stage], None]


def migrate(
    model: Path,
    folder: Path,
    *,
    gate: Gate,
    settings: Settings,
    weights_format: str = "safetensors",
    overwrite: bool = False,
    announce: Announce = lambda stage: None,
    progress: Progress = lambda count: None,
) -> Migration:
    """Migrate a Hugging Face folder to the native target and prove it.

    `folder` appears only if every stage passed. If a comparison did not, the report alone is written, to a folder of
    the same name with "-failed" after it (replacing one of an earlier run). A stage that cannot be carried out at all
    leaves nothing.

    Args:
        model: Hugging Face model folder with safetensors weights.
        folder: to be written.
        gate: pass marks.
        settings: of the training steps.
        weights_format: "safetensors" or "ckpt".
        announce: called with each stage when it is done.
        progress: called with the number of bytes of weights just written.

    Raises:
        MindportError: something cannot be read, converted, loaded or written.
    """
    # Asked for before anything runs, imported after the conversion, whose memory is to be measured on its own.
    installed("torch", "transformers", "mindspore", "jinja2", "matplotlib")
    check_free(folder, overwrite=overwrite, source=model)
    stages = _Stages(announce)
    planned = plan_conversion(model, Options(weights_format))
    config, plan, job = planned.config, planned.plan, planned.ready()
    fields = tuple(audit(config.model))
    unhandled = unhandled_keys(config.model)
    stages.done(
        "inspect",
        True,
        tr(
            "{hf_class}: {count} config keys, {unhandled} unhandled",
            hf_class=config.model.hf_class,
            count=len(fields),
            unhandled=len(unhandled),
        ),
    )
    with publish(folder, overwrite=overwrite) as work:
        before, started = _peak_mb(), time.perf_counter()
        write_weights(job, work, progress)
        weights = _record(job, time.perf_counter() - started, _peak_mb() - before)
        stages.done(
            "weights",
            True,
            tr(
                "{tensors} tensors, {mb:.0f} MB -> {file}",
                tensors=weights.tensors_out,
                mb=weights.nbytes / 1e6,
                file=weights.file,
            ),
        )
        ladder = Ladder(model, work)
        loaded = ladder.loaded.report
        stages.done("load check", True, ladder.load_summary)
        parity = {}
        for mode in MODES:
            parity[mode] = ladder.forward(mode)
            worst = max(parity[mode], key=lambda d: d.max_abs / max(1.0, d.scale))
            stages.done(
                f"forward parity ({mode})",
                all(d.passes(gate) for d in parity[mode]),
                tr(
                    "max abs error {error:.1e} at scale {scale:.1f}, cosine {cosine:.8f}",
                    error=worst.max_abs,
                    scale=worst.scale,
                    cosine=min(d.cosine for d in parity[mode]),
                ),
            )
        text = ladder.text(MODES[0])
        if text:
            stages.done(
                "greedy text",
                text.equal,
                tr(
                    "{count} tokens, {verdict}",
                    count=text.tokens,
                    verdict=tr("equal") if text.equal else tr("different"),
                ),
            )
        embeddings = ladder.embeddings(MODES[0])
        if embeddings:
            stages.done(
                "sentence embeddings",
                embeddings.passes(gate),
                tr(
                    "max abs error {error:.1e}, cosine {cosine:.8f}", error=embeddings.max_abs, cosine=embeddings.cosine
                ),
            )
        alignment = ladder.train(MODES[0], settings)
        stages.done(
            "training steps",
            alignment.passes(gate),
            tr(
                "{steps} steps, loss within {loss:.1e}, gradient norm within {norm:.1e} (relative)",
                steps=settings.steps,
                loss=alignment.loss_difference,
                norm=alignment.grad_norm_difference,
            ),
        )
        migration = Migration(
            source=model.resolve().name,
            target="native",
            model_type=config.model.model_type,
            hf_class=config.model.hf_class,
            parameters=sum(prod(shape) for shape in plan.slot_shapes.values()),
            fields=fields,
            weights=weights,
            gate=gate,
            parity=parity,
            text=text,
            embeddings=embeddings,
            alignment=alignment,
            stages=tuple(stages.finished),
            versions=_versions(),
            remarks=tuple(_remarks(bool(loaded.widened), loaded.carried, unhandled, config.model.transformer)),
        )
        write_report(migration, work)
        if not migration.passed:
            raise _failed(migration, folder)
    return migration


class _Stages:
    """Collects finished stages, each timed from the end of the one before."""

    def __init__(self, announce: Announce) -> None:
        self.finished: list[Stage] = []
        self._announce = announce
        self._since = time.perf_counter()

    def done(self, name: str, passed: bool, summary: str) -> None:
        now = time.perf_counter()
        stage = Stage(name, passed, summary, now - self._since)
        self._since = now
        self.finished.append(stage)
        self._announce(stage)


def _failed(migration: Migration, folder: Path) -> MindportError:
    report_folder = folder.with_name(folder.name + "-failed")
    with publish(report_folder, overwrite=True) as work:
        report = write_report(migration, work)
    names = ", ".join(tr(stage.name) for stage in migration.stages if not stage.passed)
    return MindportError(
        tr("The migration did not pass: {names}.", names=names),
        tr("Nothing was published; see {report}.", report=report_folder / report.name),
    )


def _record(job: Job, seconds: float, peak_mb: float) -> WeightsRecord:
    plan = job.plan
    parameters: dict[str, list[str]] = {}
    for output in plan.outputs:
        for part in output.stored.parts:
            parameters.setdefault(plan.slots[part][0], []).append(output.name)
    return WeightsRecord(
        tensors_in=len(plan.source),
        tensors_out=len(plan.outputs),
        nbytes=plan.bytes_out,
        dtypes=tuple(sorted({output.dtype for output in plan.outputs})),
        file=", ".join(file.name for file in job.files),
        skipped=plan.skipped,
        tied_copies=tuple(plan.copies),
        placed=tuple(collapse_names((name, ", ".join(made)) for name, made in parameters.items())),
        seconds=seconds,
        peak_mb=peak_mb,
    )


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _versions() -> dict[str, str]:
    frameworks = ("mindspore", "torch", "transformers", "numpy")
    return {"mindport": __version__, **{name: metadata.version(name) for name in frameworks}}


def _remarks(widened: bool, carried: int, unhandled: list[str], config: TransformerConfig) -> list[str]:
    remarks = [
        tr("Both sides computed in float32 on the CPU, with dropout off."),
        tr("What an NPU's own kernels compute, and whether a long run converges alike, was not part of this."),
    ]
    if widened:
        remarks.append(tr("The weights are stored in half precision and were widened, without loss, to be compared."))
    if carried:
        remarks.append(
            tr("{count} tensors were carried along byte by byte; neither side computed with them.", count=carried)
        )
    if unhandled:
        remarks.append(tr("These config keys are not known and were not used: {keys}.", keys=", ".join(unhandled)))
    if (config.rope_scaling or {}).get("rope_type") == "dynamic":
        length = config.max_position_embeddings
        remarks.append(tr("Dynamic RoPE scaling acts beyond {length} positions, which were not run.", length=length))
    return remarks
