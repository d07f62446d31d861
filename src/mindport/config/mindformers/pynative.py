"""The YAML of the pynative generation (`run_mindformer.py --mode 1`), which has a schema of its own."""

from __future__ import annotations

from mindport.config.mindformers.sections import SCHEDULES, at_least, megatron, mind_record
from mindport.config.mindformers.settings import COSINE, MEGATRON, RunSettings
from mindport.config.mindformers.writer import Entry
from mindport.i18n import tr
from mindport.targets.mindformers.versions import Version

COLUMNS = ["input_ids", "labels", "loss_mask", "position_ids"]


def sections(version: Version, settings: RunSettings, eod: int, layers: int) -> list[Entry]:
    """Every section but the model's.

    Args:
        eod: id of the token that ends a document.
        layers: number of Transformer blocks.
    """
    return [
        _checkpoint(settings),
        _training(settings),
        _optimizer(settings),
        _schedule(settings),
        _parallelism(version, settings),
        _dataset(settings, eod),
        _recompute(version, settings, layers),
        Entry(
            "context",
            (
                Entry("mode", 1, tr("no static graphs")),
                Entry("device_target", settings.device),
                Entry("max_device_memory", settings.max_device_memory),
            ),
        ),
    ]


def _checkpoint(settings: RunSettings) -> Entry:
    return Entry(
        "checkpoint",
        (
            Entry("enable_save", True),
            Entry("save_path", f"{settings.output_dir}/checkpoint"),
            Entry("save_max", settings.keep_checkpoints),
            Entry("save_interleaved_steps", settings.checkpoint_interval),
            Entry("prefix", settings.name),
            Entry("load_path", settings.load_checkpoint, tr("folder that MindFormers saved; empty = none")),
            Entry("no_load_optim", bool(settings.load_checkpoint)),
        ),
    )


def _training(settings: RunSettings) -> Entry:
    plan = settings.parallel
    whole = settings.batch_size * plan.data * plan.micro_batches * settings.gradient_accumulation
    return Entry(
        "training",
        (
            Entry("steps", settings.steps),
            Entry("local_batch_size", settings.batch_size, tr("sequences per device")),
            Entry("global_batch_size", whole, tr("sequences per step, of all devices")),
            Entry("max_norm", float(settings.optimizer.max_grad_norm or 0.0), tr("0 = gradients are not clipped")),
            Entry("seed", settings.seed),
        ),
    )


def _optimizer(settings: RunSettings) -> Entry:
    chosen = settings.optimizer
    return Entry(
        "optimizer",
        (
            Entry("type", "AdamW"),
            Entry("betas", [float(beta) for beta in chosen.betas]),
            Entry("eps", chosen.eps),
            Entry("weight_decay", float(chosen.weight_decay), tr("not of biases and norms")),
        ),
    )


def _schedule(settings: RunSettings) -> Entry:
    chosen = settings.schedule
    entries = [Entry("type", SCHEDULES[chosen.kind]), Entry("learning_rate", float(chosen.peak))]
    if chosen.kind == COSINE:
        entries.append(Entry("lr_end", float(chosen.final)))
    if chosen.warmup_steps is not None:
        entries.append(Entry("warmup_steps", chosen.warmup_steps))
    else:
        entries.append(Entry("warmup_ratio", float(chosen.warmup_ratio)))
    return Entry("lr_scheduler", tuple(entries))


def _parallelism(version: Version, settings: RunSettings) -> Entry:
    plan = settings.parallel
    entries = [
        Entry("tensor_parallel", plan.tensor),
        Entry("context_parallel", plan.context),
        Entry("pipeline_parallel", plan.pipeline),
        Entry("pipeline_parallel_interleave_num", plan.interleave),
        Entry("sequence_parallel", plan.sequence),
    ]
    if at_least(version, "2.0"):
        entries = [
            Entry("data_parallel_shard", plan.data if plan.optimizer else -1, tr("-1 = what is left of the devices")),
            *entries,
            Entry("expert_parallel", plan.expert),
        ]
    else:
        entries.append(Entry("hsdp_shard_size", plan.data if plan.optimizer else 1))
    return Entry("parallelism", tuple(entries))


def _dataset(settings: RunSettings, eod: int) -> Entry:
    data = settings.data
    head = megatron(settings, eod) if data.format == MEGATRON else mind_record(settings)
    loader = (
        *head,
        Entry("column_names", COLUMNS),
        Entry("shuffle", data.shuffle),
        Entry("python_multiprocessing", False),
    )
    return Entry(
        "train_dataset",
        (
            Entry("dataloader", loader),
            Entry("drop_remainder", True),
            Entry("num_parallel_workers", data.workers),
            Entry("prefetch_size", 1),
            Entry("numa_enable", False),
        ),
    )


def _recompute(version: Version, settings: RunSettings, layers: int) -> Entry:
    plan = settings.recompute
    if not at_least(version, "2.0"):
        return Entry("recompute", (Entry("full_recompute", plan.full), Entry("select_recompute", plan.select)))
    if not plan.full:
        return Entry("recompute", (Entry("mode", "None"),))
    return Entry("recompute", (Entry("mode", "full"), Entry("full_recompute_layer", [f"0-{layers - 1}"])))
