"""How several processes share one conversion: they meet, do their shares, and all know how it ended."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from mindport.checkpoint.boards import ABSENT, DIFFERS, DONE, FAILED, FINISHED, HERE, SILENT, VERDICTS, Boards, Trouble
from mindport.checkpoint.ranks import Rank
from mindport.errors import MindportError
from mindport.i18n import tr

LINGER = 1.0
"""Seconds that a rank stays after a conversion that failed. Launchers kill all ranks when one has ended with an error,
and rank 0 has to say what happened, and to clear up."""


class RankGoneError(MindportError):
    """A rank was interrupted, fell silent, did not come or has another job: nothing is wrong with what was done."""


class Meeting:
    """The ranks of one conversion, from when they have met until all know how it ended. One alone needs no folder.

    Use it as a context manager: inside it, every rank does its share and tells its result with `done`; rank 0 then
    takes all `results`, publishes, and says `finish`; the others `wait` for that. An exception inside the block is told
    to the others. When the block has ended in rank 0, no other rank is inside its own any more, or it is silent, or it
    did not `check` for as long as patience lasts.

    Args:
        folder: on a file system that all ranks share; made by the first and removed by rank 0.
        rank: of this process.
        fingerprint: of what is to be done; the same in all ranks.
        patience: seconds without a sign of a rank after which it counts as gone.

    Raises:
        MindportError: on entering, and from every method but `finish`: a rank failed, fell silent, did not come, or was
            started on something else; another launch uses the folder; or the folder cannot be written.
    """

    def __init__(self, folder: Path, rank: Rank, fingerprint: str, *, patience: float = 60.0) -> None:
        self._folder, self._rank, self._patience = folder, rank, patience
        self._boards = Boards(folder, rank, fingerprint, patience)

    @property
    def launch(self) -> str:
        """Inside the block, a word that all ranks share and no other launch has."""
        return self._boards.launch

    def __enter__(self) -> Meeting:
        if self._rank.count > 1:
            self._attempt(self._boards.open)
            try:
                self._until(lambda: self._boards.lead() != HERE)
            except BaseException as error:
                self._leave(error)
                raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._rank.count == 1:
            return
        try:
            if error is None and self._rank.number:
                self.wait()
            elif error is None:
                self.finish()
        except BaseException as late:
            error = late
            raise
        finally:
            self._leave(error)

    def check(self) -> None:
        """Raise if there is trouble. Reads nothing, so it may be called in any loop, and should be in a long one."""
        if self._boards.trouble:
            raise self._error(self._boards.trouble)

    def done(self, result: Any) -> None:
        """Tell rank 0 that this rank has done its share; `result` is anything that JSON can say."""
        self.check()
        self._attempt(lambda: self._boards.tell(result))
        if self._rank.number:
            self._boards.say(DONE)

    def results(self) -> list[Any]:
        """In rank 0, after `done`: what each rank told, in order. Waits for all of them."""
        self._until(lambda: len(self._boards.results) == self._rank.count)
        return [self._boards.results[number] for number in range(self._rank.count)]

    def finish(self) -> None:
        """In rank 0: tell the others that all is well and published."""
        self._boards.say(FINISHED)

    def wait(self) -> None:
        """In all others: wait until rank 0 says so."""
        self._until(lambda: not self._rank.number or self._boards.lead() == FINISHED)

    def _until(self, holds: Callable[[], bool]) -> None:
        self._boards.until(holds)
        self.check()

    def _leave(self, error: BaseException | None) -> None:
        if error is not None and self._boards.lead() != FINISHED:
            self._boards.say(FAILED, self._boards.trouble or self._told(error))
            if self._rank.number and isinstance(error, Exception) and not isinstance(error, MindportError):
                traceback.print_exception(error)  # a launcher may end this rank before anybody else can
        hurry = error is not None and not isinstance(error, Exception)  # somebody who interrupted it is waiting
        self._boards.close(hurry=hurry)
        if error is not None and not hurry and self._rank.number and self._boards.lead() in VERDICTS:
            self._boards.until_removed()
            time.sleep(min(LINGER, self._patience))

    def _told(self, error: BaseException) -> Trouble:
        """What the others are told of an exception."""
        if isinstance(error, MindportError):
            said = error.as_dict()
        elif isinstance(error, Exception):
            said = {"message": f"{type(error).__name__}: {error}", "fix": ""}
        else:
            said = {"message": tr("It was interrupted."), "fix": "", "interrupted": True}
        return {"kind": FAILED, "rank": self._rank.number, **said}

    def _error(self, trouble: Trouble) -> MindportError:
        """The same sentence in every rank."""
        kind, rank, seconds = trouble["kind"], trouble.get("rank"), f"{self._patience:g}"
        if kind == FAILED:
            said = tr("Rank {rank} failed: {message}", rank=rank, message=trouble["message"])
            return (RankGoneError if trouble.get("interrupted") else MindportError)(said, trouble["fix"])
        if kind == SILENT:
            said = tr("Nothing was heard of rank {rank} for {seconds} seconds.", rank=rank, seconds=seconds)
            return RankGoneError(said, tr("See in its output why it ended, then start all ranks again."))
        if kind == ABSENT:
            said = tr("Rank {rank} did not come within {seconds} seconds.", rank=rank, seconds=seconds)
            check = tr(
                "Check that {launcher} started all {count} ranks, and that all see {folder}.",
                launcher=self._rank.launcher,
                count=self._rank.count,
                folder=self._folder,
            )
            return RankGoneError(said, check)
        if kind == DIFFERS:
            said = tr("Rank {rank} was started on another model, or with other options, than rank 0.", rank=rank)
            return RankGoneError(said, tr("Start all ranks with the same command, and leave the model as it is."))
        said = tr("{folder} was removed, or another conversion took it over.", folder=self._folder)
        return RankGoneError(said, tr("Start all ranks again when none of an earlier start is left."))

    def _attempt(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            said = tr("{folder} could not be written: {error}.", folder=self._folder, error=error.strerror or error)
            raise MindportError(said, tr("Free some space, or choose another folder.")) from None
