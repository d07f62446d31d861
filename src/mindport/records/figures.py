"""The numbers at the top of a report."""

from __future__ import annotations

from collections.abc import Iterable

from mindport.config.audit import UNHANDLED
from mindport.i18n import tr
from mindport.records import formats
from mindport.records.blocks import (
    Figure,
    tone,
)
from mindport.records.migration import Migration
from mindport.records.series import least, nan_first, steps_of
from mindport.verify.alignment import worst


def figures(migration: Migration) -> Iterable[Figure]:
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
        largest = max(compared, key=lambda d: nan_first(d.max_abs / d.bound(gate)))
        yield Figure(
            tr("Largest output error"),
            formats.error(largest.max_abs, largest.bound(gate)),
            tr("bound {bound}", bound=formats.bound(largest.bound(gate))),
            tone(all(d.max_abs <= d.bound(gate) for d in compared)),
        )
        cosine = least(d.cosine for d in compared)
        yield Figure(
            tr("Least cosine"),
            formats.cosine(cosine),
            tr("bound {bound}", bound=gate.cosine),
            tone(cosine >= gate.cosine),
        )
        shares = [d.top1 for d in compared if d.top1 is not None]
        if shares:
            yield Figure(
                tr("Same top-1 token"),
                formats.percent(least(shares)),
                tr("bound {bound}", bound=formats.percent(gate.top1)),
                tone(all(d.choices_agree(gate) for d in compared)),
            )
    if migration.text:
        yield Figure(
            tr("Greedy text"),
            tr("identical") if migration.text.equal else tr("different"),
            tr("{count} tokens", count=migration.text.tokens),
            tone(migration.text.equal),
        )
    if migration.embeddings:
        yield Figure(
            tr("Embeddings, cosine"),
            formats.cosine(migration.embeddings.cosine),
            tr("bound {bound}", bound=gate.cosine),
            tone(migration.embeddings.passes(gate)),
        )
    if migration.alignment:
        steps = steps_of(migration.alignment)
        loss = worst(step.loss_difference for step in steps)
        norm = worst(step.grad_norm_difference for step in steps)
        yield Figure(
            tr("Largest loss difference"),
            formats.error(loss, gate.loss),
            tr("{steps} steps, bound {bound}", steps=len(steps), bound=formats.bound(gate.loss)),
            tone(loss <= gate.loss),
        )
        yield Figure(
            tr("Largest gradient norm difference, relative"),
            formats.error(norm, gate.grad_norm),
            tr("{steps} steps, bound {bound}", steps=len(steps), bound=formats.bound(gate.grad_norm)),
            tone(norm <= gate.grad_norm),
        )
