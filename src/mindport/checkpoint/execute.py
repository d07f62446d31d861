"""Carrying out a plan: bytes from the source into preallocated target files, by a few threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

from mindport.checkpoint.carry_out import Progress
from mindport.checkpoint.content import CHUNK, Content
from mindport.checkpoint.digest import Watch, digest_of, new_digest
from mindport.checkpoint.files import Files
from mindport.checkpoint.journal import Done, Journal
from mindport.checkpoint.plan import Plan
from mindport.checkpoint.shards import Placed, TargetFile

THREADS = 2
"""More are not faster where the disk is the limit."""

FLUSH = 64 << 20
"""Bytes after which the disk is told to begin."""


def execute(plan: Plan, folder: Path, files: Sequence[TargetFile], progress: Progress, journal: Journal) -> None:
    """Write weights files, flushed to disk. What the journal has as done is read again, and kept if it is as it says.

    Args:
        plan: says what the outputs are made of.
        folder: exists.
        files: to be written, all or this process's share.
        progress: called from several threads, one at a time.
        journal: is told of each tensor when it is written.

    Raises:
        MindportError: the source changed while it was read, or a value does not fit its dtype.
        OSError: the disk is full, or the target cannot be written.
    """
    with Files() as sources:
        run = _Run(plan, sources, progress, journal)
        for file in files:
            run.write(folder / file.name, file)


class _Run:
    def __init__(self, plan: Plan, sources: Files, progress: Progress, journal: Journal) -> None:
        self._plan = plan
        self._sources = sources
        self._progress = progress
        self._journal = journal
        self._lock = threading.Lock()
        self._stop = threading.Event()

    def write(self, path: Path, file: TargetFile) -> None:
        target = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if file.nbytes:
                os.posix_fallocate(target, 0, file.nbytes)  # a full disk shows now, and later writes are quicker
            os.truncate(target, file.nbytes)
            for offset, content in file.frames:
                _write_at(target, memoryview(content), offset)
            with _Flusher(target) as self._flusher:
                self._write_outputs(target, file.outputs)
            os.fsync(target)
        finally:
            os.close(target)

    def _write_outputs(self, target: int, outputs: Sequence[Placed]) -> None:
        waiting = iter(outputs)

        def work() -> None:
            watch = Watch()
            content = Content(self._plan, self._sources, watch.seen)
            copies = Content(self._plan, self._sources)
            while not self._stop.is_set():
                with self._lock:
                    placed = next(waiting, None)
                if placed is None:
                    return
                # A copy has the checksum of its source, so there is nothing to watch.
                copied = self._plan.copied(placed.output)
                self._write_output(target, placed, copies if copied else content, watch, copied)

        self._stop.clear()
        with ThreadPoolExecutor(THREADS) as pool:
            workers = [pool.submit(work) for _ in range(min(THREADS, len(outputs)))]
            try:
                for worker in workers:
                    worker.result()
            finally:
                self._stop.set()  # an error or an interrupt ends the others after their current chunk
                wait(workers)

    def _write_output(self, target: int, placed: Placed, content: Content, watch: Watch, copied: str | None) -> None:
        output = placed.output
        done = self._journal.done.get(output.name)
        if done and digest_of(read_places(target, placed)) == done.digest:
            self._count(output.nbytes)
            return
        digest = new_digest()
        places = _Places(placed)
        for chunk in content.chunks(output):
            if self._stop.is_set():
                return
            digest.update(chunk)
            for offset, part in places.of(chunk):
                _write_at(target, part, offset)
            self._count(len(chunk))
            self._flusher.wrote(len(chunk))
        if copied:
            seen = {copied: digest.hexdigest()}
        else:
            sources = {self._plan.slots[part][0] for part in output.stored.parts}
            seen = watch.complete(self._plan.source[name] for name in sources)
        with self._lock:
            self._journal.add(output.name, Done(digest.hexdigest(), seen))

    def _count(self, nbytes: int) -> None:
        with self._lock:
            self._progress(nbytes)


class _Flusher:
    """Brings a file to the disk in a thread of its own while more of it is written, so that the last flush is short."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._pool = ThreadPoolExecutor(1)
        self._running: Future[None] | None = None
        self._waiting = 0
        self._lock = threading.Lock()

    def __enter__(self) -> _Flusher:
        return self

    def __exit__(self, *exc: object) -> None:
        self._pool.shutdown()
        if self._running:
            self._running.result()  # the system tells of an error once, so the last flush would not see it

    def wrote(self, nbytes: int) -> None:
        """Bytes were written.

        Raises:
            OSError: earlier ones did not reach the disk.
        """
        with self._lock:
            self._waiting += nbytes
            if self._waiting >= FLUSH and (self._running is None or self._running.done()):
                if self._running:
                    self._running.result()
                self._running = self._pool.submit(os.fdatasync, self._file)
                self._waiting = 0


class _Places:
    """Where the next bytes of an output go."""

    def __init__(self, placed: Placed) -> None:
        self._left = [list(place) for place in placed.places]

    def of(self, chunk: memoryview) -> Iterator[tuple[int, memoryview]]:
        while chunk:
            offset, length = self._left[0]
            part, chunk = chunk[:length], chunk[length:]
            yield offset, part
            self._left[0] = [offset + len(part), length - len(part)]
            if not self._left[0][1]:
                self._left.pop(0)


def read_places(file: int, placed: Placed) -> Iterator[memoryview]:
    """The bytes of an output as they lie in its file; fewer where the file is shorter."""
    buffer = memoryview(bytearray(CHUNK))
    for offset, length in placed.places:
        end = offset + length
        while offset < end and (count := os.preadv(file, [buffer[: end - offset]], offset)):
            yield buffer[:count]
            offset += count


def _write_at(file: int, content: memoryview, offset: int) -> None:
    while content:
        count = os.pwrite(file, content, offset)
        content, offset = content[count:], offset + count
