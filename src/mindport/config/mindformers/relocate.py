"""Keys of older articles and examples: moved to where MindFormers reads them, or refused, one by one."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mindport.errors import brief
from mindport.i18n import tr
from mindport.targets.mindformers.versions import LATEST_EXECUTED, Version, version_named

Path = tuple[str, ...]


@dataclass(frozen=True)
class Move:
    """A key that stands where nothing reads it.

    Args:
        section: the section it stands in.
        key: the key.
        to: where it belongs; () = nowhere, and it is refused.
        reason: why, a template for `tr`.
    """

    section: str
    key: str
    to: Path
    reason: str


@dataclass(frozen=True)
class Moved:
    """What became of one key.

    Args:
        source: its path.
        target: its path now; "" where it was refused.
        value: what it holds, shortened.
        reason: why, in the user's language.
    """

    source: str
    target: str
    value: str
    reason: str


OPTIMIZER = "the optimizer has a section of its own"
SCHEDULE = "the learning rate has a section of its own"
RECOMPUTE = "recomputation has a section of its own"
WRAPPER = "clipping and loss scaling belong to the wrapper of a training step"
DEGREES = "degrees of parallelism are in parallel_config"
CONTEXT = "how MindSpore carries out parallelism is in parallel"
DATA = "the data set has a section of its own"
WORKER = "MindFormers has no such key; the launcher sets the number of devices"
LOSS = "MindFormers computes the loss in the model"
MISSPELLED = "the callback is spelled otherwise in this version"
TAKEN = "the section it belongs to says something else already"

MOVES: tuple[Move, ...] = (
    Move("runner_config", "optimizer", ("optimizer", "type"), OPTIMIZER),
    *(
        Move("runner_config", key, ("optimizer", key), OPTIMIZER)
        for key in ("weight_decay", "beta1", "beta2", "betas", "eps")
    ),
    *(
        Move("runner_config", key, ("lr_schedule", key), SCHEDULE)
        for key in ("learning_rate", "lr_end", "warmup_steps", "warmup_ratio", "warmup_epochs", "total_steps")
    ),
    Move("runner_config", "lr_schedule", ("lr_schedule", "type"), SCHEDULE),
    *(
        Move("runner_config", key, ("runner_wrapper", key), WRAPPER)
        for key in ("scale_sense", "use_clip_grad", "max_grad_norm")
    ),
    *(
        Move(section, key, ("recompute_config", key), RECOMPUTE)
        for section in ("parallel_config", "runner_config", "")
        for key in (
            "recompute",
            "select_recompute",
            "parallel_optimizer_comm_recompute",
            "mp_comm_recompute",
            "recompute_slice_activation",
        )
    ),
    *(
        Move("parallel", key, ("parallel_config", key), DEGREES)
        for key in (
            "data_parallel",
            "model_parallel",
            "pipeline_stage",
            "micro_batch_num",
            "expert_parallel",
            "use_seq_parallel",
        )
    ),
    *(
        Move("parallel_config", key, ("parallel", key), CONTEXT)
        for key in (
            "parallel_mode",
            "full_batch",
            "gradients_mean",
            "enable_parallel_optimizer",
            "enable_alltoall",
            "search_mode",
        )
    ),
    Move("parallel_config", "micro_batch_interleave_num", ("micro_batch_interleave_num",), CONTEXT),
    *(
        Move("runner_config", key, ("train_dataset", key), DATA)
        for key in ("num_parallel_workers", "drop_remainder", "prefetch_size", "input_columns")
    ),
    *(Move("parallel_config", key, (), WORKER) for key in ("device_num", "worker_num", "world_size")),
    *(Move("runner_config", key, (), LOSS) for key in ("loss", "loss_fn", "loss_scale_value")),
)
"""Keys out of place, as older articles have them."""

CALLBACKS = {
    "CheckpointMointor": ("CheckpointMonitor", "1.2"),
    "ColdHotExpertMointor": ("ColdHotExpertMonitor", "1.5"),
}
"""Name of a callback in early versions -> its name from a version on."""


def relocate(document: Mapping[str, Any], version: str | None = None) -> tuple[dict[str, Any], list[Moved]]:
    """A YAML with keys where MindFormers reads them, and what was done for it; the given document is left alone.

    A key is refused, and taken out, where there is no such setting, and where its own section says something else
    already. The caller decides whether a refusal ends things.

    Args:
        document: as `config.yaml_file` reads it.
        version: MindFormers version it is for; None = the newest that Mindport has run.
    """
    result: dict[str, Any] = copy.deepcopy(dict(document))
    report: list[Moved] = []
    for move in MOVES:
        section = result.get(move.section) if move.section else result
        if not isinstance(section, dict) or move.key not in section:
            continue
        value = section[move.key]
        if move.key in ("lr_schedule", "optimizer") and not isinstance(value, str):
            continue
        del section[move.key]
        report.append(_moved(result, move, value))
    _callbacks(result, version_named(version or LATEST_EXECUTED), report)
    return result, report


def _moved(result: dict[str, Any], move: Move, value: Any) -> Moved:
    source = ".".join(part for part in (move.section, move.key) if part)
    if not move.to:
        return Moved(source, "", brief(value), tr(move.reason))
    place = result
    for name in move.to[:-1]:
        inner = place.setdefault(name, {})
        if not isinstance(inner, dict):
            return Moved(source, "", brief(value), tr(TAKEN))
        place = inner
    if move.to[-1] in place and place[move.to[-1]] != value:
        return Moved(source, "", brief(value), tr(TAKEN))
    place[move.to[-1]] = value
    return Moved(source, ".".join(move.to), brief(value), tr(move.reason))


def _callbacks(result: dict[str, Any], version: Version, report: list[Moved]) -> None:
    """Give misspelled callbacks the name that the version has for them, in either direction."""
    listed = result.get("callbacks")
    for index, callback in enumerate(listed if isinstance(listed, list) else ()):
        if not isinstance(callback, dict):
            continue
        for old, (new, since) in CALLBACKS.items():
            right = new if version.order >= version_named(since).order else old
            if callback.get("type") in (old, new) and callback["type"] != right:
                report.append(
                    Moved(f"callbacks.{index}.type", f"callbacks.{index}.type", brief(callback["type"]), tr(MISSPELLED))
                )
                callback["type"] = right
