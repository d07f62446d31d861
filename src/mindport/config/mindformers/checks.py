"""Settings that MindFormers would refuse, or change in silence, for one model."""

from __future__ import annotations

from collections.abc import Iterator

from mindport.config.mindformers.model_section import PADDING_SINCE, pads_token_zero
from mindport.config.mindformers.sections import at_least
from mindport.config.mindformers.settings import CPU, MEGATRON, RunSettings
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.schema import TransformerConfig
from mindport.targets.mindformers.graphs import Graph
from mindport.targets.mindformers.versions import LEGACY, PYNATIVE, Version

MASK_SIZE = 2048
"""Sequences below this length cannot have MindFormers' compressed mask."""


def check_settings(config: TransformerConfig, graph: Graph, version: Version, settings: RunSettings) -> None:
    """Refuse settings that would not do what they say.

    Raises:
        MindportError: with all of them.
    """
    found = list(_problems(config, graph, version, settings))
    if found:
        raise MindportError(" ".join(found), tr("Correct it in the run settings."))


def _problems(config: TransformerConfig, graph: Graph, version: Version, settings: RunSettings) -> Iterator[str]:
    plan = settings.parallel
    length = settings.length(config.max_position_embeddings)
    if length > config.max_position_embeddings:
        yield tr(
            "seq_length = {length} is more than the {positions} positions of the model.",
            length=length,
            positions=config.max_position_embeddings,
        )
    if plan.pipeline == 1 and plan.micro_batches > 1:
        yield tr("micro_batches = {count} without a pipeline: MindFormers sets it to 1.", count=plan.micro_batches)
    if plan.pipeline > 1 and settings.gradient_accumulation > 1:
        yield tr(
            "gradient_accumulation = {count} with a pipeline: MindFormers sets it to 1; use micro_batches.",
            count=settings.gradient_accumulation,
        )
    if plan.devices == 1 and settings.gradient_accumulation > 1 and graph.generation != PYNATIVE:
        yield tr(
            "gradient_accumulation = {count} on one device: MindFormers sets it to 1; use batch_size.",
            count=settings.gradient_accumulation,
        )
    if plan.pipeline > 1 and plan.micro_batches < plan.pipeline:
        yield tr(
            "micro_batches = {count} is less than the {stages} stages of the pipeline.",
            count=plan.micro_batches,
            stages=plan.pipeline,
        )
    if plan.sequence and plan.tensor == 1:
        yield tr("Sequence parallelism is nothing without tensor parallelism: MindFormers refuses it.")
    for name, count in _split(config, graph):
        if count % plan.tensor:
            yield tr(
                "{name} = {count} is not a multiple of the {tensor} devices of tensor parallelism.",
                name=name,
                count=count,
                tensor=plan.tensor,
            )
    if plan.expert > 1 and config.num_moe_experts % plan.expert:
        yield tr(
            "{experts} experts cannot be spread over {devices} devices evenly.",
            experts=config.num_moe_experts,
            devices=plan.expert,
        )
    if plan.devices > 1 and settings.device == CPU:
        yield tr("A trial on a CPU is one device; the settings spread it over {count}.", count=plan.devices)
    if settings.load_checkpoint and graph.generation != PYNATIVE:
        yield from _loading(version, settings)
    if plan.context > 1 and not settings.flash_attention:
        yield tr("Context parallelism needs flash_attention.")
    if pads_token_zero(config, graph, version) and (length < MASK_SIZE or not settings.flash_attention):
        yield tr(
            "MindFormers {version} takes token 0 for padding, whatever pad_token_id says. Only with flash_attention "
            "and a seq_length from {length} on there is a mask without padding; or take MindFormers {since}.",
            version=version.name,
            length=MASK_SIZE,
            since=PADDING_SINCE,
        )
    if settings.data.format == MEGATRON and graph.generation == LEGACY and not at_least(version, "1.6"):
        yield tr("The legacy graph of MindFormers {version} reads MindRecord alone.", version=version.name)
    if graph.generation == PYNATIVE and (settings.recompute.select or isinstance(settings.recompute.full, list)):
        yield tr("The pynative generation names modules to recompute; choose full, for all layers, or nothing.")


def _loading(version: Version, settings: RunSettings) -> Iterator[str]:
    """Weights that the version, or several devices, cannot begin with."""
    path = settings.load_checkpoint
    single, spread = path.endswith(".safetensors"), settings.parallel.devices > 1
    if single and not version.loads_safetensors:
        yield tr("MindFormers {version} loads no safetensors: convert the weights to a .ckpt.", version=version.name)
    if single and spread:
        yield tr("Several devices load safetensors from a folder: give the folder of {path}.", path=path)
    if spread and not settings.sink:
        yield tr("Several devices load weights only with sink: MindFormers stops without it.")


def _split(config: TransformerConfig, graph: Graph) -> Iterator[tuple[str, int]]:
    """What tensor parallelism splits; MindFormers keeps a vocabulary it cannot split whole on every device."""
    yield "num_attention_heads", config.num_attention_heads
    if not graph.latent:
        yield "num_query_groups", config.num_query_groups
    yield "vocab_size", config.vocab_size
    yield "ffn_hidden_size", config.ffn_hidden_size
