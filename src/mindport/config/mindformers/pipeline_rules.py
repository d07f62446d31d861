"""What MindFormers asks of pipelines: layers and stages, micro batches, schedules, recomputation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mindport.config.mindformers.judge import Case, Findings
from mindport.i18n import tr
from mindport.schema.parallel_plan import even_offset

LAYER_SETTING = ("LlamaConfig", "ChatGLM2Config", "DeepseekV3Config")
"""Legacy classes, those of MindFormers and one of its research folder, that place layers as mcore does, since 1.3."""

COUNTS_MTP = ("DeepseekV3Config",)
"""Of these, the one that counts the layers for multi-token prediction among those it spreads."""


def stages(case: Case) -> Findings:
    plan, layers = case.plan, case.plan.num_layers
    stages, parts = plan.pipeline_model_parallel_size, plan.parts_per_stage
    if plan.virtual_pipeline_model_parallel_size > 1 and not plan.interleaved:
        yield case.warning(
            "interleave-off",
            "virtual_pipeline_model_parallel_size",
            tr(
                "pp_interleave_num = {parts} without pipeline_interleave.",
                parts=plan.virtual_pipeline_model_parallel_size,
            ),
            tr("it has no effect"),
            "parallel.pipeline_config.pipeline_interleave: True",
        )
    if layers is None or stages == 1:
        return
    if layers < stages * parts:
        yield case.error(
            "layers-stages",
            "pipeline_model_parallel_size",
            tr(
                "{layers} layers are fewer than pipeline_stage * pp_interleave_num = {stages} * {parts}.",
                layers=layers,
                stages=stages,
                parts=parts,
            ),
            tr("every stage needs a layer"),
            tr("pipeline_stage up to {most}", most=max(1, layers // parts)),
        )


def offsets(case: Case) -> Findings:
    """`offset` says how many layers each stage has beyond an even share, and must place all that are left over."""
    plan = case.plan
    layers, stages, parts = plan.num_layers, plan.pipeline_model_parallel_size, plan.parts_per_stage
    if layers is None or layers < stages * parts:
        return
    if case.legacy and not (case.since("1.3") and case.config_class in LAYER_SETTING):
        return
    if stages * parts == 1 and case.since("1.8"):
        return
    counts_mtp = case.config_class in COUNTS_MTP if case.legacy else not case.since("1.7")
    layers += (plan.mtp_num_layers or 0) if counts_mtp else 0
    even = f"offset: {even_offset(layers, stages, parts)}"
    rows = _rows(plan.offset)
    if rows is None:
        yield case.error(
            "offset-form",
            "offset",
            tr("offset = {offset} is no number, list, or list of lists of one length.", offset=plan.offset),
            tr("it says how many layers each stage has beyond an even share"),
            even,
        )
        return
    if isinstance(plan.offset, list) and len(rows[0]) != stages:
        yield case.error(
            "offset-form",
            "offset",
            tr("offset is for {given} stages, and there are {stages}.", given=len(rows[0]), stages=stages),
            tr("it holds one number for each stage"),
            even,
        )
        return
    if isinstance(plan.offset, list) and isinstance(plan.offset[0], list) and len(rows) != parts:
        yield case.error(
            "offset-form",
            "offset",
            tr("offset has {given} rows, with pp_interleave_num = {parts}.", given=len(rows), parts=parts),
            tr("it holds one row for each part of the model on a stage"),
            even,
        )
        return
    given, left = sum(map(sum, rows)), layers % (stages * parts)
    if given != left:
        yield case.error(
            "offset-sum",
            "offset",
            tr(
                "offset adds up to {given}, and {layers} layers on {stages} * {parts} stages leave {left} over.",
                given=given,
                layers=layers,
                stages=stages,
                parts=parts,
                left=left,
            ),
            tr("every layer left over needs a stage; only a sum of the remainder places all of them"),
            even,
        )
        return
    yield from _counts(case, rows, layers // (stages * parts), even)


def _counts(case: Case, rows: list[list[int]], share: int, even: str) -> Findings:
    stages, parts = case.plan.pipeline_model_parallel_size, case.plan.parts_per_stage
    wide = rows if len(rows) == parts else rows * parts
    counts = [share + extra for row in wide for extra in (row if len(row) == stages else row * stages)]
    if min(counts) < 0 or (len(counts) > 2 and min(counts[1:-1]) < 1):
        yield case.error(
            "offset-empty",
            "offset",
            tr("offset leaves stages with {counts} layers.", counts=counts),
            tr("only the first and the last may be without a layer, and none can have fewer"),
            even,
        )


def _rows(offset: Any) -> list[list[int]] | None:
    """An offset as a list of lists of whole numbers; None where it is no such thing."""
    rows = offset if isinstance(offset, list) else [offset]
    if rows and not any(isinstance(row, list) for row in rows):
        rows = [rows]
    whole = bool(rows) and all(isinstance(row, list) and row and all(type(item) is int for item in row) for row in rows)
    return rows if whole and len({len(row) for row in rows}) == 1 else None


def micro_batches(case: Case) -> Findings:
    plan, stages, count = case.plan, case.plan.pipeline_model_parallel_size, case.plan.micro_batch_num
    if stages == 1 and count > 1:
        yield case.note(
            "micro-batch-reset",
            "micro_batch_num",
            tr("micro_batch_num = {count} without a pipeline is set back to 1.", count=count),
            tr("the global batch is {batch} sequences", batch=plan.global_batch_size),
            tr("gradient_accumulation_steps: {count}, if that many were meant", count=count),
        )
    if stages > 1 and plan.gradient_accumulation_steps > 1:
        yield case.note(
            "accumulation-reset",
            "gradient_accumulation_steps",
            tr(
                "gradient_accumulation_steps = {count} has no effect with a pipeline.",
                count=plan.gradient_accumulation_steps,
            ),
            tr("the global batch is {batch} sequences", batch=plan.global_batch_size),
            tr("micro_batch_num: {count}, if that many were meant", count=count * plan.gradient_accumulation_steps),
        )
    if stages > 1 and count < stages:
        yield case.error(
            "micro-batches",
            "micro_batch_num",
            tr("{count} micro batches for {stages} pipeline stages.", count=count, stages=stages),
            tr("MindSpore stops when it compiles: there must be as many as stages"),
            tr("micro_batch_num from {stages}, better {twice}", stages=stages, twice=2 * stages),
        )
    elif stages > 1 and count < 2 * stages:
        yield case.warning(
            "few-micro-batches",
            "micro_batch_num",
            tr("{count} micro batches for {stages} pipeline stages.", count=count, stages=stages),
            tr("the stages wait for {share:.0%} of the time", share=(stages - 1) / (count + stages - 1)),
            tr("micro_batch_num from {twice}", twice=2 * stages),
        )
    if plan.micro_batch_interleave_num > 1 and case.mcore and case.since("1.7"):
        yield case.error(
            "interleaved-copies",
            "micro_batch_interleave_num",
            tr("micro_batch_interleave_num = {count} in mcore.", count=plan.micro_batch_interleave_num),
            tr("mcore refuses it"),
            "micro_batch_interleave_num: 1",
        )


def schedules(case: Case) -> Findings:
    plan, scheduler = case.plan, case.plan.pipeline_scheduler
    if scheduler == "seqvpp" and plan.seq_split_num == 1 and case.since("1.6"):
        yield case.error(
            "seqvpp-split",
            "pipeline_scheduler",
            tr("pipeline_scheduler seqvpp with seq_split_num = 1."),
            tr("it sends parts of sequences through the pipeline"),
            tr("seqpipe, or seq_split_num from 2"),
        )
    if plan.seq_split_num > 1 and plan.pipeline_model_parallel_size > 1:
        if plan.recompute is True:
            yield case.error(
                "seqpipe-recompute",
                "recompute",
                tr("seq_split_num = {parts} with full recomputation.", parts=plan.seq_split_num),
                tr("MindFormers refuses the two together"),
                "recompute: False",
            )
        if case.mcore and case.since("1.7"):
            yield case.error(
                "seqpipe-mcore",
                "seq_split_num",
                tr("seq_split_num = {parts} in mcore.", parts=plan.seq_split_num),
                tr("mcore refuses it"),
                "seq_split_num: 1",
            )
    if scheduler == "zero_bubble_v" and case.mcore and case.since("1.7"):
        yield from _zero_bubble(case)


def _zero_bubble(case: Case) -> Findings:
    plan, stages = case.plan, case.plan.pipeline_model_parallel_size
    wrong = []
    if plan.virtual_pipeline_model_parallel_size != 2:
        wrong.append(("virtual_pipeline_model_parallel_size", "pp_interleave_num: 2"))
    if stages < 2:
        wrong.append(("pipeline_model_parallel_size", tr("pipeline_stage from 2")))
    if plan.micro_batch_num < 2 * stages:
        wrong.append(("micro_batch_num", tr("micro_batch_num from {twice}", twice=2 * stages)))
    recompute = plan.recompute
    if isinstance(recompute, list) and (len(recompute) < 2 or not all(isinstance(row, list) for row in recompute)):
        wrong.append(("recompute", "recompute: [[..., ...], [..., ...]]"))
    for name, works in wrong:
        yield case.error(
            "zero-bubble",
            name,
            tr("pipeline_scheduler zero_bubble_v does not work with this {key}.", key=case.placed.place(name)),
            tr("each stage holds two parts of the model, in the shape of a V"),
            works,
        )


def recomputation(case: Case) -> Findings:
    plan, stages = case.plan, case.plan.pipeline_model_parallel_size
    for name in ("recompute", "select_recompute", "select_comm_recompute"):
        value = getattr(plan, name)
        if not isinstance(value, bool | list | dict) and value is not None:
            yield case.error(
                "recompute-form",
                name,
                tr("{key} = {value} is no switch, list or mapping.", key=name, value=value),
                tr("it says which layers are computed again"),
                tr("true, false, or layers of each stage: {example}", example=[1] * min(stages, 4)),
            )
        elif isinstance(value, list) and all(isinstance(item, int) for item in value):
            if len(value) > stages and case.since("1.3") and not plan.swap:
                yield case.error(
                    "recompute-stages",
                    name,
                    tr(
                        "{key} is for {given} stages, and there are {stages}.",
                        key=name,
                        given=len(value),
                        stages=stages,
                    ),
                    tr("it holds one number for each stage"),
                    str(value[:stages]),
                )
        elif isinstance(value, list) and not all(isinstance(item, list | str) for item in value):
            yield case.error(
                "recompute-form",
                name,
                tr("{key} = {value} is no switch, list or mapping.", key=name, value=value),
                tr("numbers and lists cannot be mixed"),
            )
    if plan.recompute_slice_activation and case.mcore and case.since("1.7"):
        yield case.error(
            "recompute-slice",
            "recompute_slice_activation",
            tr("recompute_slice_activation is on in mcore."),
            tr("mcore refuses it"),
            "recompute_slice_activation: False",
        )


PIPELINE_RULES: tuple[Callable[[Case], Findings], ...] = (stages, offsets, micro_batches, schedules, recomputation)
