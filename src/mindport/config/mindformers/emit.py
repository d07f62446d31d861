"""A complete MindFormers training YAML for a model, or why there is none."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from mindport.config.hf import ModelConfig
from mindport.config.mindformers import pynative, sections
from mindport.config.mindformers.checks import check_settings
from mindport.config.mindformers.choice import chosen_graph, model_within
from mindport.config.mindformers.lint import OF_THEIR_CONVERSION, lint
from mindport.config.mindformers.model_section import identity, laid_out, legacy_arch, model_keys, run_keys, said_values
from mindport.config.mindformers.read import SOURCE, fields_of
from mindport.config.mindformers.settings import RunSettings
from mindport.config.mindformers.writer import Entry, comment_block, plain, render
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.schema import TransformerConfig
from mindport.targets.mindformers import Layout
from mindport.targets.mindformers.graphs import Graph
from mindport.targets.mindformers.limits import BEYOND
from mindport.targets.mindformers.plugin import FOLDER
from mindport.targets.mindformers.versions import (
    EXECUTED,
    LEGACY,
    MCORE,
    PYNATIVE,
    SCHEMA,
    Version,
    family_named,
    version_named,
)
from mindport.version import __version__


def emit(
    model: ModelConfig,
    version: str,
    generation: str | None = None,
    settings: RunSettings | None = None,
    graph: str | None = None,
    layout: Layout | None = None,
) -> str:
    """The text of a training YAML.

    Args:
        model: the model to train.
        version: of MindFormers, such as "1.9".
        generation: "legacy", "mcore" or "pynative"; None = the first of the version's that computes the model.
        settings: how to train; None = the defaults.
        graph: MindFormers' name of a training graph to use in place of the one of the model's own name, such as one
            that computes the same under another name.
        layout: of the weights, which Mindport writes; None = MindFormers' default.

    Raises:
        MindportError: the version cannot train the model, with each reason and what would do; or settings that
            MindFormers would refuse, or change in silence.
    """
    wanted = version_named(version)
    used = settings or RunSettings()
    used = replace(used.on_device(), seq_length=used.length(model.transformer.max_position_embeddings))
    whole, model = model, model_within(model, used.length(0))
    chosen = chosen_graph(model, wanted, generation, graph)
    check_settings(model.transformer, chosen, wanted, used)
    about = model_keys(model, chosen, wanted)
    document = _document(model, chosen, wanted, used, about, layout)
    lost = lint(plain(document), wanted.name)
    if layout:
        lost = [found for found in lost if found.code not in OF_THEIR_CONVERSION]
    if lost:
        raise MindportError(
            tr(
                "MindFormers {version} would lose something in silence: {findings}.",
                version=wanted.name,
                findings="; ".join(f"{found.code} {found.place}: {found.consequence}" for found in lost),
            ),
            "; ".join(found.fix for found in lost),
        )
    return _header(model, _beyond(whole, model), chosen, wanted, about) + render(document)


def _document(
    model: ModelConfig,
    graph: Graph,
    version: Version,
    settings: RunSettings,
    about: list[Entry],
    layout: Layout | None,
) -> list[Entry]:
    whole = laid_out([*identity(graph), *about, *run_keys(model, graph, version, settings)], layout)
    eod = _end_of_document(model.transformer, settings)
    if graph.generation == PYNATIVE:
        rest = pynative.sections(version, settings, eod, model.transformer.num_layers)
        return [*rest[:-1], Entry("model", whole), rest[-1]]
    model_section = [Entry("model_config", whole)]
    if graph.generation == LEGACY:
        model_section.append(legacy_arch(graph))
    return [
        *sections.general(graph.generation, version, settings),
        sections.trainer(graph.generation, version),
        sections.runner(version, settings),
        sections.optimizer(version, settings.optimizer),
        sections.schedule(settings.schedule),
        *sections.dataset(graph.generation, version, settings, eod),
        Entry("model", tuple(model_section)),
        *sections.parallel(graph.generation, version, settings),
        sections.recompute(settings),
        sections.wrapper(settings),
        sections.callbacks(version, settings),
        sections.context(version, settings),
    ]


def _end_of_document(config: TransformerConfig, settings: RunSettings) -> int:
    """Id of the token that ends a document; -1 where the model has none."""
    if settings.data.end_of_document is not None:
        return settings.data.end_of_document
    ids = config.eos_token_id
    first = ids[0] if isinstance(ids, list) else ids
    return -1 if first is None else first


def _beyond(whole: ModelConfig, model: ModelConfig) -> dict[str, Any]:
    """What the model has and these sequences are too short for."""
    found = {name: getattr(whole.transformer, name) for name in BEYOND}
    return {name: value for name, value in found.items() if value != getattr(model.transformer, name)}


def _header(model: ModelConfig, beyond: dict[str, Any], graph: Graph, version: Version, about: list[Entry]) -> str:
    lines = [
        tr(
            "Written by Mindport {mindport} for MindFormers {version} ({generation}, graph {graph}), which needs "
            "MindSpore {mindspore}.",
            mindport=__version__,
            version=version.name,
            generation=graph.generation,
            graph=graph.name,
            mindspore=version.mindspore,
        ),
        tr("What is known of this version: {evidence}.", evidence=_evidence(graph, version)),
        tr("The model is said in full: no config.json is needed beside it, and pretrained_model_dir is not set."),
    ]
    if beyond:
        lines.append(
            tr(
                "MindFormers is not told of {fields}: sequences this short do not show it. Longer ones would.",
                fields=", ".join(beyond),
            )
        )
    family = family_named(graph.name, graph.generation)
    if family is not None and family.plugin:
        lines += [
            tr(
                "MindFormers has no such graph itself: it comes with Mindport's plug-in, the folder {folder}.",
                folder=FOLDER,
            ),
            tr(
                "Start it with run_mindformer.py --register_path PATH, the absolute path of that folder, or set the "
                "variable REGISTER_PATH to it."
            ),
        ]
    if model.transformer.embedding_padding_idx is not None:
        lines.append(tr("Unlike PyTorch, MindFormers trains the embedding of the padding token too, where it occurs."))
    if graph.generation == MCORE:
        lines.append(tr("Without weights to begin with, MindFormers draws the output projections of a block smaller."))
    if model.transformer.moe_aux_loss_coeff:
        lines.append(
            tr(
                "MindFormers adds the loss that balances experts, per sequence; Hugging Face adds it over the whole "
                "batch, and with output_router_logits: True alone."
            )
        )
    return comment_block([*lines, f"{SOURCE} {json.dumps(_source(model, beyond, graph, version, about))}"])


def _evidence(graph: Graph, version: Version) -> str:
    """How far what is written was checked; of the pynative generation, which needs an NPU, at most its schema."""
    if graph.generation == PYNATIVE and version.evidence == EXECUTED:
        version = replace(version, evidence=SCHEMA)
    return version.evidence_text


def _source(
    model: ModelConfig, beyond: dict[str, Any], graph: Graph, version: Version, about: list[Entry]
) -> dict[str, Any]:
    """What the way back needs and no key can hold: whose config it was, and fields that keys say in other words."""
    section = {**said_values([*identity(graph), *about]), **graph.written_in(version)}
    read = fields_of(section, graph, version)
    default = TransformerConfig.__dataclass_fields__["params_dtype"].default
    kept = {name: getattr(model.transformer, name) for name in sorted(graph.told) if name in read}
    kept = {name: value for name, value in kept.items() if value != read[name]}
    if model.transformer.params_dtype != default:
        kept["params_dtype"] = model.transformer.params_dtype
    said = {"fields": kept, "beyond": beyond}
    return {
        "model_type": model.model_type,
        "architectures": [model.hf_class],
        **{name: values for name, values in said.items() if values},
    }
