"""A converted folder against its source: the config field by field, the weights byte by byte."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from mindport.checkpoint.convert import METADATA, plan_conversion, weights_file
from mindport.checkpoint.execute import Reader, ckpt_pieces, safetensors_pieces
from mindport.checkpoint.plan import Plan
from mindport.config.native import FILE_NAME, read_native_config
from mindport.errors import MindportError
from mindport.i18n import tr


def check_folder(model: Path, folder: Path) -> None:
    """Make sure that a folder holds what converting the model would write, in config and weights.

    What a forward pass does not touch (most rows of an embedding, dropout rates, token ids) shows here.

    Raises:
        MindportError: the config or a weight differs, or something cannot be read.
        PlanError: the model itself does not fit together.
    """
    if not model.is_dir():
        raise MindportError(tr("{path} is not a folder.", path=model), tr("Give the Hugging Face model folder."))
    found = read_native_config(folder)
    kind, weights = weights_file(folder)
    wanted, plan = plan_conversion(model)
    differing = [
        field.name
        for field in fields(wanted.model.transformer)
        if getattr(wanted.model.transformer, field.name) != getattr(found.model.transformer, field.name)
    ]
    if not differing and found != wanted:
        differing = ["source"]
    if differing:
        raise MindportError(
            tr("{path} differs from the source in: {fields}.", path=folder / FILE_NAME, fields=", ".join(differing)),
            tr("Convert the model again, or compare it with the source it was made from."),
        )
    _check_weights(plan, weights, kind)


def _check_weights(plan: Plan, path: Path, kind: str) -> None:
    """Compare a weights file with what a conversion would write, in bounded memory.

    Raises:
        MindportError: a tensor differs.
    """
    with path.open("rb") as file, Reader(plan) as reader:
        pieces = ckpt_pieces(plan, reader) if kind == "ckpt" else safetensors_pieces(plan, reader, METADATA)
        for name, content in pieces:
            if file.read(len(content)) != bytes(content):
                raise _differs(path, name)
        if file.read(1):
            raise _differs(path, "")


def _differs(path: Path, tensor: str) -> MindportError:
    what = tr("{path} differs from the source in {name}.", path=path, name=tensor or tr("its list of tensors"))
    return MindportError(what, tr("Convert the model again, or compare it with the source it was made from."))
