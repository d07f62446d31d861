"""Keys that older articles, and people, put into the wrong section, and where they belong."""

from __future__ import annotations

_MODEL = "model.model_config"

_HOMES: dict[str, tuple[str, ...]] = {
    "optimizer": ("weight_decay", "betas", "beta1", "beta2", "eps"),
    "lr_schedule": ("learning_rate", "warmup_steps", "warmup_ratio", "warmup_lr_init", "lr_end", "total_steps"),
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


def belongs_to(section: str, key: str) -> str | None:
    """Where a key belongs, `section.key`; None where it is at home, or nothing is known of it."""
    if section not in LOOKED_AT or (section, key) in _GUESTS:
        return None
    home = _HOME_OF.get(key)
    if home is None or home == section or (section == "" and home == ""):
        return None
    return f"{home}.{key}" if home else key
