"""Carrying out the plans of tests: one weights file, without the folder around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from mindport.checkpoint.execute import execute
from mindport.checkpoint.journal import Journal, remove_journals
from mindport.checkpoint.plan import Plan
from mindport.checkpoint.shards import TargetFile, ckpt_file, safetensors_files


def files_of(plan: Plan, name: str, metadata: Mapping[str, str]) -> tuple[TargetFile, ...]:
    """The plan's weights in one file; a `.ckpt` if it is called so."""
    if name.endswith(".ckpt"):
        return (ckpt_file(plan.outputs, name),)
    (file,) = safetensors_files(plan.outputs, metadata)
    return (TargetFile(name, file.nbytes, file.frames, file.outputs),)


def write(
    plan: Plan,
    path: Path,
    progress: Callable[[int], None] = lambda count: None,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a plan's weights to one file."""
    journal = Journal(path.parent, "test", 0)
    try:
        execute(plan, path.parent, files_of(plan, path.name, metadata or {}), progress, journal)
    finally:
        journal.close()
        remove_journals(path.parent)
