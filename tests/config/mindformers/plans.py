"""The published training plans: rows of a table beside the checkout, and a YAML with what the columns of a row say."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
TABLE = ROOT.parent / "shared/facts/planning/mindformers_plans.csv"

Row = dict[str, str]


def rows() -> list[Row]:
    """The rows of the table; none where it is not there."""
    if not TABLE.is_file():
        return []
    with TABLE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def version_of(row: Row) -> str:
    """The release of a branch; before 1.0 the rules are those of 1.0, and 1.4 became 1.5."""
    name = ".".join(row["branch"].lstrip("r").split(".")[:2])
    return "1.0" if name.startswith("0") else {"1.4": "1.5"}.get(name, name)


def _value(text: str) -> Any:
    """A cell as YAML has it."""
    if text in ("True", "False"):
        return text == "True"
    try:
        return json.loads(text)
    except ValueError:
        return text


def _section(row: Row, names: dict[str, str]) -> dict[str, Any]:
    """Key -> value of the columns that are not empty."""
    return {key: _value(row[column]) for key, column in names.items() if row[column] not in ("", "null")}


def as_yaml(row: Row) -> dict[str, Any]:
    """What a row says, as the YAML has it; what no column holds is filled in with what fits any plan."""
    mcore = row["use_legacy"] == "False"
    glm = row["config_type"] == "ChatGLM2Config"
    heads = "num_attention_heads" if mcore or glm else "num_heads"
    groups = "num_key_value_heads" if mcore else "multi_query_group_num" if glm else "n_kv_heads"
    layers = "num_hidden_layers" if mcore else "num_layers"
    model = _section(
        row, {layers: "num_layers", "hidden_size": "hidden_size", heads: "num_heads", groups: "n_kv_heads"}
    )
    model |= _section(
        row,
        {
            "vocab_size": "vocab_size",
            "seq_length": "seq_length",
            "intermediate_size": "intermediate_size",
            "offset": "offset",
            "pp_interleave_num": "pp_interleave_num",
            "fine_grain_interleave": "fine_grain_interleave",
            "use_flash_attention": "use_flash_attention",
            "compute_dtype": "compute_dtype",
            "kv_lora_rank": "kv_lora_rank",
            "mtp_depth" if not mcore else "num_nextn_predict_layers": "mtp",
            "head_dim": "head_dim",
        },
    )
    model |= {"num_experts": int(row["expert_num"])} if mcore and row["expert_num"] else {}
    architecture = _value(row["model_arch"])
    content: dict[str, Any] = {
        "run_mode": row["run_mode"],
        "use_parallel": _value(row["use_parallel"]),
        "trainer": {"type": "CausalLanguageModelingTrainer", "model_name": row["trainer_model_name"]},
        "parallel_config": _section(
            row,
            {
                "data_parallel": "dp",
                "model_parallel": "mp",
                "pipeline_stage": "pp",
                "expert_parallel": "ep",
                "micro_batch_num": "micro_batch_num",
                "use_seq_parallel": "use_seq_parallel",
                "vocab_emb_dp": "vocab_emb_dp",
                "seq_split_num": "seq_split_num",
                "gradient_aggregation_group": "gradient_aggregation_group",
                **({"context_parallel": "cp"} if row["cp"] != "1" else {}),
            },
        ),
        **_section(row, {"micro_batch_interleave_num": "micro_batch_interleave_num"}),
        "runner_config": _section(
            row, {"batch_size": "batch_size", "gradient_accumulation_steps": "gradient_accumulation_steps"}
        ),
        "recompute_config": _section(
            row,
            {
                name: name
                for name in (
                    "recompute",
                    "select_recompute",
                    "select_comm_recompute",
                    "mp_comm_recompute",
                    "parallel_optimizer_comm_recompute",
                    "recompute_slice_activation",
                )
            },
        ),
        "parallel": {
            **_section(
                row,
                {
                    "parallel_mode": "parallel_mode",
                    "full_batch": "full_batch",
                    "enable_parallel_optimizer": "enable_parallel_optimizer",
                },
            ),
            "pipeline_config": _section(
                row, {"pipeline_interleave": "pipeline_interleave", "pipeline_scheduler": "pipeline_scheduler"}
            ),
            "parallel_optimizer_config": _section(row, {"optimizer_weight_shard_size": "optimizer_weight_shard_size"}),
        },
        "optimizer": {"type": row["optimizer"] or "AdamW", **_section(row, {"swap": "optimizer_swap"})},
        "lr_schedule": {"type": "CosineWithWarmUpLR", "learning_rate": 0.001},
        "runner_wrapper": {"type": "MFTrainOneStepCell", "scale_sense": {"type": "DynamicLossScaleUpdateCell"}},
        "train_dataset": {"data_loader": {"type": "MindDataset"}},
        "model": {"model_config": model},
    }
    if content["parallel"].get("full_batch") is False:
        content["parallel"]["dataset_strategy"] = [[int(row["dp"]), 1]]
    if mcore:
        content["use_legacy"] = False
        model |= {"architectures": architecture} if architecture else {}
        content["pretrained_model_dir"] = "/path/to/model"
    else:
        content["model"]["arch"] = {"type": architecture}
        model["type"] = row["config_type"]
    if not mcore and row["expert_num"]:
        content["moe_config"] = {"expert_num": int(row["expert_num"])}
    return content
