"""How one training run is spread over devices, and the arithmetic that any target shares.

`ParallelPlan` is a vocabulary: names as in Megatron-core, every size a plain number, nothing derived. None means that
nobody said, so no rule can judge it. What a plan must fulfil is a matter of the target.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, gcd
from typing import Any


@dataclass(frozen=True)
class ParallelPlan:
    """Sizes of a model, degrees of parallelism, and the batch.

    Args:
        num_layers ... mtp_num_layers: of the model, as in `TransformerConfig`.
        seq_length: tokens of a training sequence.
        data_parallel_size ... expert_model_parallel_size: degrees of parallelism.
        virtual_pipeline_model_parallel_size: parts of the model on each pipeline stage.
        interleaved: whether the schedule makes use of these parts.
        pipeline_scheduler: the schedule's name.
        offset: layers on a stage beyond an even share: a number, one for each stage, or a list of these for each part.
        seq_split_num: parts that a sequence is cut into on its way through the pipeline.
        context_parallel_algo, ulysses_degree_in_cp: how attention goes over the parts of a sequence.
        micro_batch_num: micro batches of one step.
        micro_batch_interleave_num: parts of a micro batch that are computed in turn.
        batch_size: sequences of one data-parallel rank and micro batch.
        recompute, select_recompute, select_comm_recompute: which layers are computed again in the backward pass.
        parallel_mode: "data", "semi_auto", "auto", "hybrid" or "alone".
        dataset_strategy: how the inputs are cut, where each rank reads its own part.
        optimizer_shard_size: ranks that share the states of a parameter.
    """

    num_layers: int | None = None
    hidden_size: int | None = None
    num_attention_heads: int | None = None
    num_query_groups: int | None = None
    kv_channels: int | None = None
    ffn_hidden_size: int | None = None
    vocab_size: int | None = None
    seq_length: int | None = None
    max_position_embeddings: int | None = None
    num_moe_experts: int | None = None
    mtp_num_layers: int | None = None
    multi_latent_attention: bool = False
    use_flash_attention: bool | None = None

    data_parallel_size: int = 1
    tensor_model_parallel_size: int = 1
    pipeline_model_parallel_size: int = 1
    context_parallel_size: int = 1
    expert_model_parallel_size: int = 1
    virtual_pipeline_model_parallel_size: int = 1
    interleaved: bool = False
    pipeline_scheduler: str | None = None
    offset: Any = 0
    sequence_parallel: bool = False
    seq_split_num: int = 1
    context_parallel_algo: str = "colossalai_cp"
    ulysses_degree_in_cp: int = 1
    fine_grain_interleave: int = 1
    moe_token_dispatcher_type: str | None = None
    npu_nums_per_device: int = 8

    micro_batch_num: int = 1
    micro_batch_interleave_num: int = 1
    batch_size: int = 1
    gradient_accumulation_steps: int = 1

    recompute: Any = False
    select_recompute: Any = False
    select_comm_recompute: Any = False
    recompute_slice_activation: bool = False
    swap: bool = False

    use_parallel: bool = True
    parallel_mode: str | None = "semi_auto"
    full_batch: bool = True
    dataset_strategy: Any = None
    enable_parallel_optimizer: bool = False
    optimizer_shard_size: int | None = None
    optimizer: str | None = None
    optimizer_swap: bool = False

    @property
    def devices(self) -> int:
        """Devices that the plan needs; expert parallelism uses those of the others."""
        return (
            self.data_parallel_size
            * self.tensor_model_parallel_size
            * self.pipeline_model_parallel_size
            * self.context_parallel_size
        )

    @property
    def parts_per_stage(self) -> int:
        """Parts of the model on each stage, as the schedule takes them."""
        return self.virtual_pipeline_model_parallel_size if self.interleaved else 1

    @property
    def global_batch_size(self) -> int:
        """Sequences of one step in MindFormers: micro batches count with a pipeline, accumulation without one."""
        steps = self.micro_batch_num if self.pipeline_model_parallel_size > 1 else self.gradient_accumulation_steps
        return self.batch_size * self.data_parallel_size * self.micro_batch_interleave_num * steps


def divisors(number: int) -> list[int]:
    """All divisors, in order."""
    return [part for part in range(1, number + 1) if number % part == 0] if number < 1 << 16 else [1]


def common_divisors(*numbers: int | None) -> list[int]:
    """Numbers that divide all of them; None = any number does."""
    return divisors(gcd(*(number for number in numbers if number is not None)))


def next_multiple(number: int, of: int) -> int:
    """The least multiple of `of` that is not below the number."""
    return ceil(number / of) * of


def even_offset(layers: int, stages: int, parts: int = 1) -> Any:
    """An `offset` that spreads layers evenly: 0 where there is nothing left over.

    The extra layers go to the stages in the middle first: the first holds the embedding and the most micro batches in
    flight, the last the head.

    Returns:
        0, a list of `stages` numbers, or `parts` such lists.
    """
    extra = layers % (stages * parts)
    if not extra:
        return 0
    places = sorted(range(stages * parts), key=lambda place: (place in (0, stages * parts - 1), place == 0, place))
    flat = [0] * (stages * parts)
    for place in places[:extra]:
        flat[place] = 1
    rows = [flat[start : start + stages] for start in range(0, len(flat), stages)]
    return rows if parts > 1 else rows[0]
