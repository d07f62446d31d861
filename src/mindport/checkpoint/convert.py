"""Whole folders: Hugging Face -> target (`convert`) and target -> Hugging Face (`export`), with one engine."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from mindport.architectures.naming import skipped_tensors, spellings, tensor_map, tied_copies
from mindport.checkpoint import safetensors
from mindport.checkpoint.copies import check_copies
from mindport.checkpoint.dtypes import ITEM_SIZE
from mindport.checkpoint.execute import Progress, write_ckpt, write_safetensors
from mindport.checkpoint.match import spelling_of, with_optional_parts
from mindport.checkpoint.plan import Plan, make_plan
from mindport.checkpoint.problems import PlanError
from mindport.checkpoint.publish import check_free, publish
from mindport.checkpoint.source import Checkpoint
from mindport.config.hf import read_hf_config, to_hf
from mindport.config.json_file import write_json
from mindport.config.native import NativeConfig, read_native_config, write_native_config
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.layout import Stored, TensorMap
from mindport.schema import slots_of
from mindport.targets import NATIVE

WEIGHTS = {"safetensors": "model.safetensors", "ckpt": "model.ckpt"}
"""Format -> file name of converted weights."""

METADATA = {"format": "ms"}
"""Of a converted safetensors file."""

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
class Conversion:
    """What a conversion did.

    Args:
        folder: what was written.
        config: the native config written beside the weights.
        plan: what was carried out; None where only a config was converted.
        weights: name of the weights file; None likewise.
    """

    folder: Path
    config: NativeConfig
    plan: Plan | None
    weights: Path | None


def weights_file(folder: Path) -> tuple[str, Path]:
    """Format and path of a converted folder's weights.

    Raises:
        MindportError: there are none.
    """
    for kind, name in WEIGHTS.items():
        if (folder / name).is_file():
            return kind, folder / name
    raise MindportError(
        tr("{folder} holds no converted weights.", folder=folder),
        tr("Run `mindport convert` on the model folder first."),
    )


def _no_progress(_: int) -> None:
    pass


def plan_conversion(model: Path) -> tuple[NativeConfig, Plan]:
    """The plan to bring a Hugging Face folder to the native target, from its config and tensor headers alone.

    Raises:
        MindportError: something cannot be read or is not supported.
        PlanError: tensors without a place, missing or mis-shaped; all of them at once.
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
    source = safetensors.read_folder(model)
    spelling = spelling_of(described, source)
    described = with_optional_parts(described, spelling, source)
    declaration, config = described.declaration, described.transformer
    tensors = tensor_map(declaration, config, spelling)
    skipped = skipped_tensors(declaration, described.declared_class, config, spelling)
    copies = tied_copies(declaration, config, spelling)
    copies = {name: slot for name, slot in copies.items() if name not in skipped}
    if not config.tie_word_embeddings:
        for name in copies.keys() & source.keys():
            # Not tied, it may differ, and it is the one that counts where the class does not read the other.
            holder = next(n for n, stored in tensors.items() if copies[name] in stored.parts)
            if holder in skipped:
                tensors[name] = tensors.pop(holder)
    plan = make_plan(source, tensors, NATIVE.parameters(config), slots_of(config), copies=copies, skipped=skipped)
    if plan.problems:
        raise PlanError(model, plan.problems)
    return NativeConfig(described, spelling, tuple(plan.copies)), plan


def convert(
    model: Path,
    folder: Path,
    *,
    weights_format: str = "safetensors",
    overwrite: bool = False,
    progress: Progress = _no_progress,
) -> Conversion:
    """Convert a Hugging Face model folder, or a config.json alone, to the native target.

    Args:
        model: model folder, or a config.json.
        folder: to be written; it appears only when everything in it is complete.
        weights_format: "safetensors" or "ckpt".
        overwrite: replace an existing folder.
        progress: called with the number of bytes just written.

    Raises:
        MindportError: the model cannot be read, is not supported, or the folder cannot be written.
        PlanError: config and checkpoint do not fit.
    """
    check_free(folder, overwrite=overwrite, source=model)
    if not model.is_dir():
        config = NativeConfig(read_hf_config(model))
        with publish(folder, overwrite=overwrite) as work:
            write_native_config(work, config)
        return Conversion(folder, config, None, None)
    config, plan = plan_conversion(model)
    with publish(folder, overwrite=overwrite) as work:
        done = write_conversion(model, work, config, plan, weights_format, progress)
    return replace(done, folder=folder, weights=folder / WEIGHTS[weights_format])


def write_conversion(
    model: Path, folder: Path, config: NativeConfig, plan: Plan, weights_format: str, progress: Progress
) -> Conversion:
    """Carry out a plan of `plan_conversion` in a folder that exists and is empty. See `convert`."""
    check_copies(plan)
    weights = folder / WEIGHTS[weights_format]
    if weights_format == "ckpt":
        write_ckpt(plan, weights, progress)
    else:
        write_safetensors(plan, weights, progress, METADATA)
    write_native_config(folder, config)
    _copy_side_files(model, folder)
    return Conversion(folder, config, plan, weights)


def export(folder: Path, model: Path, *, overwrite: bool = False, progress: Progress = _no_progress) -> Conversion:
    """Write a native folder (safetensors weights) back as a Hugging Face folder.

    Copies of tied weights that the source checkpoint held are written again, names in the source's spelling, tensors
    in the order in which the safetensors package would write them.

    Raises:
        MindportError: the folder cannot be read, or the model cannot be written.
        PlanError: weights that do not fit the config.
    """
    check_free(model, overwrite=overwrite, source=folder)
    config = read_native_config(folder)
    described, transformer = config.model, config.model.transformer
    weights = folder / WEIGHTS["safetensors"]
    if not weights.is_file():
        raise MindportError(
            tr("{path} does not exist.", path=weights),
            tr("Convert the model with safetensors weights first."),
        )
    spelling = config.spelling or next(spellings(described.declaration, described.hf))
    copies = tied_copies(described.declaration, transformer, spelling)
    target = tensor_map(described.declaration, transformer, spelling)
    target.update({name: Stored((copies[name],)) for name in config.copies})
    source = safetensors.read_header(weights)
    native = NATIVE.parameters(transformer)
    plan = make_plan(source, native, _as_saved(target, native, source), slots_of(transformer))
    if plan.problems:
        raise PlanError(folder, plan.problems)
    with publish(model, overwrite=overwrite) as work:
        write_safetensors(plan, work / safetensors.SINGLE_FILE, progress, {"format": "pt"})
        write_json(work / "config.json", to_hf(described))
        _copy_side_files(folder, work)
    return Conversion(model, config, plan, model / safetensors.SINGLE_FILE)


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


def _copy_side_files(source: Path, folder: Path) -> None:
    for name in SIDE_FILES:
        if (source / name).is_file():
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(source / name, folder / name)
