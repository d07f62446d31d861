"""Keys that older articles, and people, put into the wrong section, and where they belong, or that they belong nowhere.

`validate` says so, `upgrade` moves them, and `read` reads a model as if they were in their place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mindport.config.mindformers.plan import value_at

_MODEL = "model.model_config"

_HOMES: dict[str, tuple[str, ...]] = {
    "optimizer": ("weight_decay", "betas", "beta1", "beta2", "eps"),
    "lr_schedule": (
        "learning_rate",
        "warmup_steps",
        "warmup_ratio",
        "warmup_epochs",
        "warmup_lr_init",
        "lr_end",
        "total_steps",
    ),
    "recompute_config": (
        "recompute",
        "select_recompute",
        "select_comm_recompute",
        "mp_comm_recompute",
        "parallel_optimizer_comm_recompute",
        "recompute_slice_activation",
    ),
    "parallel_config": (
        "data_parallel",
        "model_parallel",
        "pipeline_stage",
        "context_parallel",
        "expert_parallel",
        "micro_batch_num",
        "use_seq_parallel",
        "vocab_emb_dp",
        "gradient_aggregation_group",
        "seq_split_num",
        "context_parallel_algo",
        "ulysses_degree_in_cp",
    ),
    "parallel": (
        "parallel_mode",
        "gradients_mean",
        "full_batch",
        "dataset_strategy",
        "search_mode",
        "enable_parallel_optimizer",
        "parallel_optimizer_config",
        "enable_alltoall",
        "pipeline_config",
        "strategy_ckpt_config",
    ),
    "runner_config": ("batch_size", "epochs", "sink_mode", "sink_size", "gradient_accumulation_steps"),
    "runner_wrapper": ("scale_sense", "use_clip_grad", "max_grad_norm"),
    "context": ("max_device_memory", "device_target", "jit_config", "ascend_config"),
    "train_dataset": ("num_parallel_workers", "drop_remainder", "prefetch_size", "input_columns"),
    _MODEL: ("offset", "pp_interleave_num", "fine_grain_interleave", "seq_length", "num_layers", "hidden_size"),
    "": ("micro_batch_interleave_num", "use_parallel", "run_mode", "auto_trans_ckpt", "load_checkpoint", "use_legacy"),
}
"""Section -> keys that are at home in it and in no other."""

_GUESTS = frozenset(
    {
        ("optimizer", "learning_rate"),  # both are read
        ("train_dataset", "batch_size"),
        ("eval_dataset", "batch_size"),
        ("parallel", "strategy_ckpt_config"),
        (_MODEL, "batch_size"),
    }
)
"""(section, key) that are read there, too."""

_HOME_OF = {key: section for section, names in _HOMES.items() for key in names}

LOOKED_AT = frozenset(_HOMES) | {"trainer"}
"""Sections whose keys are compared; in others the same words mean something of their own."""


_RENAMED = {("runner_config", "optimizer"): "optimizer.type", ("runner_config", "lr_schedule"): "lr_schedule.type"}
"""(section, key) of a word -> the key that it is the value of."""

_REASONS = {
    "optimizer": "the optimizer has a section of its own",
    "lr_schedule": "the learning rate has a section of its own",
    "recompute_config": "recomputation has a section of its own",
    "runner_wrapper": "clipping and loss scaling belong to the wrapper of a training step",
    "parallel_config": "degrees of parallelism are in parallel_config",
    "parallel": "how MindSpore carries out parallelism is in parallel",
    "train_dataset": "the data set has a section of its own",
}
"""Section -> why its keys are there; templates for `tr`."""

_WORKERS = "MindFormers has no such key; the launcher sets the number of devices"
_LOSS = "MindFormers computes the loss in the model"
_NOWHERE = {
    **{("parallel_config", key): _WORKERS for key in ("device_num", "worker_num", "world_size")},
    **{("runner_config", key): _LOSS for key in ("loss", "loss_fn")},
    ("runner_config", "loss_scale_value"): "the scale of the loss is set in scale_sense of runner_wrapper",
}
"""(section, key) of older articles that no section has -> why; templates for `tr`."""

REASONS = frozenset({*_REASONS.values(), *_NOWHERE.values()})


def belongs_to(section: str, key: str) -> str | None:
    """Where a key belongs, `section.key`; None where it is at home, or nothing is known of it."""
    if section not in LOOKED_AT or (section, key) in _GUESTS:
        return None
    if (section, key) in _RENAMED:
        return _RENAMED[section, key]
    home = _HOME_OF.get(key)
    if home is None or home == section or (section == "" and home == ""):
        return None
    return f"{home}.{key}" if home else key


def reason_for(section: str, key: str) -> str:
    """Why a key does not belong where it stands, a template for `tr`; "" where there is no more to say."""
    home = (belongs_to(section, key) or "").rpartition(".")[0]
    return _REASONS.get(home) or _NOWHERE.get((section, key), "")


def strays(values: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """(section, key, where it belongs) of every key of a file that is out of place; "" is the top level."""
    for section in ("", *sorted(LOOKED_AT - {""})):
        content = value_at(values, section) if section else values
        for key in list(content) if isinstance(content, Mapping) else ():
            home = belongs_to(section, str(key))
            if home is not None and ((section, key) not in _RENAMED or isinstance(content[key], str)):
                yield section, str(key), home


def model_strays(values: Mapping[str, Any]) -> dict[str, Any]:
    """Keys about the model that stand elsewhere, with their values."""
    found = ((value_at(values, f"{section}.{key}" if section else key), home) for section, key, home in strays(values))
    return {home.rpartition(".")[2]: value for value, home in found if home.startswith(f"{_MODEL}.")}
