"""From a plan to a finished folder: room, ranks, weights, checksums, publication."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from mindport.checkpoint.plan import Plan
from mindport.checkpoint.publish import Work, check_free, settled, unwritable, work_of
from mindport.checkpoint.ranks import Rank, rank_of
from mindport.checkpoint.shards import TargetFile
from mindport.checkpoint.source import Stamp, changed_while_reading, stamp_of
from mindport.config.json_file import write_json
from mindport.errors import MindportError
from mindport.i18n import tr

Progress = Callable[[int], None]
"""Called with the number of bytes just written."""


@dataclass(frozen=True)
class Job:
    """A folder to be written.

    Args:
        plan: what its weights are made of.
        files: its weights files.
        indices: index files besides: name -> JSON.
        stamps: of the source's files before their headers were read.
        finish: writes everything else into a folder: configuration, side files.
        notes: for the manifest.
        edited: names of files that are made to be edited, so that the manifest has no checksum of them.
    """

    plan: Plan
    files: tuple[TargetFile, ...]
    indices: Mapping[str, Mapping[str, Any]]
    stamps: Mapping[Path, Stamp]
    finish: Callable[[Path], None]
    notes: Mapping[str, Any] = field(default_factory=dict)
    edited: tuple[str, ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes of all weights files."""
        return sum(file.nbytes for file in self.files)

    @cached_property
    def fingerprint(self) -> str:
        """What tells this job from any other: source files, plan and layout of the target."""
        from mindport.checkpoint.digest import new_digest

        digest = new_digest()
        for path, stamp in sorted(self.stamps.items()):
            digest.update(repr((str(path.resolve()), stamp)).encode())
        digest.update(repr((self.plan.resize, self.notes)).encode())
        for file in self.files:
            digest.update(repr(file).encode())
        return digest.hexdigest()


def write_weights(job: Job, folder: Path, progress: Progress) -> None:
    """Write everything of a job into a folder that exists, alone and without resuming.

    Raises:
        MindportError: the source changed while it was read, or cannot be converted after all.
        OSError: the folder cannot be written.
    """
    _Writer(job, folder, Rank(0, 1, ""), progress).alone()


def carry_out(job: Job, folder: Path, *, overwrite: bool, resume: bool, progress: Progress) -> bool:
    """Write a folder; it appears when it is complete. Under a launcher, the ranks share the weights files.

    After an interrupt or a kill, the unfinished folder stays under its hidden name until the next run, which goes on
    where it ended (`resume`) or starts over.

    Returns:
        whether this process is the one that published the folder.

    Raises:
        MindportError: the folder exists or cannot be written, the source changed or cannot be converted after all,
            another rank failed, or what is to be resumed is another conversion.
    """
    rank = rank_of(os.environ)
    if rank is None:  # msrun's scheduler, which is started with the same command
        return False
    folder = settled(folder)
    with ExitStack() as stack:
        work: Work | None = None
        if rank.number == 0:
            for path in job.stamps:  # weights may lie elsewhere than the model, by a link or by an option
                check_free(folder, overwrite=overwrite, source=path)
            work = Work(folder, overwrite=overwrite)
            stack.push(_closing(work))
        try:
            from mindport.checkpoint.meeting import Meeting

            place = folder.with_name(f".{folder.name}.ranks")
            if work:
                kept = _to_keep(job, work.path) if resume else []
                check_room(job, folder, work.path)
                if rank.count == 1:  # of an earlier launch; ranks that are left of it find out by this
                    shutil.rmtree(place, ignore_errors=True)
                work.clear(kept)
            with Meeting(place, rank, job.fingerprint) as meeting:

                def moved(nbytes: int) -> None:
                    meeting.check()
                    progress(nbytes)

                writer = _Writer(job, work_of(folder), rank, moved)
                writer.share()
                meeting.done(writer.results())
                if work:
                    writer.finish(meeting.results())
                    work.publish()
                    meeting.finish()
                else:
                    meeting.wait()
        except OSError as error:
            raise unwritable(folder, error) from error
    return work is not None


def _closing(work: Work) -> Callable[..., None]:
    def close(kind: type[BaseException] | None, *_: object) -> None:
        from mindport.checkpoint.journal import any_done

        work.close(keep=kind is not None and may_go_on(kind) and any_done(work.path))

    return close


def may_go_on(kind: type[BaseException]) -> bool:
    """Whether a run that ended with this exception may be resumed. After an error, the same would happen again."""
    from mindport.checkpoint.meeting import RankGoneError

    return not issubclass(kind, Exception) or issubclass(kind, RankGoneError)


def check_room(job: Job, folder: Path, work: Path | None = None) -> None:
    """Refuse a target that does not fit on its disk.

    Raises:
        MindportError: it does not.
    """
    free = free_bytes(folder)
    there = sum(path.stat().st_blocks * 512 for path in work.glob("*") if path.is_file()) if work else 0
    if job.nbytes > free + there:
        raise MindportError(
            tr(
                "{folder} needs {needed:.1f} GB, and {free:.1f} GB are free on its disk.",
                folder=folder,
                needed=job.nbytes / 1e9,
                free=(free + there) / 1e9,
            ),
            tr("Free some space, or choose another folder."),
        )


def free_bytes(folder: Path) -> int:
    """Free bytes on the disk that a folder is or will be on."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    return shutil.disk_usage(existing).free


def _to_keep(job: Job, work: Path) -> list[str]:
    """Files of an unfinished folder from which the same job can go on: its weights and journals, nothing else.

    Raises:
        MindportError: it was begun by another job.
    """
    from mindport.checkpoint.journal import journals, plans_of

    plans = plans_of(work)
    if plans and job.fingerprint not in plans:
        raise MindportError(
            tr("The unfinished {folder} is another conversion, or its source has changed.", folder=work),
            tr("Run without --resume to start over."),
        )
    return [path.name for path in journals(work)] + [file.name for file in job.files] if plans else []


class _Writer:
    """One process's part of a job."""

    def __init__(self, job: Job, work: Path, rank: Rank, progress: Progress) -> None:
        self._job, self._work, self._rank, self._progress = job, work, rank, progress
        self._digests: dict[str, str] = {}
        self._sources: dict[str, str] = {}

    def alone(self) -> None:
        self.share()
        self.finish([self.results()])

    def share(self) -> None:
        """Write this rank's share of the weights files."""
        from mindport.checkpoint.copies import check_copies
        from mindport.checkpoint.execute import execute
        from mindport.checkpoint.journal import Journal

        if self._rank.number == 0:
            check_copies(self._job.plan)
        mine = _share(self._job.files, self._rank)
        journal = Journal(self._work, self._job.fingerprint, self._rank.number)
        try:
            execute(self._job.plan, self._work, mine, self._progress, journal)
        finally:
            journal.close()
        for file in mine:
            for placed in file.outputs:
                done = journal.done[placed.output.name]
                self._digests[placed.output.name] = done.digest
                self._sources.update(done.sources)

    def results(self) -> dict[str, Any]:
        """For rank 0, as JSON."""
        return {"digests": self._digests, "sources": self._sources}

    def finish(self, results: Sequence[Mapping[str, Any]]) -> None:
        """Write what is not weights, from the results of all ranks."""
        from mindport.checkpoint.content import Content
        from mindport.checkpoint.digest import parts_of, source_digests
        from mindport.checkpoint.files import Files
        from mindport.checkpoint.journal import remove_journals
        from mindport.checkpoint.manifest import write_manifest

        job = self._job
        digests = {name: digest for result in results for name, digest in result["digests"].items()}
        sources = {name: digest for result in results for name, digest in result["sources"].items()}
        with Files() as files:
            wanted = job.plan.used
            missing = [name for name, entry in wanted.items() if any(p.name not in sources for p in parts_of(entry))]
            sources |= source_digests(job.plan, Content(job.plan, files), missing)
        for path, stamp in job.stamps.items():
            if stamp_of(path) != stamp:
                raise changed_while_reading(path)
        job.finish(self._work)
        for name, index in job.indices.items():
            write_json(self._work / name, dict(index))
        write_manifest(self._work, job.plan, job.files, digests, sources, job.notes, job.edited)
        remove_journals(self._work)


def _share(files: Sequence[TargetFile], rank: Rank) -> list[TargetFile]:
    """A rank's files: the largest first, each to the rank that has least."""
    loads = [0] * rank.count
    mine = []
    for file in sorted(files, key=lambda file: (-file.nbytes, file.name)):
        least = loads.index(min(loads))
        loads[least] += max(1, file.nbytes)
        if least == rank.number:
            mine.append(file)
    return sorted(mine, key=lambda file: file.name)
