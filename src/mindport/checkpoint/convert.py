"""Hugging Face -> target: what a conversion will do (`plan_conversion`), and doing it (`convert`)."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from mindport.architectures.naming import Spelling, skipped_tensors, tensor_map, tied_copies
from mindport.checkpoint.carry_out import Job, Progress, carry_out
from mindport.checkpoint.dtypes import FLOATS, NAMES
from mindport.checkpoint.folder import Found, find_weights
from mindport.checkpoint.implied import Implied, implied
from mindport.checkpoint.match import spelling_of, with_optional_parts
from mindport.checkpoint.options import PLAIN, Options
from mindport.checkpoint.plan import Plan, Problem, make_plan
from mindport.checkpoint.problems import PlanError
from mindport.checkpoint.publish import check_free, publish
from mindport.checkpoint.quantised import pair_scales
from mindport.checkpoint.resize import Resize, vocab_change
from mindport.checkpoint.shards import TargetFile, ckpt_file, indices, safetensors_files
from mindport.checkpoint.source import Checkpoint
from mindport.config.hf import ModelConfig, read_hf_config
from mindport.config.native import NativeConfig, write_native_config
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.layout import TensorMap
from mindport.schema import TransformerConfig, VocabChange, slots_of
from mindport.targets import NATIVE

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


def plan_conversion(model: Path, options: Options = PLAIN) -> Planned:
    """The plan to bring a Hugging Face folder to the native target, from its config and tensor headers alone.

    Raises:
        MindportError: something cannot be read or is not supported.
    """
    described = read_hf_config(model)
    if described.part.path:
        # transformers has changed the names under which it stores the parts, and no declaration says them.
        raise MindportError(
            tr(
                "{model} is a composite model; only the config of its text model, {part}, can be converted.",
                model=model,
                part=described.part.name,
            ),
            tr("Give its config.json, or a folder with the weights of the text model alone."),
        )
    found = find_weights(model)
    source = pair_scales(found.entries, described.hf)
    spelling = spelling_of(described, source)
    described = with_optional_parts(described, spelling, source)
    declaration, config = described.declaration, described.transformer
    skipped = skipped_tensors(declaration, described.declared_class, config, spelling)
    copies = tied_copies(declaration, config, spelling)
    copies = {name: slot for name, slot in copies.items() if name not in skipped}
    tensors = _counting(tensor_map(declaration, config, spelling), source, config, copies, skipped)
    change = _vocab(config, options)
    plan = make_plan(
        source,
        tensors,
        NATIVE.parameters(config),
        slots_of(config),
        copies=copies,
        skipped=skipped,
        policy=options.policy,
        resize=Resize.of(change, config),
        found=[Problem(name, what) for name, what in found.problems] + _not_floating(tensors, source),
    )
    if plan.problems:
        hints = tuple(implied(described, spelling, source))
        return Planned(model, NativeConfig(described, spelling), found, plan, hints, None)
    options.policy.check_used(part for output in plan.outputs for part in output.stored.parts)
    native = _as_written(described, spelling, plan, options, change)

    def finish(folder: Path) -> None:
        write_native_config(folder, native)
        copy_side_files(model, folder)

    files = target_files(plan, options)
    job = Job(plan, files, indices(files, hugging_face=False), found.stamps, finish, {"options": options.to_json()})
    return Planned(model, native, found, plan, (), job)


def _counting(
    tensors: TensorMap,
    source: Checkpoint,
    config: TransformerConfig,
    copies: dict[str, str],
    skipped: dict[str, str],
) -> TensorMap:
    """The tensors, with those that count in this file: not tied, a copy may differ, and where the class does not read
    the other, it is the copy that counts."""
    if config.tie_word_embeddings:
        return tensors
    result = dict(tensors)
    for name in copies.keys() & source.keys():
        holder = next(n for n, stored in result.items() if copies[name] in stored.parts)
        if holder in skipped:
            result[name] = result.pop(holder)
    return result


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
    described: ModelConfig, spelling: Spelling, plan: Plan, options: Options, change: VocabChange | None
) -> NativeConfig:
    changes: dict[str, object] = {}
    if options.policy.default:
        changes["params_dtype"] = NAMES[options.policy.default]
    if change:
        changes["vocab_size"] = change.after
    return NativeConfig(described.with_transformer(**changes), spelling, tuple(plan.copies), change)


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
    *,
    overwrite: bool = False,
    resume: bool = False,
    progress: Progress = no_progress,
) -> Conversion:
    """Convert a Hugging Face model folder, or a config.json alone, to the native target.

    Args:
        model: model folder, or a config.json.
        folder: to be written; it appears only when everything in it is complete.
        options: how the weights are to be written.
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
        config = NativeConfig(read_hf_config(model))
        with publish(folder, overwrite=overwrite) as work:
            write_native_config(work, config)
        return Conversion(folder, config, None)
    planned = plan_conversion(model, options)
    carry_out(planned.ready(), folder, overwrite=overwrite, resume=resume, progress=progress)
    return Conversion(folder, planned.config, planned)


def copy_side_files(source: Path, folder: Path) -> None:
    """Copy the tokenizer and what else belongs to a model but is neither configuration nor weights."""
    for name in SIDE_FILES:
        if (source / name).is_file():
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(source / name, folder / name)
