"""The model's section of a YAML: each property once, with where it comes from and what others call it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mindport.config.hf import ModelConfig, with_defaults
from mindport.config.mindformers.losses_run import RECOMPUTE_BESIDE
from mindport.config.mindformers.settings import CPU, FINETUNE, MEGATRON, Recompute, RunSettings
from mindport.config.mindformers.writer import Entry
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.schema import TransformerConfig
from mindport.targets.mindformers import Layout
from mindport.targets.mindformers.graphs import Graph
from mindport.targets.mindformers.plugin import AUTO_REGISTER, reference
from mindport.targets.mindformers.versions import LEGACY, MCORE, PYNATIVE, Version, family_named, version_named

_METADATA = {name: field.metadata for name, field in TransformerConfig.__dataclass_fields__.items()}


def model_keys(model: ModelConfig, graph: Graph, version: Version) -> list[Entry]:
    """The model itself, as its graph is told of it."""
    config, source = model.transformer, source_keys(model)
    entries = []
    for key in graph.keys:
        value = getattr(config, key.field)
        if not key.known(version) or (value is None and key.field in ("bos_token_id", "eos_token_id")):
            continue
        for name, said in key.spelling.write(key.name, key.field, config).items():
            entries.append(Entry(name, said, _comment(key.field, name, source, graph)))
    written = graph.written_in(version)
    entries += [Entry(name, value, tr("always so in this graph")) for name, value in written.items()]
    return entries


def source_keys(model: ModelConfig) -> dict[str, list[str]]:
    """Canonical field -> the keys of config.json that determine it, as the file spells them."""
    part = model.part.config
    values = with_defaults(part, model.declaration)
    found: dict[str, list[str]] = {}
    for rule in model.declaration.rules:
        present = [key for key in (*rule.keys, *rule.aliases) if key in part]
        for field in rule.decode(values):
            found.setdefault(field, []).extend(present or rule.keys[:1])
    return found


def _comment(field: str, name: str, source: Mapping[str, list[str]], graph: Graph) -> str:
    keys = source.get(field)
    where = tr("from {keys}", keys=", ".join(keys)) if keys else tr("fixed by the architecture")
    others = _other_names(field, name, graph)
    return f"{where}; {others}" if others else where


def _other_names(field: str, name: str, graph: Graph) -> str:
    """What the other generations call a field."""
    metadata = _METADATA[field]
    called = {"mcore": metadata["mcore"].split(), "legacy": metadata["legacy"].split()}
    if graph.generation == LEGACY:
        del called["legacy"]
    parts = []
    for generation, names in called.items():
        others = [other for other in names if other != name]
        if others:
            parts.append(tr("{names} in {generation}", names=", ".join(others), generation=generation))
    return ", ".join(parts)


def run_keys(model: ModelConfig, graph: Graph, version: Version, settings: RunSettings) -> list[Entry]:
    """What a run sets in the model's section: lengths, dtypes, kernels, pipeline."""
    if graph.generation == LEGACY:
        return _legacy_run(model, version, settings)
    return _mcore_run(model, graph, version, settings)


def _legacy_run(model: ModelConfig, version: Version, settings: RunSettings) -> list[Entry]:
    precision, parallel = settings.precision, settings.parallel
    kernels = settings.flash_attention and settings.device != CPU
    entries = [
        Entry("batch_size", settings.batch_size, tr("sequences per device")),
        Entry("seq_length", settings.length(model.transformer.max_position_embeddings), tr("tokens of a sequence")),
        Entry("compute_dtype", precision.compute),
        Entry(
            "param_init_type", precision.params, tr("{names} in {generation}", names="params_dtype", generation=MCORE)
        ),
        Entry("layernorm_compute_type", precision.norm),
        Entry("softmax_compute_type", precision.softmax),
        Entry("rotary_dtype", precision.rotary),
        Entry("use_past", False, tr("a cache of keys and values is for inference alone")),
        Entry("use_flash_attention", kernels),
        Entry("qkv_concat", False, tr("how the weights lie: wq, wk and wv as one matrix, or apart")),
        Entry("offset", parallel.offset, tr("layers more or less than an even share, per pipeline stage")),
    ]
    if version.order >= version_named("1.3").order:
        entries += [
            Entry("fused_rms_norm", settings.device != CPU),
            Entry("pp_interleave_num", parallel.interleave),
        ]
    if settings.device == CPU:
        entries.append(Entry("use_rope_slice", True))
    if version.order >= version_named("1.6").order:
        sliced = settings.data.format == MEGATRON
        entries.append(
            Entry(
                "input_sliced_sig", sliced, tr("whether samples are seq_length tokens long already, and not one more")
            )
        )
    return entries


def _mcore_run(model: ModelConfig, graph: Graph, version: Version, settings: RunSettings) -> list[Entry]:
    precision, parallel = settings.precision, settings.parallel
    entries = [
        Entry("seq_length", settings.length(model.transformer.max_position_embeddings), tr("tokens of a sequence")),
        Entry(
            "params_dtype", precision.params, tr("{names} in {generation}", names="param_init_type", generation=LEGACY)
        ),
        Entry("compute_dtype", precision.compute),
        Entry("layernorm_compute_dtype", precision.norm),
        Entry("softmax_compute_dtype", precision.softmax),
        Entry("rotary_dtype", precision.rotary),
    ]
    if "num_moe_experts" in graph.told:
        name = "moe_router_dtype" if graph.latent else "router_dense_type"
        entries.append(Entry(name, precision.router))
    if graph.generation == MCORE:
        entries += [
            Entry("use_flash_attention", settings.flash_attention),
            Entry("offset", parallel.offset, tr("layers more or less than an even share, per pipeline stage")),
            Entry("input_sliced_sig", True, tr("whether samples are seq_length tokens long already, and not one more")),
        ]
        if pads_token_zero(model.transformer, graph, version):
            why = tr("pad_token_id is not read before {version}; this mask knows no padding", version=PADDING_SINCE)
            entries.append(Entry("use_attn_mask_compression", True, why))
        if version.order < version_named("1.7").order:
            entries += _recompute(settings.recompute)
        if parallel.interleave > 1:
            entries.append(Entry("pp_interleave_num", parallel.interleave))
    return entries


def laid_out(entries: list[Entry], layout: Layout | None) -> tuple[Entry, ...]:
    """The entries of a section, with the settings of a layout in place of the defaults.

    Raises:
        MindportError: the graph has no such setting, in this version.
    """
    settings = layout.settings() if layout else {}
    present = {entry.key for entry in entries}
    usual = type(layout)().settings() if layout else {}
    for name, value in settings.items():
        if name not in present and value != usual[name]:
            raise MindportError(
                tr("{name} says nothing to this graph in this version of MindFormers.", name=name),
                tr("Leave it out."),
            )
    return tuple(replace(entry, value=settings.get(entry.key, entry.value)) for entry in entries)


def _recompute(plan: Recompute) -> list[Entry]:
    """What MindFormers 1.6 does not read in its own section, where it is other than what holds then."""
    told = {
        "select_recompute": plan.select,
        "parallel_optimizer_comm_recompute": plan.optimizer_communication,
        "mp_comm_recompute": plan.tensor_communication,
    }
    why = tr("not read in recompute_config before {version}", version="1.7")
    return [Entry(key, value, why) for key, value in told.items() if value != RECOMPUTE_BESIDE[key]]


PADDING_SINCE = "1.8"
"""First version whose mcore graphs are told of `pad_token_id`; before, they take token 0 for padding."""


def pads_token_zero(config: TransformerConfig, graph: Graph, version: Version) -> bool:
    """Whether a graph would take a token for padding that is none."""
    early = graph.generation == MCORE and version.order < version_named(PADDING_SINCE).order
    return early and config.pad_token_id != 0


def identity(graph: Graph) -> list[Entry]:
    """What tells MindFormers which model it is."""
    family = family_named(graph.name, graph.generation)
    assert family is not None  # `choice` has found that the family trains
    if graph.generation == LEGACY:
        return [Entry("type", family.config_class)]
    # A list in config.json; the pynative generation checks that it is a string.
    classes = family.model_class if graph.generation == PYNATIVE else [family.model_class]
    entries = [Entry("model_type", family.name), Entry("architectures", classes)]
    if family.plugin:
        entries.append(Entry(AUTO_REGISTER, reference(family), tr("the plug-in beside this file has the graph")))
    return entries


def legacy_arch(graph: Graph) -> Entry:
    """The class of a legacy model, beside its configuration."""
    family = family_named(graph.name, graph.generation)
    assert family is not None
    return Entry("arch", (Entry("type", family.model_class),))


def columns(generation: str, settings: RunSettings) -> list[str]:
    """Columns of the data that the graph's `construct` takes."""
    if generation == LEGACY and settings.data.format != MEGATRON:
        return ["input_ids", "labels"] if settings.task == FINETUNE else ["input_ids"]
    if generation == LEGACY:
        return ["input_ids", "labels", "loss_mask", "position_ids"]
    return ["input_ids", "labels", "loss_mask", "position_ids"]


def said_values(entries: list[Entry]) -> dict[str, Any]:
    """The entries of a section as the dict it is read as."""
    return {entry.key: entry.value for entry in entries}
