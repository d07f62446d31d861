"""The sections of a YAML for the static graphs (legacy and mcore) besides the model."""

from __future__ import annotations

from mindport.config.mindformers.model_section import columns
from mindport.config.mindformers.settings import (
    ASCEND,
    CONSTANT,
    COSINE,
    FINETUNE,
    MEGATRON,
    Optimizer,
    RunSettings,
    Schedule,
)
from mindport.config.mindformers.writer import Alias, Entry
from mindport.i18n import tr
from mindport.targets.mindformers.versions import LEGACY, MCORE, Version, version_named

SCHEDULES = {CONSTANT: "ConstantWarmUpLR", "linear": "LinearWithWarmUpLR", COSINE: "CosineWithWarmUpLR"}


def at_least(version: Version, name: str) -> bool:
    """Whether a version is another or newer."""
    return version.order >= version_named(name).order


def general(generation: str, version: Version, settings: RunSettings) -> list[Entry]:
    """The keys outside all sections."""
    mode = "finetune" if settings.task == FINETUNE else "train"
    entries = [
        Entry("seed", settings.seed),
        Entry("output_dir", settings.output_dir),
        Entry("run_mode", mode),
        Entry("use_parallel", settings.parallel.devices > 1),
    ]
    if at_least(version, "1.6"):
        entries.append(Entry("use_legacy", generation == LEGACY, tr("which generation of MindFormers' models")))
    return [
        *entries,
        *_weights(version, settings),
        Entry("resume_training", False),
        Entry("micro_batch_interleave_num", 1),
    ]


def _weights(version: Version, settings: RunSettings) -> list[Entry]:
    """Where the weights are read from, and whether each device cuts its share out of them."""
    path, spread = settings.load_checkpoint, settings.parallel.devices > 1
    where = tr("folder of weights; empty = none") if spread else tr("file or folder of weights; empty = none")
    entries = [Entry("load_checkpoint", path, where)]
    if version.loads_safetensors:
        entries.append(Entry("load_ckpt_format", "ckpt" if path.endswith(".ckpt") else "safetensors"))
    cut = tr("needed where several devices load one set of weights: each takes its share")
    return [*entries, Entry("auto_trans_ckpt", spread and bool(path), cut)]


def trainer(generation: str, version: Version) -> Entry:
    name = "llm" if at_least(version, "1.6") and generation == MCORE else "llama2_7b"
    return Entry(
        "trainer",
        (
            Entry("type", "CausalLanguageModelingTrainer"),
            Entry("model_name", name, tr("one of the names the trainer knows; it changes nothing")),
        ),
    )


def runner(version: Version, settings: RunSettings) -> Entry:
    entries = [
        Entry("epochs", settings.epochs),
        Entry("batch_size", settings.batch_size, tr("sequences per device")),
        Entry("sink_mode", settings.sink),
        Entry("sink_size", 1),
    ]
    if at_least(version, "1.1"):
        entries.append(Entry("gradient_accumulation_steps", settings.gradient_accumulation))
    return Entry("runner_config", tuple(entries))


def wrapper(settings: RunSettings) -> Entry:
    optimizer = settings.optimizer
    scale: object = 1.0
    if settings.precision.compute == "float16":
        scale = (
            Entry("type", "DynamicLossScaleUpdateCell"),
            Entry("loss_scale_value", 65536),
            Entry("scale_factor", 2),
            Entry("scale_window", 1000),
        )
    clip = [Entry("use_clip_grad", optimizer.max_grad_norm is not None)]
    if optimizer.max_grad_norm is not None:
        clip.append(Entry("max_grad_norm", float(optimizer.max_grad_norm)))
    return Entry("runner_wrapper", (Entry("type", "MFTrainOneStepCell"), Entry("scale_sense", scale), *clip))


def optimizer(version: Version, settings: Optimizer) -> Entry:
    """AdamW under the name that the version has for it."""
    if at_least(version, "1.2"):
        head = [
            Entry("type", "AdamW", tr("FP32StateAdamWeightDecay until {version}", version="1.1")),
            Entry(
                "betas", [float(beta) for beta in settings.betas], tr("beta1 and beta2 until {version}", version="1.1")
            ),
        ]
    else:
        head = [
            Entry("type", "FP32StateAdamWeightDecay", tr("AdamW from {version} on", version="1.2")),
            Entry("beta1", float(settings.betas[0]), tr("betas from {version} on", version="1.2")),
            Entry("beta2", float(settings.betas[1])),
        ]
    tail = [
        Entry("eps", settings.eps),
        Entry("weight_decay", float(settings.weight_decay), tr("not of biases and norms")),
    ]
    return Entry("optimizer", (*head, *tail))


def schedule(settings: Schedule) -> Entry:
    """The learning rate, with its one warm-up."""
    entries = [Entry("type", SCHEDULES[settings.kind]), Entry("learning_rate", float(settings.peak))]
    if settings.kind == COSINE:
        entries.append(Entry("lr_end", float(settings.final)))
    if settings.warmup_steps is not None:
        entries.append(Entry("warmup_steps", settings.warmup_steps))
    else:
        entries.append(Entry("warmup_ratio", float(settings.warmup_ratio)))
    total = -1 if settings.total_steps is None else settings.total_steps
    entries.append(Entry("total_steps", total, tr("-1 = the steps of the run")))
    return Entry("lr_schedule", tuple(entries))


def mind_record(settings: RunSettings) -> tuple[Entry, ...]:
    """The loader of MindRecord files."""
    return (Entry("type", "MindDataset"), Entry("dataset_dir", settings.data.path, _where(settings)))


def megatron(settings: RunSettings, eod: int) -> tuple[Entry, ...]:
    """The loader of a Megatron data set, whose documents end with the token `eod`."""
    config = (
        Entry("seed", settings.seed),
        Entry("split", "1, 0, 0"),
        Entry("seq_length", settings.seq_length),
        Entry("eod_mask_loss", False),
        Entry("reset_position_ids", False),
        Entry("create_attention_mask", False),
        Entry("reset_attention_mask", False),
        Entry("create_compressed_eod_mask", False),
        Entry("eod_pad_length", 128),
        Entry("eod", eod),
        Entry("pad", -1),
        Entry("data_path", ["1", settings.data.path], _where(settings)),
    )
    return (
        Entry("type", "BlendedMegatronDatasetDataLoader"),
        Entry("datasets_type", "GPTDataset"),
        Entry("sizes", [settings.data.samples, 0, 0], tr("samples for training, test and evaluation")),
        Entry("config", config),
    )


def _where(settings: RunSettings) -> str:
    return "" if settings.data.path else tr("to be filled in")


def dataset(generation: str, version: Version, settings: RunSettings, eod: int) -> list[Entry]:
    """The training data, and the task that refers to it."""
    names = columns(generation, settings)
    data = settings.data
    loader = megatron(settings, eod) if data.format == MEGATRON else mind_record(settings)
    if data.format != MEGATRON:
        loader = (*loader, Entry("shuffle", data.shuffle))
    entries = [Entry("data_loader", loader), Entry("input_columns", names)]
    if generation == MCORE or data.format == MEGATRON:
        entries.append(Entry("construct_args_key", names))
    entries += [
        Entry("num_parallel_workers", data.workers),
        Entry("python_multiprocessing", False),
        Entry("drop_remainder", True),
        Entry("batch_size", settings.batch_size, tr("overruled by that of runner_config")),
        Entry("repeat", 1),
        Entry("numa_enable", False),
        Entry("prefetch_size", 1),
    ]
    task = (Entry("type", "CausalLanguageModelDataset"), Entry("dataset_config", Alias("train_dataset")))
    return [Entry("train_dataset", tuple(entries), anchor="train_dataset"), Entry("train_dataset_task", task)]


def context(version: Version, settings: RunSettings) -> Entry:
    entries = [
        Entry("mode", 0, tr("static graphs")),
        Entry("device_target", settings.device),
        Entry("device_id", settings.device_id),
        Entry("max_call_depth", 10000),
        Entry("save_graphs", False),
        Entry("save_graphs_path", "./graph"),
    ]
    if settings.device == ASCEND:
        entries.append(Entry("max_device_memory", settings.max_device_memory))
        if at_least(version, "1.2"):
            entries.append(Entry("jit_config", (Entry("jit_level", settings.jit_level),)))
        entries.append(Entry("ascend_config", (Entry("precision_mode", "must_keep_origin_dtype"),)))
    return Entry("context", tuple(entries))


def parallel(generation: str, version: Version, settings: RunSettings) -> list[Entry]:
    """Degrees of parallelism, and how MindSpore carries them out."""
    plan = settings.parallel
    degrees = [
        Entry("data_parallel", plan.data),
        Entry("model_parallel", plan.tensor, tr("tensor parallelism")),
        Entry("pipeline_stage", plan.pipeline),
        Entry("micro_batch_num", plan.micro_batches, tr("parts of a batch in the pipeline")),
        Entry("expert_parallel", plan.expert),
        Entry("use_seq_parallel", plan.sequence),
        Entry("vocab_emb_dp", plan.embedding_data_parallel),
        Entry("gradient_aggregation_group", plan.gradient_aggregation),
    ]
    if at_least(version, "1.2"):
        degrees.insert(3, Entry("context_parallel", plan.context))
    whole = settings.data.format != MEGATRON and plan.devices > 1
    carried_out = [
        Entry("parallel_mode", 1 if plan.devices > 1 else 0, tr("0 = data parallel, 1 = semi-automatic")),
        Entry("gradients_mean", False),
        Entry("enable_alltoall", plan.expert > 1),
        Entry("full_batch", whole, tr("every device reads the whole batch")),
        Entry("search_mode", "sharding_propagation"),
        Entry("enable_parallel_optimizer", plan.optimizer and plan.devices > 1),
    ]
    if plan.devices > 1 and not whole:
        count = len(columns(generation, settings))
        carried_out.append(Entry("dataset_strategy", [[plan.data, 1] for _ in range(count)]))
    if at_least(version, "1.5"):
        strategy = (Entry("save_file", "./ckpt_strategy.ckpt"), Entry("only_trainable_params", False))
        carried_out.append(
            Entry("strategy_ckpt_config", strategy, tr("strategy_ckpt_save_file until {version}", version="1.3"))
        )
    else:
        carried_out.append(
            Entry(
                "strategy_ckpt_save_file",
                "./ckpt_strategy.ckpt",
                tr("strategy_ckpt_config from {version} on", version="1.5"),
            )
        )
    sharing = [Entry("gradient_accumulation_shard", False), Entry("parallel_optimizer_threshold", 64)]
    if plan.optimizer_shard_size is not None and at_least(version, "1.5"):
        sharing.append(Entry("optimizer_weight_shard_size", plan.optimizer_shard_size))
    carried_out.append(Entry("parallel_optimizer_config", tuple(sharing)))
    return [Entry("parallel_config", tuple(degrees)), Entry("parallel", tuple(carried_out))]


def recompute(settings: RunSettings) -> Entry:
    plan = settings.recompute
    return Entry(
        "recompute_config",
        (
            Entry("recompute", plan.full),
            Entry("select_recompute", plan.select),
            Entry("parallel_optimizer_comm_recompute", plan.optimizer_communication),
            Entry("mp_comm_recompute", plan.tensor_communication),
            Entry("recompute_slice_activation", False),
        ),
    )


def callbacks(version: Version, settings: RunSettings) -> Entry:
    """The loss on the screen, and checkpoints."""
    named = at_least(version, "1.2")
    other = (
        tr("CheckpointMointor until {version}", version="1.1")
        if named
        else tr("spelled so; CheckpointMonitor from {version} on", version="1.2")
    )
    checkpoint = [
        Entry("type", "CheckpointMonitor" if named else "CheckpointMointor", other),
        Entry("prefix", settings.name),
        Entry("save_checkpoint_steps", settings.checkpoint_interval),
        Entry("keep_checkpoint_max", settings.keep_checkpoints),
        Entry("integrated_save", False),
        Entry("async_save", False),
    ]
    if at_least(version, "1.6"):
        checkpoint.append(Entry("checkpoint_format", "safetensors"))
    return Entry("callbacks", [(Entry("type", "MFLossMonitor"),), tuple(checkpoint)])
