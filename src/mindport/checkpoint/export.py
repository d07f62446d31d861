"""Target -> Hugging Face, with the same engine."""

from __future__ import annotations

from pathlib import Path

from mindport.architectures.naming import spellings, tensor_map, tied_copies
from mindport.checkpoint.carry_out import Job, Progress, carry_out
from mindport.checkpoint.convert import Conversion, Planned, copy_side_files, no_progress
from mindport.checkpoint.dtypes import ITEM_SIZE, NAMES
from mindport.checkpoint.options import PLAIN, Options
from mindport.checkpoint.origin import config_of, converted_origin
from mindport.checkpoint.plan import Problem, make_plan
from mindport.checkpoint.publish import check_free, publish
from mindport.checkpoint.resize import Resize
from mindport.checkpoint.shards import indices, safetensors_files
from mindport.checkpoint.source import Checkpoint
from mindport.config.hf import to_hf
from mindport.config.json_file import write_json
from mindport.config.native import NativeConfig
from mindport.layout import Stored, TensorMap
from mindport.schema import slots_of
from mindport.targets.target import served

METADATA = {"format": "pt"}
"""Of exported safetensors files: what transformers asks for."""


def plan_export(
    folder: Path, options: Options = PLAIN, weights: Path | None = None, config: NativeConfig | None = None
) -> Planned:
    """The plan to bring a converted folder back to Hugging Face.

    Copies of tied weights that the source checkpoint held are written again, names in the source's spelling, tensors
    in the order in which the safetensors package would write them. A change of the vocabulary is undone where no row
    was lost. State of the optimizer and counters of a training checkpoint are left out.

    Args:
        folder: holds `ms_config.json`, and the weights unless they are given.
        weights: a file or folder with weights of the model, such as a training checkpoint.
        config: in place of that of the folder; its dtype is then that of the weights, if they have a single one.

    Raises:
        MindportError: something cannot be read.
    """
    given, config = config, config or config_of(folder)
    origin = converted_origin(config, weights or folder)
    before, source = config.model.transformer, origin.source
    undone = config.vocab.undone() if config.vocab and not options.keep_vocab else None
    changes: dict[str, object] = {"vocab_size": undone.after} if undone else {}
    stored = {source[name].dtype for name in origin.tensors if name in source}
    if options.policy.default:
        changes["params_dtype"] = NAMES[options.policy.default]
    elif given and len(stored) == 1:
        changes["params_dtype"] = NAMES[stored.pop()]
    described = config.model.with_transformer(**changes)
    spelling = config.spelling or next(spellings(described.declaration, described.hf))
    copies = tied_copies(described.declaration, before, spelling)
    target = tensor_map(described.declaration, before, spelling)
    target.update({name: Stored((copies[name],)) for name in config.copies})
    plan = make_plan(
        source,
        origin.tensors,
        _as_saved(served(target, origin.shared), origin.tensors, source),
        slots_of(before),
        skipped=origin.skipped,
        policy=options.policy,
        resize=Resize.of(undone, before),
        found=[Problem(name, what) for name, what in origin.found.problems],
    )
    exported = NativeConfig(described, config.spelling, config.copies, None if undone else config.vocab)
    if plan.problems:
        return Planned(weights or folder, exported, origin.found, plan, (), None)

    def finish(work: Path) -> None:
        write_json(work / "config.json", to_hf(described))
        copy_side_files(folder, work)

    options.policy.check_used(part for output in plan.outputs for part in output.stored.parts)
    files = safetensors_files(plan.outputs, METADATA, options.shard_bytes)
    job = Job(
        plan, files, indices(files, hugging_face=True), origin.found.stamps, finish, {"options": options.to_json()}
    )
    return Planned(folder, exported, origin.found, plan, (), job)


def export(
    folder: Path,
    model: Path,
    options: Options = PLAIN,
    *,
    weights: Path | None = None,
    overwrite: bool = False,
    resume: bool = False,
    progress: Progress = no_progress,
) -> Conversion:
    """Write a native folder back as a Hugging Face folder. See `plan_export`, and `convert` for the arguments.

    Raises:
        MindportError: the folder cannot be read, or the model cannot be written.
        PlanError: weights that do not fit the config.
    """
    check_free(model, overwrite=overwrite, source=folder)
    planned = plan_export(folder, options, weights)
    carry_out(planned.ready(), model, overwrite=overwrite, resume=resume, progress=progress)
    return Conversion(model, planned.config, planned)


def export_config(config: NativeConfig, model: Path, *, overwrite: bool = False) -> None:
    """Write the config.json of a model alone.

    Raises:
        MindportError: the folder exists or cannot be written.
    """
    with publish(model, overwrite=overwrite) as work:
        write_json(work / "config.json", to_hf(config.model))


def _as_saved(target: TensorMap, native: TensorMap, source: Checkpoint) -> TensorMap:
    """The target in the order of the safetensors package: wide elements first, then by name."""
    widths = {
        part: ITEM_SIZE[source[name].dtype]
        for name, stored in native.items()
        if name in source
        for part in stored.parts
    }

    def key(name: str) -> tuple[int, str]:
        return -widths.get(target[name].parts[0], 0), name

    return {name: target[name] for name in sorted(target, key=key)}
