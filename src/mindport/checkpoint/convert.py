"""A model -> target: what a conversion will do (`plan_conversion`), and doing it (`convert`)."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mindport.checkpoint.carry_out import Job, Progress, carry_out
from mindport.checkpoint.dtypes import FLOATS, NAMES
from mindport.checkpoint.folder import Found
from mindport.checkpoint.implied import Implied, implied
from mindport.checkpoint.options import PLAIN, Options
from mindport.checkpoint.origin import Origin, origin_of
from mindport.checkpoint.plan import Plan, Problem, make_plan
from mindport.checkpoint.problems import PlanError
from mindport.checkpoint.publish import check_free, publish
from mindport.checkpoint.resize import Resize, vocab_change
from mindport.checkpoint.shards import TargetFile, ckpt_file, indices, safetensors_files
from mindport.checkpoint.source import Checkpoint
from mindport.config.hf import read_hf_config
from mindport.config.native import NativeConfig, write_native_config
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.layout import TensorMap
from mindport.schema import TransformerConfig, VocabChange, slots_of
from mindport.targets import NATIVE
from mindport.targets.target import served

if TYPE_CHECKING:
    from mindport.checkpoint.goal import Goal
    from mindport.targets.mindformers import Destination

CKPT = "model.ckpt"
"""Weights in MindSpore's own format."""

METADATA = {"format": "ms"}
"""Of converted safetensors files."""

SIDE_FILES = (
    "1_Pooling/config.json",
    "added_tokens.json",
    "chat_template.jinja",
    "config_sentence_transformers.json",
    "generation_config.json",
    "merges.txt",
    "modules.json",
    "sentencepiece.bpe.model",
    "sentence_bert_config.json",
    "special_tokens_map.json",
    "spiece.model",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
)
"""Files of a model folder that belong to the tokenizer or to generation: copied unchanged."""


@dataclass(frozen=True)
class Planned:
    """What a conversion will do, or why it cannot.

    Args:
        model: the folder that is read.
        config: will be written beside the weights.
        found: the source's weights files.
        plan: outputs, or problems.
        implied: values of config fields that the tensors imply, where there are problems.
        job: to be carried out; None where there are problems.
    """

    model: Path
    config: NativeConfig
    found: Found
    plan: Plan
    implied: tuple[Implied, ...]
    job: Job | None

    def ready(self) -> Job:
        """The job.

        Raises:
            PlanError: there are problems; all of them at once.
        """
        if self.job is None:
            raise PlanError(self.model, self.plan.problems, self.implied)
        return self.job


@dataclass(frozen=True)
class Conversion:
    """What a conversion did.

    Args:
        folder: what was written.
        config: the native config of that side.
        planned: what was carried out; None where only a config was converted.
    """

    folder: Path
    config: NativeConfig
    planned: Planned | None

    @property
    def plan(self) -> Plan | None:
        return self.planned.plan if self.planned else None

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the weights files."""
        return tuple(file.name for file in self.planned.ready().files) if self.planned else ()


def no_progress(_: int) -> None:
    """For those who do not want to know."""


def plan_conversion(model: Path, options: Options = PLAIN, goal: Goal | None = None) -> Planned:
    """The plan to bring a model folder to a target, from its config and tensor headers alone.

    Args:
        model: a Hugging Face folder, or one that was converted before, to whatever target.
        goal: MindFormers; None: the native target.

    Raises:
        MindportError: something cannot be read or is not supported.
    """
    origin = origin_of(model)
    described, spelling = origin.config.model, origin.config.spelling
    config = described.transformer
    destination = goal.destination(described, weights=True) if goal else None
    target = destination.target if destination else NATIVE
    tensors, more = target.sides(origin.tensors, config)
    change = _vocab(config, options)
    if change and origin.config.vocab:
        raise MindportError(
            tr("The vocabulary of {folder} was changed when it was converted.", folder=model),
            tr("Convert the Hugging Face model again, with all that is to be changed."),
        )
    plan = make_plan(
        origin.source,
        tensors,
        served(target.parameters(config), origin.shared),
        slots_of(config),
        copies={**origin.copies, **more},
        skipped=origin.skipped,
        policy=options.policy,
        resize=Resize.of(change, config),
        found=[Problem(name, what) for name, what in origin.found.problems] + _not_floating(tensors, origin.source),
    )
    if plan.problems:
        hints = () if origin.converted or spelling is None else tuple(implied(described, spelling, origin.source))
        return Planned(model, replace(origin.config, destination=destination), origin.found, plan, hints, None)
    options.policy.check_used(part for output in plan.outputs for part in output.stored.parts)
    config_written = _as_written(origin, plan, options, change, destination)
    files = target_files(plan, options)
    beside = goal.beside(config_written, files) if goal else {}

    def finish(folder: Path) -> None:
        write_native_config(folder, config_written)
        copy_side_files(model, folder)
        write_texts(folder, beside)

    job = Job(
        plan,
        files,
        indices(files, hugging_face=False, always=goal is not None),
        origin.found.stamps,
        finish,
        {"options": options.to_json()},
        tuple(goal.yaml_files) if goal else (),
    )
    return Planned(model, config_written, origin.found, plan, (), job)


def _not_floating(tensors: TensorMap, source: Checkpoint) -> list[Problem]:
    """Weights that are whole numbers: no slot is, so they are quantised, or something else."""
    return [
        Problem(name, tr("has dtype {dtype}, and weights are floating-point", dtype=NAMES[source[name].dtype]))
        for name in tensors
        if name in source and source[name].dtype not in FLOATS
    ]


def _vocab(config: TransformerConfig, options: Options) -> VocabChange | None:
    change = vocab_change(config, options.vocab_size, options.vocab_rule or "zeros", options.vocab_map)
    if options.vocab_rule and options.vocab_size is None and options.vocab_map is None:
        raise MindportError(
            tr("--vocab-init says what new rows hold, and no new size is given."),
            tr("Give --vocab-size or --vocab-map, too."),
        )
    if change and -1 in change.origins and options.vocab_rule is None:
        raise MindportError(
            tr("The vocabulary gets new rows, and nothing says what they are to hold."),
            tr("Choose a rule with --vocab-init."),
        )
    return change


def _as_written(
    origin: Origin, plan: Plan, options: Options, change: VocabChange | None, destination: Destination | None
) -> NativeConfig:
    changes: dict[str, object] = {}
    if options.policy.default:
        changes["params_dtype"] = NAMES[options.policy.default]
    if change:
        changes["vocab_size"] = change.after
    before = origin.config
    copies = before.copies if origin.converted else tuple(name for name in plan.copies if name in origin.copies)
    model = before.model.with_transformer(**changes)
    return NativeConfig(model, before.spelling, copies, change or before.vocab, destination)


def write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    """Write text files into a folder."""
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def target_files(plan: Plan, options: Options) -> tuple[TargetFile, ...]:
    """The weights files of a native folder.

    Raises:
        MindportError: the format has no shards.
    """
    if options.weights_format == "ckpt":
        if options.shard_bytes is not None:
            raise MindportError(
                tr("A .ckpt is always one file."), tr("Leave the shard size out, or write safetensors.")
            )
        return (ckpt_file(plan.outputs, CKPT),)
    return safetensors_files(plan.outputs, METADATA, options.shard_bytes)


def convert(
    model: Path,
    folder: Path,
    options: Options = PLAIN,
    goal: Goal | None = None,
    *,
    overwrite: bool = False,
    resume: bool = False,
    progress: Progress = no_progress,
) -> Conversion:
    """Convert a model folder, or a config.json alone, to the native target or to MindFormers.

    Args:
        model: a Hugging Face folder or one that was converted before, or a config.json.
        folder: to be written; it appears only when everything in it is complete.
        options: how the weights are to be written.
        goal: MindFormers; None: the native target.
        overwrite: replace an existing folder.
        resume: go on with what a killed run left.
        progress: called with the number of bytes just written, from several threads, one at a time.

    Raises:
        MindportError: the model cannot be read, is not supported, or the folder cannot be written.
        PlanError: config and checkpoint do not fit.
    """
    check_free(folder, overwrite=overwrite, source=model)
    if not model.is_dir():
        if options != Options(options.weights_format):
            raise MindportError(
                tr("{path} is a configuration, and what was asked for is about weights.", path=model),
                tr("Give the model folder, or leave these options out."),
            )
        described = read_hf_config(model)
        config = NativeConfig(described, destination=goal.destination(described, weights=False) if goal else None)
        beside = goal.beside(config, ()) if goal else {}
        with publish(folder, overwrite=overwrite) as work:
            write_native_config(work, config)
            write_texts(work, beside)
        return Conversion(folder, config, None)
    planned = plan_conversion(model, options, goal)
    carry_out(planned.ready(), folder, overwrite=overwrite, resume=resume, progress=progress)
    return Conversion(folder, planned.config, planned)


def copy_side_files(source: Path, folder: Path) -> None:
    """Copy the tokenizer and what else belongs to a model but is neither configuration nor weights."""
    for name in SIDE_FILES:
        if (source / name).is_file():
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(source / name, folder / name)
