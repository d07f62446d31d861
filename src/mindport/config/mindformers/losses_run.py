"""Silent losses about a run: batches and parallelism."""

from __future__ import annotations

from collections.abc import Iterator

from mindport.config.mindformers.case import ALL, STATIC, Case, Check, Hit
from mindport.config.mindformers.findings import NOTE
from mindport.config.mindformers.plan import MODES
from mindport.targets.mindformers.versions import LEGACY, MCORE, PYNATIVE


def _micro_batches(case: Case) -> Iterator[Hit]:
    if case.whole_number("parallel_config", "pipeline_stage") == 1:
        count = case.whole_number("parallel_config", "micro_batch_num")
        if count > 1:
            yield "parallel_config.micro_batch_num", count


def _accumulation(case: Case) -> Iterator[Hit]:
    if case.whole_number("parallel_config", "pipeline_stage") > 1:
        count = case.whole_number("runner_config", "gradient_accumulation_steps")
        if count > 1:
            yield "runner_config.gradient_accumulation_steps", count


def _accumulation_alone(case: Case) -> Iterator[Hit]:
    """MindFormers keeps it in the semi-automatic and automatic modes, which a run on one device does not have."""
    count, mode = (
        case.whole_number("runner_config", "gradient_accumulation_steps"),
        case.run("parallel", "parallel_mode"),
    )
    known = mode if isinstance(mode, str | int) else "semi_auto_parallel"
    if count > 1 and not (case.run("use_parallel") and MODES.get(known) in ("semi_auto", "auto")):
        yield "runner_config.gradient_accumulation_steps", count


def _vocabulary(case: Case) -> Iterator[Hit]:
    path = ("parallelism", "tensor_parallel") if case.generation == PYNATIVE else ("parallel_config", "model_parallel")
    tensor, size = case.whole_number(*path), case.get("vocab_size")
    if isinstance(size, int) and tensor > 1 and size % tensor:
        yield case.place("vocab_size"), size


def _batch_size(case: Case) -> Iterator[Hit]:
    data, run = case.run("train_dataset", "batch_size"), case.run("runner_config", "batch_size")
    if data is not None and run is not None and data != run:
        yield "train_dataset.batch_size", data


def _strategy(case: Case) -> Iterator[Hit]:
    if case.run("parallel", "full_batch") is True and case.run("parallel", "dataset_strategy"):
        yield "parallel.dataset_strategy", case.run("parallel", "dataset_strategy")


def _balanced(case: Case) -> Iterator[Hit]:
    if case.run("balanced_load") and not case.run("use_parallel"):
        yield "balanced_load", True


def _alone(case: Case) -> Iterator[Hit]:
    degrees = ("data_parallel", "model_parallel", "pipeline_stage", "context_parallel")
    if case.run("use_parallel") is False:
        for name in degrees:
            if case.whole_number("parallel_config", name) > 1:
                yield f"parallel_config.{name}", case.whole_number("parallel_config", name)


def _moved_switch(case: Case) -> Iterator[Hit]:
    for key in ("recompute", "select_recompute", "mp_comm_recompute", "recompute_slice_activation"):
        if key in case.document:
            yield key, case.document[key]


def _wrong_generation(case: Case) -> Iterator[Hit]:
    if case.run("use_legacy") is not False and case.section.get("type") is None and case.section.get("model_type"):
        yield "use_legacy", case.run("use_legacy")


def _unread_recompute(case: Case) -> Iterator[Hit]:
    for key, default in RECOMPUTE_BESIDE.items():
        value = case.run("recompute_config", key)
        if value is not None and value != default and case.section.get(key) != value:
            yield f"recompute_config.{key}", value


RECOMPUTE_BESIDE = {
    "select_recompute": False,
    "parallel_optimizer_comm_recompute": False,
    "select_comm_recompute": False,
    "mp_comm_recompute": True,
    "recompute_slice_activation": False,
    "select_recompute_exclude": False,
    "select_comm_recompute_exclude": False,
}
"""Keys of recompute_config other than `recompute` -> what holds where they are not read."""

CHECKS = (
    Check(
        "MF051",
        "micro_batch_num without a pipeline is set to 1: the batch of a step is smaller than it seems",
        "use gradient_accumulation_steps",
        _micro_batches,
        STATIC,
        source="3.1",
    ),
    Check(
        "MF052",
        "gradient_accumulation_steps with a pipeline is set to 1: the batch of a step is smaller than it seems",
        "use micro_batch_num",
        _accumulation,
        STATIC,
        source="3.1",
    ),
    Check(
        "MF053",
        "a vocabulary that tensor parallelism does not divide is kept whole on every device",
        "choose a degree that divides it, or pad the vocabulary when converting",
        _vocabulary,
        ALL,
        source="3.1",
    ),
    Check(
        "MF054",
        "batch_size of runner_config overrules that of the data set",
        "give both alike",
        _batch_size,
        STATIC,
        source="2.3",
    ),
    Check(
        "MF055",
        "dataset_strategy counts only where full_batch is off",
        "set full_batch: False, or take dataset_strategy out",
        _strategy,
        STATIC,
        source="3.1",
    ),
    Check(
        "MF056",
        "balanced_load without use_parallel is switched off",
        "take it out",
        _balanced,
        STATIC,
        since="1.7",
        training=False,
    ),
    Check(
        "MF057",
        "without use_parallel no degree of parallelism counts",
        "set use_parallel: True",
        _alone,
        STATIC,
        training=False,
        source="2.2",
        level=NOTE,
    ),
    Check(
        "MF058",
        "keys outside all sections that MindFormers does not know are reported as useless and dropped",
        "move it into recompute_config",
        _moved_switch,
        STATIC,
        source="2.1",
    ),
    Check(
        "MF059",
        "use_legacy is on where the YAML does not say otherwise, but the model is described for the mcore generation",
        "write use_legacy: False",
        _wrong_generation,
        (LEGACY,),
        since="1.6",
        training=False,
        source="2.2",
    ),
    Check(
        "MF060",
        "gradient_accumulation_steps outside (semi-)automatic parallelism is set to 1: the batch of a step is smaller "
        "than it seems",
        "use batch_size, or use_parallel: True with parallel_mode: 1",
        _accumulation_alone,
        STATIC,
        level=NOTE,
    ),
    Check(
        "MF061",
        "of recompute_config the mcore generation of this version reads recompute alone",
        "write the key into model.model_config as well, where it is read",
        _unread_recompute,
        (MCORE,),
        until="1.6",
    ),
)
