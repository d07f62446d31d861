"""What the record and the report of a migration say, before it is Markdown or HTML."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from mindport.config.audit import DERIVED, IGNORED, UNHANDLED, Row
from mindport.i18n import language, tr
from mindport.records import formats
from mindport.records.migration import Migration
from mindport.verify.alignment import Alignment
from mindport.verify.compare import Difference
from mindport.verify.gates import Gate
from mindport.version import __version__


@dataclass(frozen=True)
class Cell:
    """One cell of a table: its parts, and how it looks: "text", "code", "number", "good", "bad" or "warn"."""

    parts: tuple[str, ...]
    kind: str = "text"


@dataclass(frozen=True)
class Table:
    """Rows of cells under a head."""

    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    block: str = "table"

    def is_numeric(self, column: int) -> bool:
        """Whether a column holds numbers alone."""
        return bool(self.rows) and all(row[column].kind == "number" for row in self.rows)


@dataclass(frozen=True)
class Note:
    """A paragraph; a tone of "good", "bad" or "warn" makes it stand out."""

    text: str
    tone: str = ""
    block: str = "note"


@dataclass(frozen=True)
class Bullets:
    """Sentences in a list."""

    items: tuple[str, ...]
    block: str = "bullets"


@dataclass(frozen=True)
class Grouped:
    """Names under the reason they share."""

    groups: tuple[tuple[str, tuple[str, ...]], ...]
    block: str = "grouped"


@dataclass(frozen=True)
class Quote:
    """Foreign text with its line breaks."""

    label: str
    text: str
    block: str = "quote"


@dataclass(frozen=True)
class Curves:
    """Two curves, one value per step, and how far they are apart."""

    name: str
    title: str
    ours: tuple[float, ...]
    reference: tuple[float, ...]
    differences: tuple[float, ...]
    difference_label: str
    bound: float
    bound_label: str
    block: str = "curves"


Block = Table | Note | Bullets | Grouped | Quote | Curves


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it; `anchor` is its address in the page."""

    anchor: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Figure:
    """A number that matters: "good", "bad", "warn", or "" where it is neither."""

    label: str
    value: str
    detail: str = ""
    tone: str = ""


@dataclass(frozen=True)
class Document:
    """All of it, in one language."""

    language: str
    title: str
    passed: bool
    verdict: str
    figures: tuple[Figure, ...]
    warnings: tuple[str, ...]
    sections: tuple[Section, ...]
    footer: str


@dataclass(frozen=True)
class _Step:
    loss: float
    reference_loss: float
    loss_difference: float
    grad_norm: float
    reference_grad_norm: float
    grad_norm_difference: float


def describe(migration: Migration) -> Document:
    """Everything worth saying about a migration, in the active language."""
    sections = (
        Section("model", tr("Model"), _model(migration)),
        Section("stages", tr("Stages"), _stages(migration)),
        Section("forward", tr("Forward parity"), _parity(migration)),
        *_text(migration),
        *_embeddings(migration),
        Section("training", tr("Training steps"), _training(migration)),
        Section("config", tr("Configuration"), _config(migration)),
        Section("tensors", tr("Weights"), _weights(migration)),
    )
    if migration.remarks:
        sections += (Section("remarks", tr("Remarks"), (Bullets(tuple(map(tr, migration.remarks))),)),)
    failed = [tr(stage.name) for stage in migration.stages if not stage.passed]
    return Document(
        language=language(),
        title=tr("Migration of {source} to {target}", source=migration.source, target=migration.target),
        passed=migration.passed,
        verdict=tr("The migration passed every check that was run.")
        if migration.passed
        else tr("The migration did not pass: {stages}.", stages=", ".join(failed)),
        figures=tuple(_figures(migration)),
        warnings=tuple(_warnings(migration)),
        sections=sections,
        footer=tr(
            "Written by Mindport {version}. report.html shows the same with curves, migration.json as data.",
            version=__version__,
        ),
    )


def _figures(migration: Migration) -> Iterable[Figure]:
    gate, weights = migration.gate, migration.weights
    unhandled = sum(row.status == UNHANDLED for row in migration.fields)
    yield Figure(
        tr("Config keys"),
        f"{len(migration.fields):,}",
        tr("{count} unhandled", count=unhandled),
        "warn" if unhandled else "good",
    )
    yield Figure(
        tr("Tensors"),
        f"{weights.tensors_in:,} → {weights.tensors_out:,}",
        f"{formats.size(weights.nbytes)}, {', '.join(weights.dtypes)}",
    )
    compared = [d for differences in migration.parity.values() for d in differences]
    if compared:
        worst = max(compared, key=lambda d: _nan_first(d.max_abs / _bound(d, gate)))
        yield Figure(
            tr("Largest output error"),
            formats.error(worst.max_abs, _bound(worst, gate)),
            tr("bound {bound}", bound=formats.error(_bound(worst, gate))),
            _tone(all(d.max_abs <= _bound(d, gate) for d in compared)),
        )
        cosine = _least(d.cosine for d in compared)
        yield Figure(
            tr("Least cosine"),
            formats.cosine(cosine),
            tr("bound {bound}", bound=gate.cosine),
            _tone(cosine >= gate.cosine),
        )
        shares = [d.top1 for d in compared if d.top1 is not None]
        if shares:
            yield Figure(
                tr("Same top-1 token"),
                formats.percent(_least(shares)),
                tr("bound {bound}", bound=formats.percent(gate.top1)),
                _tone(_least(shares) >= gate.top1),
            )
    if migration.text:
        yield Figure(
            tr("Greedy text"),
            tr("identical") if migration.text.equal else tr("different"),
            tr("{count} tokens", count=migration.text.tokens),
            _tone(migration.text.equal),
        )
    if migration.embeddings:
        yield Figure(
            tr("Embeddings, cosine"),
            formats.cosine(migration.embeddings.cosine),
            tr("bound {bound}", bound=gate.cosine),
            _tone(migration.embeddings.passes(gate)),
        )
    if migration.alignment:
        steps = _steps(migration.alignment)
        loss = _largest(step.loss_difference for step in steps)
        norm = _largest(step.grad_norm_difference for step in steps)
        yield Figure(
            tr("Largest loss difference"),
            formats.error(loss, gate.loss),
            tr("{steps} steps, bound {bound}", steps=len(steps), bound=formats.error(gate.loss)),
            _tone(loss <= gate.loss),
        )
        yield Figure(
            tr("Largest gradient norm difference, relative"),
            formats.error(norm, gate.grad_norm),
            tr("{steps} steps, bound {bound}", steps=len(steps), bound=formats.error(gate.grad_norm)),
            _tone(norm <= gate.grad_norm),
        )


def _warnings(migration: Migration) -> Iterable[str]:
    unhandled = sum(row.status == UNHANDLED for row in migration.fields)
    if unhandled:
        yield tr(
            "{count} config keys are unhandled: Mindport does not know what they do. Check each of them.",
            count=unhandled,
        )
    if not any(migration.parity.values()):
        yield tr("Forward parity was not checked.")
    if migration.alignment is None:
        yield tr("Training was not checked.")
    elif len(set(migration.alignment.losses)) < 2:
        yield tr("The loss did not change between steps: the weights may not have been updated.")


def _model(migration: Migration) -> tuple[Block, ...]:
    weights, gate = migration.weights, migration.gate
    facts = (
        (tr("Source"), _one(migration.source, "code")),
        (tr("Target"), _one(migration.target, "code")),
        ("model_type", _one(migration.model_type, "code")),
        (tr("Hugging Face class"), _one(migration.hf_class, "code")),
        (tr("Parameters"), _one(f"{migration.parameters:,}")),
        (tr("Weights file"), _one(weights.file, "code")),
        (tr("Size of the weights"), _one(formats.size(weights.nbytes))),
        (tr("Element types"), Cell(weights.dtypes, "code")),
        (
            tr("Conversion"),
            _one(
                tr(
                    "{time}, {memory} of additional peak memory",
                    time=formats.duration(weights.seconds),
                    memory=f"{weights.peak_mb:,.0f} MB",
                )
            ),
        ),
        (tr("Gate"), _one(gate.name, "code")),
        (tr("Total time"), _one(formats.duration(sum(stage.seconds for stage in migration.stages)))),
    )
    versions = sorted(migration.versions.items())
    return (
        Table((tr("What"), tr("Value")), tuple((_one(label), cell) for label, cell in facts)),
        Table(
            (tr("Package"), tr("Version")),
            tuple((_one(name, "code"), _one(version)) for name, version in versions),
        ),
    )


def _stages(migration: Migration) -> tuple[Block, ...]:
    rows = tuple(
        (
            _one(tr(stage.name)),
            _result(stage.passed),
            _one(tr(stage.summary)),
            _one(formats.duration(stage.seconds), "number"),
        )
        for stage in migration.stages
    )
    return (Table((tr("Stage"), tr("Result"), tr("Summary"), tr("Time")), rows),)


def _parity(migration: Migration) -> tuple[Block, ...]:
    gate = migration.gate
    modes = {"pynative": tr("PyNative mode"), "graph": tr("Graph mode")}
    rows = [
        (_one(modes.get(mode, mode)), *_compared(d, gate))
        for mode, differences in migration.parity.items()
        for d in differences
    ]
    if not rows:
        return (Note(tr("Forward parity was not checked."), "warn"),)
    return (
        Note(
            tr(
                "The same tokens went through both models; padding is left out. Gate {gate}, fixed before anything "
                "ran: the largest error is at most {max_abs} times the largest reference value, or times 1 where "
                "that is smaller; cosine at least {cosine}; the same top-1 token at {top1} of the positions or more.",
                gate=gate.name,
                max_abs=formats.error(gate.max_abs),
                cosine=gate.cosine,
                top1=formats.percent(gate.top1),
            )
        ),
        Table((tr("Mode"), *_compared_head()), tuple(rows)),
    )


def _compared_head() -> tuple[str, ...]:
    return (
        tr("Output"),
        tr("Batch"),
        tr("Positions"),
        tr("Largest error"),
        tr("Bound"),
        tr("Mean error"),
        tr("Largest reference value"),
        tr("Cosine"),
        tr("Top-1"),
        tr("Result"),
    )


def _compared(d: Difference, gate: Gate) -> tuple[Cell, ...]:
    batches = {
        "unpadded": tr("unpadded"),
        "right-padded": tr("right-padded"),
        "left-padded": tr("left-padded"),
    }
    what, _, batch = d.what.rpartition(", ")
    bound = _bound(d, gate)
    return (
        _one(what or batch, "code"),
        _one(batches.get(batch, batch) if what else "—"),
        _one(f"{d.positions:,}", "number"),
        _one(formats.error(d.max_abs, bound), "number"),
        _one(formats.error(bound), "number"),
        _one(formats.error(d.mean_abs), "number"),
        _one(f"{d.scale:.4g}", "number"),
        _one(formats.cosine(d.cosine), "number"),
        _one("—" if d.top1 is None else formats.percent(d.top1), "number"),
        _result(d.passes(gate)),
    )


def _text(migration: Migration) -> tuple[Section, ...]:
    text = migration.text
    if text is None:
        return ()
    said = (
        Note(tr("Both sides continue the prompt with the same {count} tokens.", count=text.tokens), "good")
        if text.equal
        else Note(tr("The two sides continue the prompt differently within {count} tokens.", count=text.tokens), "bad")
    )
    quotes = (Quote(tr("Prompt"), text.prompt), Quote("MindSpore", text.ours), Quote("PyTorch", text.reference))
    return (Section("text", tr("Greedy text"), (said, *quotes)),)


def _embeddings(migration: Migration) -> tuple[Section, ...]:
    if migration.embeddings is None:
        return ()
    table = Table(_compared_head(), (_compared(migration.embeddings, migration.gate),))
    return (
        Section(
            "embeddings",
            tr("Sentence embeddings"),
            (Note(tr("The same sentences, tokenised, encoded and pooled on both sides.")), table),
        ),
    )


def _training(migration: Migration) -> tuple[Block, ...]:
    alignment, gate = migration.alignment, migration.gate
    if alignment is None:
        return (Note(tr("Training was not checked."), "warn"),)
    steps, settings = _steps(alignment), alignment.settings
    moved = len(set(alignment.losses)) > 1
    held = all(s.loss_difference <= gate.loss and s.grad_norm_difference <= gate.grad_norm for s in steps)
    rows = tuple(
        (
            _one(f"{number}", "number"),
            _one(formats.significant(step.loss), "number"),
            _one(formats.significant(step.reference_loss), "number"),
            _one(formats.error(step.loss_difference, gate.loss), "number"),
            _one(formats.significant(step.grad_norm), "number"),
            _one(formats.significant(step.reference_grad_norm), "number"),
            _one(formats.error(step.grad_norm_difference, gate.grad_norm), "number"),
            _result(step.loss_difference <= gate.loss and step.grad_norm_difference <= gate.grad_norm),
        )
        for number, step in enumerate(steps, 1)
    )
    said = (
        Note(tr("Every step kept the bounds."), "good")
        if held and moved
        else Note(tr("Some step did not keep the bounds, or the loss did not change."), "bad")
    )
    return (
        said,
        Note(
            tr(
                "Both sides start from the same weights and take the same batches: {objective}. AdamW, learning rate "
                "{learning_rate}, betas {betas}, eps {eps}, weight decay {weight_decay}, gradients clipped to norm "
                "{max_grad_norm}, seed {seed}. Bounds: loss {loss}, gradient norm {grad_norm} relative.",
                objective=tr(alignment.objective),
                learning_rate=settings.learning_rate,
                betas=", ".join(map(str, settings.betas)),
                eps=settings.eps,
                weight_decay=settings.weight_decay,
                max_grad_norm=settings.max_grad_norm,
                seed=settings.seed,
                loss=formats.error(gate.loss),
                grad_norm=formats.error(gate.grad_norm),
            )
        ),
        Curves(
            "loss",
            tr("Loss"),
            tuple(s.loss for s in steps),
            tuple(s.reference_loss for s in steps),
            tuple(s.loss_difference for s in steps),
            tr("absolute difference (below)"),
            gate.loss,
            tr("bound {bound}", bound=formats.error(gate.loss)),
        ),
        Curves(
            "norm",
            tr("Gradient norm before clipping"),
            tuple(s.grad_norm for s in steps),
            tuple(s.reference_grad_norm for s in steps),
            tuple(s.grad_norm_difference for s in steps),
            tr("relative difference (below)"),
            gate.grad_norm,
            tr("bound {bound}", bound=formats.error(gate.grad_norm)),
        ),
        Table(
            (
                tr("Step"),
                tr("Loss, {side}", side="MindSpore"),
                tr("Loss, {side}", side="PyTorch"),
                tr("Absolute difference"),
                tr("Gradient norm, {side}", side="MindSpore"),
                tr("Gradient norm, {side}", side="PyTorch"),
                tr("Relative difference"),
                tr("Result"),
            ),
            rows,
        ),
    )


def _config(migration: Migration) -> tuple[Block, ...]:
    layers = {
        "structure": tr("structure"),
        "training": tr("training"),
        "runtime": tr("runtime"),
        "record": tr("record"),
    }
    origins = {
        "file": tr("config file"),
        "class default": tr("class default"),
        "formula": tr("formula"),
    }
    statuses = {
        "mapped": tr("mapped"),
        DERIVED: tr("derived"),
        IGNORED: tr("ignored"),
        UNHANDLED: tr("unhandled"),
    }
    fields = migration.fields
    rows = tuple(
        (
            _one(row.key, "code"),
            _one(formats.value(row.value), "code"),
            _one(layers.get(row.layer, row.layer)),
            _one(origins.get(row.origin, row.origin)),
            Cell(_targets(row), "code"),
            _one(statuses.get(row.status, row.status), "warn" if row.status == UNHANDLED else "text"),
            _one(tr(row.note) if row.note else ""),
        )
        for row in fields
    )
    blocks: list[Block] = [
        Table(
            (
                tr("Hugging Face key"),
                tr("Value"),
                tr("Layer"),
                tr("Origin"),
                tr("MindSpore field"),
                tr("Status"),
                tr("Note"),
            ),
            rows,
            tr("Every key of the config, and every class default and formula that determines a field."),
        )
    ]
    derived = tuple(target for row in fields if row.status == DERIVED for target in _targets(row))
    if derived:
        blocks.append(Grouped(((tr("Derived"), derived),)))
    if any(row.status == IGNORED for row in fields):
        blocks += [
            Note(tr("Ignored, with reasons:")),
            _by_reason({row.key: row.note for row in fields if row.status == IGNORED}),
        ]
    unhandled = tuple(row.key for row in fields if row.status == UNHANDLED)
    if unhandled:
        blocks += [
            Note(
                tr(
                    "The following keys are unhandled: Mindport has no rule for them. If one of them changes what "
                    "the model computes, the migrated model lacks it."
                ),
                "warn",
            ),
            Grouped(((tr("Unhandled"), unhandled),)),
        ]
    return tuple(blocks)


def _targets(row: Row) -> tuple[str, ...]:
    return tuple(f"{field} = {formats.value(value)}" for field, value in row.to.items())


def _weights(migration: Migration) -> tuple[Block, ...]:
    weights = migration.weights
    rows = tuple((_one(source, "code"), _one(target, "code")) for source, target in weights.placed)
    blocks: list[Block] = [
        Note(
            tr(
                "{tensors_in} tensors read, {tensors_out} written; {skipped} left out, {copies} tied copies.",
                tensors_in=f"{weights.tensors_in:,}",
                tensors_out=f"{weights.tensors_out:,}",
                skipped=f"{len(weights.skipped):,}",
                copies=f"{len(weights.copies):,}",
            )
        ),
        Table((tr("Hugging Face tensor"), tr("MindSpore parameter")), rows),
    ]
    if weights.skipped:
        blocks += [Note(tr("Left out, with reasons:")), _by_reason(weights.skipped)]
    if weights.copies:
        blocks.append(
            Grouped(((tr("Tied copies, equal to a weight that was placed"), weights.copies),)),
        )
    return tuple(blocks)


def _by_reason(reasons: Mapping[str, str]) -> Grouped:
    groups: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        groups.setdefault(tr(reason) if reason else tr("no reason recorded"), []).append(name)
    return Grouped(tuple((reason, tuple(names)) for reason, names in groups.items()))


def _steps(alignment: Alignment) -> list[_Step]:
    # A side that stopped early fails the missing steps; it must not take the report with it.
    series = zip_longest(
        alignment.losses,
        alignment.reference_losses,
        alignment.grad_norms,
        alignment.reference_grad_norms,
        fillvalue=math.nan,
    )
    return [
        _Step(loss, loss_ref, abs(loss - loss_ref), norm, norm_ref, _relative(norm, norm_ref))
        for loss, loss_ref, norm, norm_ref in series
    ]


def _relative(value: float, reference: float) -> float:
    if reference:
        return abs(value - reference) / abs(reference)
    return 0.0 if value == reference else math.inf


def _bound(d: Difference, gate: Gate) -> float:
    return gate.max_abs * max(1.0, d.scale)


def _nan_first(value: float) -> float:
    return math.inf if math.isnan(value) else value


def _largest(values: Iterable[float]) -> float:
    # max() passes over a NaN that is not the first.
    values = list(values)
    return math.nan if any(map(math.isnan, values)) else max(values, default=math.nan)


def _least(values: Iterable[float]) -> float:
    return -_largest(-value for value in values)


def _one(text: str, kind: str = "text") -> Cell:
    return Cell((text,), kind)


def _result(passed: bool) -> Cell:
    return _one(tr("passed") if passed else tr("failed"), "good" if passed else "bad")


def _tone(passed: bool) -> str:
    return "good" if passed else "bad"
