"""Target -> Hugging Face, with the same engine."""

from __future__ import annotations

from pathlib import Path

from mindport.architectures.naming import spellings, tensor_map, tied_copies
from mindport.checkpoint.carry_out import Job, Progress, carry_out
from mindport.checkpoint.convert import Conversion, Planned, copy_side_files, no_progress
from mindport.checkpoint.dtypes import ITEM_SIZE, NAMES
from mindport.checkpoint.folder import find_weights
from mindport.checkpoint.options import PLAIN, Options
from mindport.checkpoint.plan import Problem, make_plan
from mindport.checkpoint.publish import check_free
from mindport.checkpoint.resize import Resize
from mindport.checkpoint.shards import indices, safetensors_files
from mindport.checkpoint.source import Checkpoint
from mindport.checkpoint.training_state import without_training_state
from mindport.config.hf import to_hf
from mindport.config.json_file import write_json
from mindport.config.native import NativeConfig, read_native_config
from mindport.layout import Stored, TensorMap
from mindport.schema import slots_of
from mindport.targets import NATIVE

METADATA = {"format": "pt"}
"""Of exported safetensors files: what transformers asks for."""


def plan_export(folder: Path, options: Options = PLAIN, weights: Path | None = None) -> Planned:
    """The plan to bring a native folder back to Hugging Face.

    Copies of tied weights that the source checkpoint held are written again, names in the source's spelling, tensors
    in the order in which the safetensors package would write them. A change of the vocabulary is undone where no row
    was lost. State of the optimizer and counters of a training checkpoint are left out.

    Args:
        folder: holds `ms_config.json`, and the weights unless they are given.
        weights: a file or folder with weights of the model, such as a training checkpoint.

    Raises:
        MindportError: something cannot be read.
    """
    config = read_native_config(folder)
    found = find_weights(weights or folder)
    before = config.model.transformer
    native = NATIVE.parameters(before)
    source, left_out = without_training_state(found.entries, native)
    undone = config.vocab.undone() if config.vocab and not options.keep_vocab else None
    changes: dict[str, object] = {"vocab_size": undone.after} if undone else {}
    if options.policy.default:
        changes["params_dtype"] = NAMES[options.policy.default]
    described = config.model.with_transformer(**changes)
    spelling = config.spelling or next(spellings(described.declaration, described.hf))
    copies = tied_copies(described.declaration, before, spelling)
    target = tensor_map(described.declaration, before, spelling)
    target.update({name: Stored((copies[name],)) for name in config.copies})
    plan = make_plan(
        source,
        native,
        _as_saved(target, native, source),
        slots_of(before),
        skipped=left_out,
        policy=options.policy,
        resize=Resize.of(undone, before),
        found=[Problem(name, what) for name, what in found.problems],
    )
    exported = NativeConfig(described, config.spelling, config.copies, None if undone else config.vocab)
    if plan.problems:
        return Planned(weights or folder, exported, found, plan, (), None)

    def finish(work: Path) -> None:
        write_json(work / "config.json", to_hf(described))
        copy_side_files(folder, work)

    options.policy.check_used(part for output in plan.outputs for part in output.stored.parts)
    files = safetensors_files(plan.outputs, METADATA, options.shard_bytes)
    job = Job(plan, files, indices(files, hugging_face=True), found.stamps, finish, {"options": options.to_json()})
    return Planned(folder, exported, found, plan, (), job)


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
