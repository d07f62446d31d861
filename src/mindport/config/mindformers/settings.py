"""How a training run is set up: what a MindFormers YAML says besides the model."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Union, get_args, get_origin, get_type_hints

from mindport.config.mindformers.settings_range import bound_missed
from mindport.errors import MindportError, brief
from mindport.i18n import tr

PRETRAIN, FINETUNE = "pretrain", "finetune"
CONSTANT, LINEAR, COSINE = "constant", "linear", "cosine"
MINDRECORD, MEGATRON = "mindrecord", "megatron"
ASCEND, CPU = "Ascend", "CPU"
DTYPES = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Schedule:
    """Learning rate over the steps of a run.

    Args:
        kind: CONSTANT, LINEAR (to 0) or COSINE (to `final`), each after a linear warm-up.
        peak: learning rate after the warm-up.
        final: learning rate at the end, for COSINE.
        warmup_ratio: part of all steps that is warm-up; does not count where `warmup_steps` is given.
        warmup_steps: steps of warm-up; None = by the ratio.
        total_steps: steps over which the rate falls; None = those of the run.
    """

    kind: str = COSINE
    peak: float = 1e-5
    final: float = 0.0
    warmup_ratio: float = 0.03
    warmup_steps: int | None = None
    total_steps: int | None = None


@dataclass(frozen=True)
class Optimizer:
    """AdamW, with the clipping of gradients by their global norm.

    Args:
        betas, eps, weight_decay: as in torch.optim.AdamW; MindFormers does not decay biases and norms.
        max_grad_norm: global norm above which gradients are scaled down to it; None = no clipping.
    """

    betas: list[float] = field(default_factory=lambda: [0.9, 0.95])
    eps: float = 1e-8
    weight_decay: float = 0.01
    max_grad_norm: float | None = 1.0


@dataclass(frozen=True)
class Precision:
    """Dtypes: of the parameters the optimizer holds, of matrix products, and of what is sensitive."""

    params: str = "float32"
    compute: str = "bfloat16"
    norm: str = "float32"
    softmax: str = "float32"
    rotary: str = "float32"
    router: str = "float32"


@dataclass(frozen=True)
class Parallel:
    """How a model is spread over devices: `data * tensor * pipeline * context` of them.

    Args:
        data, tensor, pipeline, context, expert: degrees of parallelism.
        micro_batches: parts a batch is split into for the pipeline.
        interleave: model chunks per pipeline stage.
        sequence: sequence parallelism, between the parts that tensor parallelism splits.
        optimizer: optimizer states are spread over the data-parallel devices.
        optimizer_shard_size: over how many of them; None = all.
        offset: layers that each stage has more than an even share; one number, or a list (of lists, if interleaved).
        gradient_aggregation: gradients joined in one communication.
        embedding_data_parallel: the word embedding is not split by tensor parallelism.
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    expert: int = 1
    micro_batches: int = 1
    interleave: int = 1
    sequence: bool = False
    optimizer: bool = True
    optimizer_shard_size: int | None = None
    offset: int | list[Any] = 0
    gradient_aggregation: int = 4
    embedding_data_parallel: bool = False

    @property
    def devices(self) -> int:
        """Devices the run needs."""
        return self.data * self.tensor * self.pipeline * self.context


@dataclass(frozen=True)
class Recompute:
    """What is computed again in the backward pass to save memory; lists give layers per pipeline stage."""

    full: bool | list[Any] = False
    select: bool | list[Any] = False
    optimizer_communication: bool = False
    tensor_communication: bool = True


@dataclass(frozen=True)
class Data:
    """Where the training data is.

    Args:
        format: MINDRECORD, or MEGATRON (a `.bin` with its `.idx`).
        path: a MindRecord file or folder, or a Megatron data set without its suffix; "" leaves it to be filled in.
        samples: samples to draw from a Megatron data set.
        shuffle: in another order each epoch.
        workers: processes that prepare batches.
        end_of_document: id of the token that ends a document of a Megatron data set; None = the model's.
    """

    format: str = MINDRECORD
    path: str = ""
    samples: int = 1000
    shuffle: bool = False
    workers: int = 8
    end_of_document: int | None = None


@dataclass(frozen=True)
class RunSettings:
    """Everything that a training YAML says and a model's config.json does not. The defaults train on one NPU.

    Args:
        task: PRETRAIN or FINETUNE.
        name: prefix of the checkpoints.
        seq_length: tokens of a training sequence; None = 4096, or what the model was made for if that is less.
        batch_size: sequences per data-parallel device and micro batch.
        gradient_accumulation: batches per step; only on several devices, and without a pipeline.
        epochs: passes over the data.
        steps: steps of the run, where they are counted instead (pynative).
        load_checkpoint: weights to begin with, in MindFormers' names: a folder with safetensors, or a single file where
            one device reads it, or a `.ckpt`; "" = none.
        sink: batches are sent to the device ahead of time; not on a CPU.
        checkpoint_interval: steps between checkpoints.
        keep_checkpoints: checkpoints that are kept.
        device: ASCEND, or CPU for a trial run, which computes in float32 whatever the precision says.
        max_device_memory: memory MindSpore may use on a device.
        flash_attention: the fused kernel for attention; not on a CPU.
    """

    task: str = PRETRAIN
    name: str = "mindport"
    seed: int = 42
    output_dir: str = "./output"
    data: Data = field(default_factory=Data)
    seq_length: int | None = None
    batch_size: int = 1
    gradient_accumulation: int = 1
    epochs: int = 1
    steps: int = 1000
    load_checkpoint: str = ""
    schedule: Schedule = field(default_factory=Schedule)
    optimizer: Optimizer = field(default_factory=Optimizer)
    precision: Precision = field(default_factory=Precision)
    parallel: Parallel = field(default_factory=Parallel)
    recompute: Recompute = field(default_factory=Recompute)
    sink: bool = True
    checkpoint_interval: int = 1000
    keep_checkpoints: int = 5
    device: str = ASCEND
    device_id: int = 0
    max_device_memory: str = "58GB"
    jit_level: str = "O1"
    flash_attention: bool = True

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> RunSettings:
        """Settings from nested mappings, as a run-settings file has them.

        Raises:
            MindportError: an unknown name, or a value of another type.
        """
        settings: RunSettings = _made(cls, values, "")
        return settings

    def on_device(self) -> RunSettings:
        """The settings as the device carries them out.

        On a CPU MindSpore has no kernels for bfloat16, and sends no batches ahead. MindFormers would count each batch
        that is sent ahead as an epoch all the same, and MindSpore go through the whole data in each.
        """
        if self.device != CPU:
            return self
        single = {f.name: "float32" for f in fields(Precision)}
        return replace(self, sink=False, precision=Precision(**single))

    def length(self, positions: int) -> int:
        """Tokens of a training sequence, for a model made for so many positions."""
        return min(4096, positions) if self.seq_length is None else self.seq_length


_CHOICES: dict[str, tuple[str, ...]] = {
    "task": (PRETRAIN, FINETUNE),
    "schedule.kind": (CONSTANT, LINEAR, COSINE),
    "data.format": (MINDRECORD, MEGATRON),
    "device": (ASCEND, CPU),
    **{f"precision.{f.name}": DTYPES for f in fields(Precision)},
}
"""Setting -> the words it may hold."""


def _made(kind: type, values: Mapping[str, Any], path: str) -> Any:
    hints = get_type_hints(kind)
    unknown = [name for name in values if name not in hints]
    if unknown:
        raise MindportError(
            tr("There is no run setting {name}.", name=f"{path}{unknown[0]}"),
            tr("Settings here: {names}.", names=", ".join(hints)),
        )
    found = {}
    for name, value in values.items():
        wanted, where = hints[name], f"{path}{name}"
        if is_dataclass(wanted) and isinstance(value, Mapping):
            found[name] = _made(wanted, value, f"{where}.")  # type: ignore[arg-type]
            continue
        if float in (wanted, *get_args(wanted)) and type(value) in (int, str):  # YAML 1.1 reads 1e-5 as a string
            value = _number(value)
        if not is_a(value, wanted) or value not in _CHOICES.get(where, (value,)):
            allowed = ", ".join(_CHOICES.get(where, (_named(wanted),)))
            raise MindportError(
                tr(
                    "The run setting {name} = {value} is not one of {allowed}.",
                    name=where,
                    value=brief(value),
                    allowed=allowed,
                ),
                tr("Correct it in the run settings."),
            )
        if bound := bound_missed(where, value):
            raise MindportError(
                tr("The run setting {name} = {value} must be {bound}.", name=where, value=brief(value), bound=bound),
                tr("Correct it in the run settings."),
            )
        found[name] = value
    return kind(**found)


def _number(value: int | str) -> Any:
    """The number that is meant; the value itself where none is."""
    try:
        return float(value)
    except (ValueError, OverflowError):
        return value


def is_a(value: Any, wanted: Any) -> bool:
    """Whether a value is of a type as annotations say it; a bool is no number."""
    if get_origin(wanted) in (Union, types.UnionType):
        return any(is_a(value, part) for part in get_args(wanted))
    if wanted is Any:
        return True
    base = get_origin(wanted) or wanted
    if isinstance(value, bool) or base is bool:
        return isinstance(value, bool) and base is bool
    return isinstance(value, base)


def _named(wanted: Any) -> str:
    return getattr(wanted, "__name__", str(wanted)) if get_origin(wanted) is None else str(wanted)
