"""Real processes that meet in a folder; some of them die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mindport.checkpoint.meeting import Meeting
from mindport.checkpoint.ranks import Rank
from mindport.errors import MindportError

SCRIPT = Path(__file__).with_name("rank.py")
PATIENCE = 2.0

Ranks = dict[int, "subprocess.Popen[str]"]


@contextmanager
def started(
    folder: Path, count: int, *actions: str, patience: float = PATIENCE, fingerprints: str = "", absent: int = -1
) -> Iterator[Ranks]:
    """The ranks, as Slurm would start them; ended at the end, whatever they do."""
    ranks = {}
    for number in range(count):
        if number == absent:
            continue
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "OMPI_"))}
        environment |= {"SLURM_PROCID": f"{number}", "SLURM_STEP_NUM_TASKS": f"{count}"}
        fingerprint = fingerprints[number] if fingerprints else "same"
        command = [sys.executable, SCRIPT, folder, fingerprint, str(patience), *actions]
        ranks[number] = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        yield ranks
    finally:
        for process in ranks.values():
            process.kill()
            process.communicate()


def said(ranks: Ranks) -> dict[int, dict[str, Any]]:
    """What each rank printed once it ended; {} if it printed nothing."""
    outputs = {number: process.communicate(timeout=30)[0] for number, process in ranks.items()}
    return {number: json.loads(output) if output else {} for number, output in outputs.items()}


def until(holds: Any) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("count", [2, 4])
def test_all_is_well(count: int, tmp_path: Path) -> None:
    folder = tmp_path / "out" / "meeting"
    with started(folder, count) as ranks:
        found = said(ranks)
    assert found[0]["results"] == [{"rank": number} for number in range(count)]
    assert {process.returncode for process in ranks.values()} == {0}
    assert len({rank["launch"] for rank in found.values()}) == 1
    assert not folder.exists()


def test_one_rank_alone_makes_no_folder(tmp_path: Path) -> None:
    with Meeting(tmp_path / "meeting", Rank(0, 1, ""), "x") as meeting:
        meeting.check()
        meeting.done(5)
        assert meeting.results() == [5]
        assert meeting.launch
        meeting.finish()
        meeting.wait()
        assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("state", ["", "done", "failed", "finished", "garbage"])
def test_leftovers_of_a_killed_launch(state: str, tmp_path: Path) -> None:
    """Boards as a launch leaves them that is killed as a whole, in any state, with another fingerprint."""
    with started(tmp_path, 3, "0:hang", fingerprints="ooo") as ranks:
        until(lambda: len([*tmp_path.glob("result.*")]) == 2)
        for process in ranks.values():
            process.kill()
    left = [*tmp_path.glob("rank.*")]
    assert len(left) == 3
    for path in left:
        if state:
            trouble = {"kind": "failed", "rank": 1, "message": "old", "fix": "old"}
            board = json.loads(path.read_text()) | {"state": state, "trouble": trouble}
            path.write_text('{"nonce"' if state == "garbage" else json.dumps(board))
    with started(tmp_path, 3, fingerprints="nnn") as ranks:
        found = said(ranks)
    assert found[0]["results"] == [{"rank": number} for number in range(3)]
    assert {process.returncode for process in ranks.values()} == {0}
    assert not tmp_path.exists()


@pytest.mark.parametrize("number", [0, 2])
def test_a_killed_rank_is_missed_by_all(number: int, tmp_path: Path) -> None:
    start = time.monotonic()
    with started(tmp_path / "meeting", 3, f"{number}:kill") as ranks:
        found = said(ranks)
    assert time.monotonic() - start < 5 * PATIENCE
    assert ranks[number].returncode == -signal.SIGKILL
    for other in {0, 1, 2} - {number}:
        assert ranks[other].returncode == 1
        assert found[other]["error"].startswith(f"Nothing was heard of rank {number} for 2 seconds.")
    assert (tmp_path / "meeting").exists() == (number == 0)


def test_rank_0_is_killed_while_it_publishes(tmp_path: Path) -> None:
    with started(tmp_path, 3, "publish:kill") as ranks:
        found = said(ranks)
    assert all("heard of rank 0" in found[number]["error"] for number in (1, 2))


def test_a_rank_that_is_killed_after_its_share_is_not_missed(tmp_path: Path) -> None:
    with started(tmp_path, 2, "publish:hang") as ranks:
        until(lambda: [*tmp_path.glob("result.1.*")])
        time.sleep(0.5)  # rank 0 reads it
        ranks[1].kill()
        time.sleep(1.5 * PATIENCE)
        assert ranks[0].poll() is None


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        ("refuse", "failed: No space is left. Free some."),
        ("crash", "failed: ValueError: wrong"),
        ("interrupt", "failed: It was interrupted."),
    ],
)
@pytest.mark.parametrize("who", ["0", "1", "publish"])
def test_a_failure_is_told_to_all(who: str, action: str, sentence: str, tmp_path: Path) -> None:
    number = 1 if who == "1" else 0
    with started(
        tmp_path / "meeting", 3, f"{who}:{action}", "2:hang" if who != "publish" else "2:", patience=20
    ) as ranks:
        found = said(ranks)
    for other in {0, 1, 2} - {number}:
        told = found[other]["error"]
        # Rank 0 does not wait for long when it is interrupted; who has not heard it by then finds the folder gone.
        assert told == f"Rank {number} {sentence}" or (action == "interrupt" and "was removed" in told)
    assert all(process.returncode for process in ranks.values())
    assert not (tmp_path / "meeting").exists()


def test_rank_0_leaves_a_failed_conversion_before_the_others(tmp_path: Path) -> None:
    """Launchers end everything as soon as one process has failed."""
    with started(tmp_path, 3, "1:refuse", "2:hang", patience=20) as ranks:
        found = said(ranks)
    assert found[0]["left"] < min(found[1]["left"], found[2]["left"])


def test_rank_0_leaves_after_the_others_have_stopped(tmp_path: Path) -> None:
    """What it clears up then, nobody writes into any more."""
    with started(tmp_path, 3, "1:refuse", "2:busy", patience=20) as ranks:
        found = said(ranks)
    assert found[0]["inside"] < found[2]["inside"] < found[0]["left"]


def test_different_fingerprints(tmp_path: Path) -> None:
    with started(tmp_path, 3, fingerprints="aba") as ranks:
        found = said(ranks)
    assert {rank["error"] for rank in found.values()} == {
        "Rank 1 was started on another model, or with other options, than rank 0. "
        "Start all ranks with the same command, and leave the model as it is."
    }


@pytest.mark.parametrize("absent", [0, 2])
def test_a_rank_that_does_not_come(absent: int, tmp_path: Path) -> None:
    with started(tmp_path / "meeting", 3, absent=absent) as ranks:
        found = said(ranks)
    for rank in found.values():
        assert rank["error"].startswith(f"Rank {absent} did not come within 2 seconds. Check that srun started all 3")


def test_all_are_stopped_for_longer_than_patience(tmp_path: Path) -> None:
    """A machine that sleeps, a file system that hangs: who could not listen does not accuse."""
    with started(tmp_path, 3, "1:busy") as ranks:
        until(lambda: [*tmp_path.glob("result.2.*")])
        for process in ranks.values():
            process.send_signal(signal.SIGSTOP)
        time.sleep(1.5 * PATIENCE)
        for process in ranks.values():
            process.send_signal(signal.SIGCONT)
        found = said(ranks)
    assert len(found[0]["results"]) == 3


def test_another_launch_takes_over(tmp_path: Path) -> None:
    with started(tmp_path, 2, "0:hang", patience=20) as older:
        until(lambda: [*tmp_path.glob("result.1.*")])
        with started(tmp_path, 2, patience=20) as newer:
            found = said(newer)
            assert found[0]["results"] == [{"rank": 0}, {"rank": 1}]
        ended = said(older)
    assert all("was removed, or another conversion took it over" in rank["error"] for rank in ended.values())


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(MindportError, match="could not be written"),
        Meeting(tmp_path / "file" / "x", Rank(1, 2, ""), ""),
    ):
        pass
