"""What the ranks of one conversion tell each other, by files in a shared folder alone.

Each rank has one file there, its board, which nobody else writes. A thread rewrites it every second, and reads those of
the others: rank 0 all, all others rank 0's.

**Leftovers.** What a launch left behind that was killed must not be taken for an answer. So each rank puts a nonce on
its board; rank 0 copies those it sees, together with the id of its launch; a rank that finds its own nonce there knows
that rank 0 is of now, and puts that id on its board, by which rank 0 knows that the rank is, too.

**Silence.** A rank is gone if its board stays the same for too long by the reader's own clock. The clocks of two
machines, and the times of files, are never compared.

**NFS.** Boards are replaced as a whole and opened by name; folders are never listed. A client may believe for a minute
that a name does not exist yet, unless it sees the folder change: each does, as it replaces its own board there.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from mindport.checkpoint.ranks import Rank

BEAT = 1.0
"""Seconds between two rewritings of a board."""

LISTEN = 0.25
"""Seconds after which a rank looks at the board of rank 0 again."""

EAGER = 0.1
"""The same of all ranks while there is nothing to do but wait."""

HURRY = 0.5
"""Seconds that an interrupted rank gives the others to hear of it. Launchers kill what does not end after a second."""

# What a board says of its rank. Rank 0: HERE, MET, then a verdict; any other: HERE, DONE or FAILED, LEFT.
HERE, MET, DONE, FAILED, FINISHED, LEFT = "here", "met", "done", "failed", "finished", "left"
VERDICTS = (FAILED, FINISHED)

SILENT, ABSENT, DIFFERS, LOST = "silent", "absent", "differs", "lost"
"""Kinds of trouble, besides FAILED."""

Trouble = dict[str, Any]
"""As it is passed on: `kind`, `rank` (whose), and of one that FAILED its `message` and `fix`."""


class Boards:
    """The board of this rank, and what is known from those of the others.

    Attributes:
        launch: the id of this launch; "" until it is known.
        results: of this rank and, in rank 0, of those that are DONE, by number.
        trouble: what went wrong first.
    """

    def __init__(self, folder: Path, rank: Rank, fingerprint: str, patience: float) -> None:
        self.launch = "" if rank.number else secrets.token_hex(8)
        self.results: dict[int, Any] = {}
        self.trouble: Trouble | None = None
        self._folder, self._me, self._patience = folder, rank.number, patience
        self._period = min(BEAT, patience / 8)
        self._others = [] if rank.count == 1 else [0] if rank.number else [*range(1, rank.count)]
        self._board: dict[str, Any] = {"state": HERE, "launch": self.launch, "nonces": {}}
        self._board |= {"nonce": secrets.token_hex(8), "about": {"count": rank.count, "fingerprint": fingerprint}}
        self._seen: dict[int, dict[str, Any]] = {}  # the last board of each other rank that has met us
        self._silence = dict.fromkeys(self._others, 0.0)  # seconds since it changed
        self._waiting = self._leaving = self._over = False
        self._news = threading.Condition()  # guards all of these; notified when they may have changed
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def open(self) -> None:
        """Start taking part.

        Raises:
            OSError: the folder cannot be made, or not be written.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        self._write(f"rank.{self._me}", self._board)
        self._thread.start()

    def lead(self) -> Any:
        """The state of rank 0, as far as it is known."""
        return (self._seen.get(0, {}) if self._me else self._board).get("state", HERE)

    def say(self, state: str, trouble: Trouble | None = None) -> None:
        """Tell it to the others, at once."""
        with self._news:
            self._board |= {"state": state, "trouble": trouble}
            self._wake.set()

    def tell(self, result: Any) -> None:
        """Put a result where rank 0 will read it once this rank says DONE.

        Raises:
            OSError: it cannot be written.
        """
        if self._me:
            self._write(self._result(self._me), {"result": result})
        self.results[self._me] = result

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds, or there is trouble."""
        with self._news:
            self._waiting = True
            self._wake.set()
            self._news.wait_for(lambda: self.trouble or holds())
            self._waiting = False

    def close(self, *, hurry: bool) -> None:
        """Give the others the time to hear the last word of this rank, and stop; rank 0 then removes the folder."""
        with self._news:
            self._waiting = self._leaving = True
            self._wake.set()
            self._news.wait_for(lambda: self._over, HURRY if hurry else self._patience)
            self._over = True
            self._wake.set()
        self._thread.join(self._patience)

    def until_removed(self) -> None:
        """In all but rank 0, after a verdict: wait until rank 0 has removed the folder."""
        end = time.monotonic() + self._patience
        while self._read("rank.0").get("launch") == self.launch and time.monotonic() < end:
            time.sleep(EAGER)

    def _run(self) -> None:
        try:
            lost = self._talk()
            if not self._me and not lost:
                shutil.rmtree(self._folder, ignore_errors=True)
        except Exception as error:  # a mistake of ours: better said than waited for
            self.trouble = {"kind": FAILED, "rank": self._me, "message": repr(error), "fix": ""}
            raise
        finally:
            with self._news:
                self._over = True
                self._news.notify_all()

    def _talk(self) -> bool:
        """Write and read until this rank has left; whether it lost its board."""
        written, then, lost = self._board, time.monotonic(), False
        while True:
            boards = {number: self._read(f"rank.{number}") for number in self._others}
            results = {number: self._read(self._result(number)) for number in self._unread()}
            # Capped: while this process was stopped, or its file system hung, it could not have heard anybody.
            now = time.monotonic()
            elapsed, then = min(now - then, 2 * self._period), now
            beat = int(now / self._period)
            lost = lost or (beat != written.get("beat") and self._lost())
            with self._news:
                for number in self._others:
                    self._note(number, boards[number], elapsed)
                self.results |= {number: found["result"] for number, found in results.items() if found}
                self._judge(lost)
                over = self._over or (self._leaving and (lost or self._heard()))
                if over and self._me:
                    self._board["state"] = LEFT
                board = {**self._board, "beat": beat}
                self._news.notify_all()
            if board != written and not lost:
                with suppress(OSError):  # tried again next time; should it last, the others find out
                    self._write(f"rank.{self._me}", board)
                    written = board
            if over:
                return lost
            self._wake.wait(min(self._period, EAGER if self._waiting else LISTEN if self._me else BEAT))
            self._wake.clear()

    def _note(self, number: int, board: dict[str, Any], elapsed: float) -> None:
        """Take in what was read of another rank; {} if nothing was."""
        if not self._me and board:
            self._board["nonces"] = {**self._board["nonces"], str(number): board.get("nonce")}
        elif not self.launch and board.get("nonces", {}).get(str(self._me)) == self._board["nonce"]:
            self.launch = self._board["launch"] = board["launch"]
        if self.launch and board.get("launch") == self.launch and board != self._seen.get(number):
            self._seen[number], self._silence[number] = board, 0.0
        else:
            self._silence[number] += elapsed

    def _unread(self) -> list[int]:
        """In rank 0, the ranks whose result is there to be read."""
        return [n for n, board in self._seen.items() if n and n not in self.results and board["state"] == DONE]

    def _judge(self, lost: bool) -> None:
        """See whether there is trouble, and, in rank 0, whether all have met."""
        if lost:
            self.trouble = self.trouble or {"kind": LOST}
        for number in self._others:
            self.trouble = self.trouble or self._trouble_with(number)
        if not self._me and not self.trouble and self.lead() == HERE and len(self._seen) == len(self._others):
            self._board["state"] = MET

    def _trouble_with(self, number: int) -> Trouble | None:
        board, silent = self._seen.get(number), self._silence[number] > self._patience
        if not self._me and number in self.results:  # whatever happens to it now, its share is done
            return None
        if board is None:
            return {"kind": ABSENT, "rank": number} if silent else None
        if number and board["about"] != self._board["about"]:
            return {"kind": DIFFERS, "rank": number}
        if board["state"] == FAILED:
            return dict(board["trouble"])
        return {"kind": SILENT, "rank": number} if silent and board["state"] != FINISHED else None

    def _heard(self) -> bool:
        """Whether all who still listen have heard how it ended."""
        if self._me:
            return self.lead() in VERDICTS or self._silence[0] > self._patience
        return all(
            self._seen.get(number, {}).get("state") == LEFT or self._silence[number] > self._patience
            for number in self._others
        )

    def _lost(self) -> bool:
        """Whether the board of this rank is gone, or another launch's."""
        found = self._read(f"rank.{self._me}")
        if found:
            return bool(found.get("nonce") != self._board["nonce"])
        try:
            os.stat(self._folder / f"rank.{self._me}")
        except FileNotFoundError:
            return True
        except OSError:
            pass
        return False

    def _result(self, number: int) -> str:
        return f"result.{number}.{self.launch}"

    def _read(self, name: str) -> dict[str, Any]:
        """What a file says; {} if it is not there, or no longer, or not as we write it."""
        try:
            found = json.loads((self._folder / name).read_bytes())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _write(self, name: str, content: dict[str, Any]) -> None:
        draft = self._folder / f".{name}.{self._board['nonce']}"
        draft.write_text(json.dumps(content), encoding="utf-8")
        os.replace(draft, self._folder / name)
