"""The parallel plan that a MindFormers YAML describes, and where each number of it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from mindport.schema.parallel_plan import ParallelPlan
from mindport.targets.mindformers.versions import LEGACY, MCORE, PYNATIVE

_MODEL = "model.model_config"
_PARALLEL = "parallel_config"

KEYS: dict[str, tuple[str, ...]] = {
    "num_layers": (f"{_MODEL}.num_layers", f"{_MODEL}.num_hidden_layers", f"{_MODEL}.n_layer"),
    "hidden_size": (f"{_MODEL}.hidden_size",),
    "num_attention_heads": (f"{_MODEL}.num_heads", f"{_MODEL}.num_attention_heads", f"{_MODEL}.n_head"),
    "num_query_groups": (
        f"{_MODEL}.n_kv_heads",
        f"{_MODEL}.multi_query_group_num",
        f"{_MODEL}.num_key_value_heads",
        f"{_MODEL}.num_query_groups",
    ),
    "kv_channels": (f"{_MODEL}.head_dim", f"{_MODEL}.kv_channels"),
    "ffn_hidden_size": (f"{_MODEL}.intermediate_size", f"{_MODEL}.ffn_hidden_size"),
    "vocab_size": (f"{_MODEL}.padded_vocab_size", f"{_MODEL}.vocab_size"),
    "seq_length": (f"{_MODEL}.seq_length",),
    "max_position_embeddings": (f"{_MODEL}.max_position_embedding", f"{_MODEL}.max_position_embeddings"),
    "num_moe_experts": (
        f"{_MODEL}.num_experts",
        f"{_MODEL}.n_routed_experts",
        f"{_MODEL}.num_moe_experts",
        f"{_MODEL}.expert_num",
        "moe_config.expert_num",
    ),
    "mtp_num_layers": (f"{_MODEL}.mtp_depth", f"{_MODEL}.num_nextn_predict_layers", f"{_MODEL}.mtp_num_layers"),
    "multi_latent_attention": (f"{_MODEL}.multi_latent_attention",),
    "use_flash_attention": (f"{_MODEL}.use_flash_attention",),
    "data_parallel_size": (f"{_PARALLEL}.data_parallel",),
    "tensor_model_parallel_size": (f"{_PARALLEL}.model_parallel",),
    "pipeline_model_parallel_size": (f"{_PARALLEL}.pipeline_stage",),
    "context_parallel_size": (f"{_PARALLEL}.context_parallel",),
    "expert_model_parallel_size": (f"{_PARALLEL}.expert_parallel",),
    "virtual_pipeline_model_parallel_size": (f"{_MODEL}.pp_interleave_num",),
    "interleaved": ("parallel.pipeline_config.pipeline_interleave",),
    "pipeline_scheduler": ("parallel.pipeline_config.pipeline_scheduler",),
    "offset": (f"{_MODEL}.offset",),
    "sequence_parallel": (f"{_PARALLEL}.use_seq_parallel",),
    "seq_split_num": (f"{_PARALLEL}.seq_split_num",),
    "context_parallel_algo": (f"{_PARALLEL}.context_parallel_algo",),
    "ulysses_degree_in_cp": (f"{_PARALLEL}.ulysses_degree_in_cp",),
    "fine_grain_interleave": (f"{_MODEL}.fine_grain_interleave",),
    "moe_token_dispatcher_type": (f"{_MODEL}.moe_token_dispatcher_type",),
    "npu_nums_per_device": (f"{_MODEL}.npu_nums_per_device",),
    "micro_batch_num": (f"{_PARALLEL}.micro_batch_num",),
    "micro_batch_interleave_num": ("micro_batch_interleave_num",),
    "batch_size": ("runner_config.batch_size",),
    "gradient_accumulation_steps": ("runner_config.gradient_accumulation_steps",),
    "recompute": ("recompute_config.recompute",),
    "select_recompute": ("recompute_config.select_recompute",),
    "select_comm_recompute": ("recompute_config.select_comm_recompute",),
    "recompute_slice_activation": ("recompute_config.recompute_slice_activation",),
    "swap": ("swap_config.swap",),
    "use_parallel": ("use_parallel",),
    "parallel_mode": ("parallel.parallel_mode",),
    "full_batch": ("parallel.full_batch",),
    "dataset_strategy": ("parallel.dataset_strategy",),
    "enable_parallel_optimizer": ("parallel.enable_parallel_optimizer",),
    "optimizer_shard_size": ("parallel.parallel_optimizer_config.optimizer_weight_shard_size",),
    "optimizer": ("optimizer.type",),
    "optimizer_swap": ("optimizer.swap",),
}
"""Field of the plan -> the keys that may give it, in any generation; the first that is there counts."""

_SIZES = frozenset(
    f.name for f in fields(ParallelPlan) if str(f.type).startswith("int") and f.name != "optimizer_shard_size"
)
"""Fields that hold numbers from 1; the model's may be absent."""

_SWITCHES = frozenset(f.name for f in fields(ParallelPlan) if str(f.type).startswith("bool"))

MODES: Mapping[Any, str] = {
    0: "data",
    1: "semi_auto",
    2: "auto",
    3: "hybrid",
    "DATA_PARALLEL": "data",
    "SEMI_AUTO_PARALLEL": "semi_auto",
    "AUTO_PARALLEL": "auto",
    "HYBRID_PARALLEL": "hybrid",
    "STAND_ALONE": "alone",
    "MANUAL_PARALLEL": "alone",
    "data_parallel": "data",
    "semi_auto_parallel": "semi_auto",
    "auto_parallel": "auto",
    "hybrid_parallel": "hybrid",
    "stand_alone": "alone",
}
"""Spellings of `parallel.parallel_mode`."""


@dataclass(frozen=True)
class PlacedPlan:
    """A plan, and where it was read.

    Args:
        plan: what the YAML says; fields it gives with a value of a wrong type keep their default.
        places: field -> the key that gave it, `section.key`.
        unfit: (key, value) that are no number, switch or mode.
        latent: whether attention is latent, by the switch or by its sizes.
    """

    plan: ParallelPlan
    places: Mapping[str, str]
    unfit: tuple[tuple[str, Any], ...] = ()

    def place(self, name: str) -> str:
        """The key that gave a field, or would give it."""
        return self.places.get(name, KEYS[name][0])


def generation_of(values: Mapping[str, Any]) -> str:
    """LEGACY, MCORE or PYNATIVE, by what a YAML holds."""
    if "parallelism" in values or "lr_scheduler" in values or "training" in values:
        return PYNATIVE
    return MCORE if values.get("use_legacy") is False else LEGACY


def plan_of(values: Mapping[str, Any]) -> PlacedPlan:
    """The plan in a YAML of the legacy or the mcore generation."""
    found: dict[str, Any] = {}
    places: dict[str, str] = {}
    unfit = []
    for name, keys in KEYS.items():
        for key in keys:
            value = value_at(values, key)
            if value is None or (name in _SIZES and isinstance(value, list)):  # vision models have one for each stage
                continue
            places[name] = key
            fitting = _fitting(name, value)
            if fitting is None:
                unfit.append((key, value))
            else:
                found[name] = fitting
            break
    model = value_at(values, _MODEL)
    if isinstance(model, Mapping) and model.get("kv_lora_rank"):
        found["multi_latent_attention"] = True
    if value_at(values, "use_parallel") is None:
        found["use_parallel"] = False
    if found.get("num_moe_experts") == 1:  # moe_config's way to say that there are none
        found["num_moe_experts"] = None
    return PlacedPlan(ParallelPlan(**found), places, tuple(unfit))


def value_at(values: Any, path: str) -> Any:
    """What stands at `section.key`; None where nothing does."""
    for key in path.split("."):
        values = values.get(key) if isinstance(values, Mapping) else None
    return values


def _fitting(name: str, value: Any) -> Any:
    """The value where the field can hold it, else None."""
    if name in _SIZES:
        return value if type(value) is int and value >= (0 if name == "mtp_num_layers" else 1) else None
    if name in _SWITCHES:
        return value if isinstance(value, bool) else None
    if name == "parallel_mode":
        return MODES.get(value) if isinstance(value, str | int) and not isinstance(value, bool) else None
    return value
