"""The sections of a report, one function each."""

from __future__ import annotations

from collections.abc import Mapping

from mindport.checkpoint.problems import collapse_names
from mindport.config.audit import DERIVED, IGNORED, UNHANDLED, Row
from mindport.i18n import tr
from mindport.records import formats
from mindport.records.blocks import (
    Block,
    Cell,
    Curves,
    Grouped,
    Note,
    Quote,
    Section,
    Table,
    one,
    result,
)
from mindport.records.migration import Migration
from mindport.records.series import steps_of
from mindport.verify.compare import Difference
from mindport.verify.gates import Gate


def model_section(migration: Migration) -> tuple[Block, ...]:
    weights, gate = migration.weights, migration.gate
    facts = (
        (tr("Source"), one(migration.source, "code")),
        (tr("Target"), one(migration.target, "code")),
        ("model_type", one(migration.model_type, "code")),
        (tr("Hugging Face class"), one(migration.hf_class, "code")),
        (tr("Parameters"), one(f"{migration.parameters:,}")),
        (tr("Weights file"), one(weights.file, "code")),
        (tr("Size of the weights"), one(formats.size(weights.nbytes))),
        (tr("Element types"), Cell(weights.dtypes, "code")),
        (
            tr("Conversion"),
            one(
                tr(
                    "{time}, {memory} of additional peak memory",
                    time=formats.duration(weights.seconds),
                    memory=f"{weights.peak_mb:,.0f} MB",
                )
            ),
        ),
        (tr("Gate"), one(gate.name, "code")),
        (tr("Total time"), one(formats.duration(sum(stage.seconds for stage in migration.stages)))),
    )
    versions = sorted(migration.versions.items())
    return (
        Table((tr("What"), tr("Value")), tuple((one(label), cell) for label, cell in facts)),
        Table(
            (tr("Package"), tr("Version")),
            tuple((one(name, "code"), one(version)) for name, version in versions),
        ),
    )


def stages_section(migration: Migration) -> tuple[Block, ...]:
    rows = tuple(
        (
            one(tr(stage.name)),
            result(stage.passed),
            one(tr(stage.summary)),
            one(formats.duration(stage.seconds), "number"),
        )
        for stage in migration.stages
    )
    return (Table((tr("Stage"), tr("Result"), tr("Summary"), tr("Time")), rows),)


def parity_section(migration: Migration) -> tuple[Block, ...]:
    gate = migration.gate
    modes = {"pynative": tr("PyNative mode"), "graph": tr("Graph mode")}
    rows = [
        (one(modes.get(mode, mode)), *_compared(d, gate))
        for mode, differences in migration.parity.items()
        for d in differences
    ]
    if not rows:
        return (Note(tr("Forward parity was not checked."), "warn"),)
    return (
        Note(
            tr(
                "The same tokens went through both models; padding is left out. Gate {gate}, fixed before anything "
                "ran: largest error at most {max_abs}, multiplied by the largest reference value where that is above "
                "1; cosine at least {cosine}; the same top-1 token at {top1} of the positions or more.",
                gate=gate.name,
                max_abs=formats.bound(gate.max_abs),
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
    bound = d.bound(gate)
    return (
        one(what or batch, "code"),
        one(batches.get(batch, batch) if what else "—"),
        one(f"{d.positions:,}", "number"),
        one(formats.error(d.max_abs, bound), "number"),
        one(formats.bound(bound), "number"),
        one(formats.error(d.mean_abs), "number"),
        one(f"{d.scale:.4g}", "number"),
        one(formats.cosine(d.cosine), "number"),
        one("—" if d.top1 is None else formats.percent(d.top1), "number"),
        result(d.passes(gate)),
    )


def text_sections(migration: Migration) -> tuple[Section, ...]:
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


def embeddings_sections(migration: Migration) -> tuple[Section, ...]:
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


def training_section(migration: Migration) -> tuple[Block, ...]:
    alignment, gate = migration.alignment, migration.gate
    if alignment is None:
        return (Note(tr("Training was not checked."), "warn"),)
    steps, settings = steps_of(alignment), alignment.settings
    objectives = {
        "causal_lm": tr("cross-entropy of the next token"),
        "labelled": tr("cross-entropy of the labels"),
        "contrastive": tr("contrastive loss of sentence pairs"),
    }
    moved = len(set(alignment.losses)) > 1
    held = all(s.loss_difference <= gate.loss and s.grad_norm_difference <= gate.grad_norm for s in steps)
    rows = tuple(
        (
            one(f"{number}", "number"),
            one(formats.significant(step.loss), "number"),
            one(formats.significant(step.reference_loss), "number"),
            one(formats.error(step.loss_difference, gate.loss), "number"),
            one(formats.significant(step.grad_norm), "number"),
            one(formats.significant(step.reference_grad_norm), "number"),
            one(formats.error(step.grad_norm_difference, gate.grad_norm), "number"),
            result(step.loss_difference <= gate.loss and step.grad_norm_difference <= gate.grad_norm),
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
                objective=objectives.get(alignment.objective, alignment.objective),
                learning_rate=settings.learning_rate,
                betas=", ".join(map(str, settings.betas)),
                eps=settings.eps,
                weight_decay=settings.weight_decay,
                max_grad_norm=settings.max_grad_norm,
                seed=settings.seed,
                loss=formats.bound(gate.loss),
                grad_norm=formats.bound(gate.grad_norm),
            )
        ),
        Curves(
            "loss",
            tr("Loss"),
            tuple(s.loss for s in steps),
            tuple(s.reference_loss for s in steps),
            tuple(s.loss_difference for s in steps),
            tr("absolute difference (below), ▼ where it is 0"),
            gate.loss,
            tr("bound {bound}", bound=formats.bound(gate.loss)),
        ),
        Curves(
            "norm",
            tr("Gradient norm before clipping"),
            tuple(s.grad_norm for s in steps),
            tuple(s.reference_grad_norm for s in steps),
            tuple(s.grad_norm_difference for s in steps),
            tr("relative difference (below), ▼ where it is 0"),
            gate.grad_norm,
            tr("bound {bound}", bound=formats.bound(gate.grad_norm)),
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


def config_section(migration: Migration) -> tuple[Block, ...]:
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
            one(row.key, "code"),
            one(formats.value(row.value), "code"),
            one(layers.get(row.layer, row.layer)),
            one(origins.get(row.origin, row.origin)),
            Cell(_targets(row), "code"),
            one(statuses.get(row.status, row.status), "warn" if row.status == UNHANDLED else "text"),
            one(tr(row.note) if row.note else ""),
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
        blocks += [Note(tr("Derived fields:")), Grouped((("", derived),))]
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
            Grouped((("", unhandled),)),
        ]
    return tuple(blocks)


def _targets(row: Row) -> tuple[str, ...]:
    return tuple(f"{field} = {formats.value(value)}" for field, value in row.to.items())


def weights_section(migration: Migration) -> tuple[Block, ...]:
    weights = migration.weights
    rows = tuple((one(source, "code"), one(target, "code")) for source, target in weights.placed)
    copies = tuple(name for name, _ in collapse_names((name, "") for name in weights.tied_copies))
    blocks: list[Block] = [
        Note(
            tr(
                "{tensors_in} tensors read, {tensors_out} written; {skipped} left out, {copies} tied copies.",
                tensors_in=f"{weights.tensors_in:,}",
                tensors_out=f"{weights.tensors_out:,}",
                skipped=f"{len(weights.skipped):,}",
                copies=f"{len(weights.tied_copies):,}",
            )
        ),
        Table((tr("Hugging Face tensor"), tr("MindSpore parameter")), rows),
    ]
    if weights.skipped:
        blocks += [Note(tr("Left out, with reasons:")), _by_reason(dict(collapse_names(weights.skipped.items())))]
    if copies:
        blocks += [Note(tr("Tied copies, equal to a weight that was placed:")), Grouped((("", copies),))]
    return tuple(blocks)


def _by_reason(reasons: Mapping[str, str]) -> Grouped:
    groups: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        groups.setdefault(tr(reason) if reason else tr("no reason recorded"), []).append(name)
    return Grouped(tuple((reason, tuple(names)) for reason, names in groups.items()))
