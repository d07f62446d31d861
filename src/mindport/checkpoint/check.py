"""A converted folder against its source: the config field by field, the weights byte by byte."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from mindport.checkpoint.carry_out import Job
from mindport.checkpoint.content import Content
from mindport.checkpoint.convert import plan_conversion
from mindport.checkpoint.digest import digest_of
from mindport.checkpoint.execute import read_places
from mindport.checkpoint.files import Files
from mindport.checkpoint.folder import find_weights
from mindport.checkpoint.manifest import recorded_options
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
    find_weights(folder)  # a config alone is no converted model
    goal = None
    if found.destination:
        from mindport.checkpoint.goal import Goal  # MindFormers' tables

        goal = Goal.again(found.destination)
    planned = plan_conversion(model, recorded_options(folder, found.vocab), goal)
    job, wanted = planned.ready(), planned.config
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
    _check_weights(job, folder)


def _check_weights(job: Job, folder: Path) -> None:
    """Compare weights files with what a conversion would write, in bounded memory.

    Raises:
        MindportError: a tensor differs.
    """
    with Files() as files:
        content = Content(job.plan, files)
        for target in job.files:
            path = folder / target.name
            if not path.is_file() or path.stat().st_size != target.nbytes:
                raise _differs(path, "")
            with path.open("rb") as file:
                for offset, frame in target.frames:
                    file.seek(offset)
                    if file.read(len(frame)) != frame:
                        raise _differs(path, "")
                for placed in target.outputs:
                    written = digest_of(read_places(file.fileno(), placed))
                    if written != digest_of(content.chunks(placed.output)):
                        raise _differs(path, placed.output.name)


def _differs(path: Path, tensor: str) -> MindportError:
    what = tr("{path} differs from the source in {name}.", path=path, name=tensor or tr("its list of tensors"))
    return MindportError(what, tr("Convert the model again, or compare it with the source it was made from."))
