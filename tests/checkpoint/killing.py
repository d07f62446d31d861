"""Processes that are killed in the middle of a conversion, and what has to hold afterwards.

    killing.py RANK:NUMBER ARGUMENT ...

runs `mindport ARGUMENT ...`. If it is this rank, it is killed right before its call number NUMBER of those that change
something on the disk.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mindport.checkpoint.convert import convert
from mindport.checkpoint.options import Options
from mindport.checkpoint.recheck import check_manifest
from mindport.errors import MindportError

Tree = dict[str, bytes]

SHARDED = Options(shard_bytes=1500)

CALLS = (
    "posix_fallocate", "truncate", "ftruncate", "pwrite", "write", "fsync", "rename", "replace", "unlink", "rmdir",
    "mkdir", "chmod",
)  # fmt: skip
"""Of `os`: whatever changes something on the disk."""


class Killer:
    """Counts the calls of this process that change something on the disk, and kills it in one of them.

    Args:
        number: of the call, from 1; 0: none.
        half: what is to be written by that call is written by half before.
    """

    def __init__(self, number: int, *, half: bool = False) -> None:
        self.calls: list[str] = []
        self._number, self._half, self._lock = number, half, threading.Lock()

    def watch(self, put: Callable[[Any, str, Any], None] = setattr) -> None:
        """Take the place of these calls, for the rest of this process or as `put` does it."""
        for name in CALLS:
            put(os, name, self._watched(name, getattr(os, name)))
        put(pathlib.Path, "write_text", self._watched("write_text", pathlib.Path.write_text))
        put(shutil, "copyfile", self._watched("copyfile", shutil.copyfile))

    def _watched(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            with self._lock:
                self.calls.append(name)
                if len(self.calls) == self._number:
                    if self._half and name in ("pwrite", "write", "write_text"):
                        real(args[0], args[1][: len(args[1]) // 2], *args[2:], **kwargs)
                    os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        return call


def forked(action: Callable[[], object]) -> int:
    """Run something in a child process: 0 if it ended well, else the number of the signal that killed it.

    Raises:
        AssertionError: it raised an exception.
    """
    child = os.fork()
    if not child:
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the child raised an exception"
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def tree(folder: Path) -> Tree:
    """Every file below a folder, hidden ones included -> its content."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@dataclass
class Place:
    """A source, and what a conversion of it that nobody disturbed has written."""

    source: Path
    out: Path
    wanted: Tree
    before: Tree
    old: Tree

    def reset(self, *, overwrite: bool) -> None:
        """Nothing but the source; or a folder that was converted otherwise, to be replaced."""
        for path in self.out.parent.iterdir():
            shutil.rmtree(path)
        if overwrite:
            for name, content in self.old.items():
                (self.out / name).parent.mkdir(parents=True, exist_ok=True)
                (self.out / name).write_bytes(content)

    def check(self, *, overwrite: bool) -> bool:
        """What holds at any time, whatever was killed. Whether the new folder is there."""
        assert tree(self.source) == self.before, "the source is damaged"
        if not self.out.exists():
            if overwrite:
                assert tree(self.out.with_name(".out.mindport-old")) == self.old, "the old folder is lost"
            return False
        found = tree(self.out)
        if overwrite and found == self.old:
            return False
        found.pop(".lock", None)
        assert found == self.wanted, "a folder under the final name that is not complete"
        check_manifest(self.out)
        return True

    def goes_on(self, *, overwrite: bool, resume: bool, options: Options = SHARDED) -> None:
        """Another run ends with the same bytes, and leaves nothing else."""
        there = self.check(overwrite=overwrite)
        if there and not overwrite:
            with pytest.raises(MindportError, match="already exists"):
                convert(self.source, self.out, options, resume=resume)
            return
        convert(self.source, self.out, options, overwrite=overwrite, resume=resume)
        assert self.check(overwrite=overwrite)
        assert tree(self.out) == self.wanted
        assert list(self.out.parent.iterdir()) == [self.out]


def main() -> None:
    from mindport.cli.app import main as command

    rank, number = sys.argv.pop(1).split(":")
    sys.argv[0] = "mindport"
    if rank == os.environ["OMPI_COMM_WORLD_RANK"]:
        Killer(int(number)).watch()
    command()


if __name__ == "__main__":
    main()
