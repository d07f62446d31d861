"""The real command line, killed at random times and interrupted; and ranks that are killed."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mindport.checkpoint.recheck import check_manifest

from .conftest import llama
from .killing import Place, Tree, tree


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Some 40 MB in one process of its own: long enough for a kill to hit anything."""
    folder = tmp_path_factory.mktemp("large")
    tiny = llama()
    rng = np.random.default_rng(1)
    vocab, hidden = 20000, 256
    widths = {8: hidden, 10: 600, 11: vocab, 12: 256, 6: 128}
    tensors = {n: rng.standard_normal([widths[d] for d in a.shape], np.float32) for n, a in tiny.tensors.items()}
    tiny.tensors = tensors
    tiny.config |= {"vocab_size": vocab, "hidden_size": hidden, "intermediate_size": 600, "head_dim": 64}
    source = tiny.save(folder / "hf", shards=3)
    (folder / "place").mkdir()
    out = folder / "place" / "out"
    run(source, out)
    wanted = tree(out)
    shutil.rmtree(out)
    subprocess.run([*COMMAND, source, "-o", out, "--shard-size", "4MB"], check=True, capture_output=True)
    return Place(source, out, wanted, tree(source), tree(out))


COMMAND = [sys.executable, "-m", "mindport", "convert"]
SHARDS = ["--shard-size", "8MB"]


def run(source: Path, out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, source, "-o", out, *SHARDS, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def started(place: Place, *options: str) -> subprocess.Popen[str]:
    command = [*map(str, (*COMMAND, place.source, "-o", place.out, *SHARDS, *options))]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def without_command(found: Tree) -> Tree:
    """Of the manifest, all but the command that was given."""
    manifest = json.loads(found["mindport_manifest.json"])
    manifest["made_by"].pop("command")
    return found | {"mindport_manifest.json": json.dumps(manifest).encode()}


def seconds_of(place: Place) -> tuple[float, float]:
    """Until a run begins to write, and until it has ended."""
    place.reset(overwrite=False)
    begin = time.perf_counter()
    process = started(place)
    work = place.out.with_name(".out.partial")
    while not work.exists() and process.poll() is None:
        time.sleep(0.001)
    writing = time.perf_counter() - begin
    assert process.wait(60) == 0
    return writing, time.perf_counter() - begin


def killed_at_any_time(place: Place, kills: int, seed: int) -> dict[str, int]:
    """Kill runs at random times, and see that another run ends well. What the kills found, counted.

    Too late are those that came when the process had ended; they killed nothing.
    """
    rng = random.Random(seed)
    writing, whole = seconds_of(place)
    found = {"before": 0, "unfinished": 0, "published": 0, "too late": 0}
    for kill in range(kills):
        overwrite = rng.random() < 0.5
        place.reset(overwrite=overwrite)
        process = started(place, *["--overwrite"] * overwrite)
        time.sleep(rng.uniform(0, whole) if kill % 4 == 0 else rng.uniform(writing * 0.9, whole))
        process.kill()
        code = process.wait(60)
        there = place.out.exists() and tree(place.out) != place.old
        unfinished = place.out.with_name(".out.partial").exists()
        found["too late" if code == 0 else "published" if there else "unfinished" if unfinished else "before"] += 1
        assert tree(place.source) == place.before, "the source is damaged"
        if there:
            check_manifest(place.out)
        elif overwrite:
            assert place.old in (tree(place.out), tree(place.out.with_name(".out.mindport-old")))
        done = run(place.source, place.out, *["--resume"] * (kill % 2), *["--overwrite"] * (overwrite or there))
        assert done.returncode == 0, done.stderr
        assert without_command(tree(place.out)) == without_command(place.wanted)
        assert list(place.out.parent.iterdir()) == [place.out]
    return found


def test_killed_at_any_time(large: Place) -> None:
    found = killed_at_any_time(large, 8, 1)
    assert sum(found.values()) == 8


@pytest.mark.slow
def test_killed_at_any_time_often(large: Place, capsys: pytest.CaptureFixture[str]) -> None:
    found = killed_at_any_time(large, 64, 2)
    tried = sum(found.values()) - found["too late"]
    assert tried >= 40
    assert found["unfinished"] >= 10
    with capsys.disabled():
        print(f"\nkills at random times: tried {tried}, lost 0 {found}")


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted(large: Place, sent: signal.Signals, code: int) -> None:
    large.reset(overwrite=False)
    process = started(large)
    work = large.out.with_name(".out.partial")
    while not (list(work.glob(".journal-0")) and (work / ".journal-0").stat().st_size > 100):
        assert process.poll() is None, "it was done before it could be interrupted"
        time.sleep(0.001)
    process.send_signal(sent)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert err.strip() == "The unfinished folder is kept: go on with --resume."
    assert not large.out.exists()
    done = run(large.source, large.out, "--resume")
    assert done.returncode == 0, done.stderr
    assert without_command(tree(large.out)) == without_command(large.wanted)
    assert list(large.out.parent.iterdir()) == [large.out]


def test_interrupted_before_anything_was_done(large: Place) -> None:
    large.reset(overwrite=False)
    process = started(large)
    time.sleep(0.15)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode in (143, -signal.SIGTERM)  # the latter: before Python has come to our code
    assert err == ""
    assert list(large.out.parent.iterdir()) == []


# --- one of several ranks --------------------------------------------------------------------------------------------

SCRIPT = Path(__file__).with_name("killing.py")


def ranked(place: Place, *options: str, victim: int, call: int) -> list[str]:
    """The command of each rank, one of which is killed."""
    words = (sys.executable, SCRIPT, f"{victim}:{call}", "convert", place.source, "-o", place.out)
    return [*map(str, words), "--shard-size", "4MB", *options]


def launched(place: Place, count: int, *options: str, victim: int = -1, call: int = 0) -> int:
    """Start ranks as mpirun does, and end all of them when one ends badly; how many ended well.

    Args:
        victim, call: the rank that is killed, and in which of its calls.
    """
    command, ranks = ranked(place, *options, victim=victim, call=call), []
    for number in range(count):
        environment = os.environ | {"OMPI_COMM_WORLD_RANK": str(number), "OMPI_COMM_WORLD_SIZE": str(count)}
        ranks.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
    try:
        while None in (codes := [rank.poll() for rank in ranks]) and not any(codes):
            time.sleep(0.01)
    finally:
        for rank in ranks:
            rank.kill()
        said = [rank.communicate(timeout=60)[0].decode() for rank in ranks]
    if victim < 0:
        assert codes == [0] * count, said
    else:
        assert ranks[victim].returncode == -signal.SIGKILL, said
    return sum(rank.returncode == 0 for rank in ranks)


@pytest.mark.parametrize(
    ("victim", "call", "after", "resume"),
    [(0, 40, 3, True), (1, 30, 2, True), (2, 20, 1, True), (2, 35, 4, True), (1, 25, 3, False)],
)
def test_a_rank_is_killed(large: Place, victim: int, call: int, after: int, resume: bool) -> None:
    """Nothing is published; another launch, with as many ranks or not, ends with the same bytes."""
    large.reset(overwrite=False)
    launched(large, 3, victim=victim, call=call)
    assert not large.out.exists()
    launched(large, after, *["--resume"] * resume)
    assert without_command(tree(large.out)) == without_command(large.old)
    assert tree(large.source) == large.before
    assert list(large.out.parent.iterdir()) == [large.out]


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1, 2])
def test_mpirun(large: Place, victim: int) -> None:
    found = shutil.which("mpirun")
    if not found:
        pytest.skip("mpirun is not installed")
    large.reset(overwrite=False)
    start = [found, "--allow-run-as-root", "--oversubscribe", "-n"]
    command = [*start, "3", *ranked(large, victim=victim, call=20)]
    assert subprocess.run(command, capture_output=True, timeout=120, check=False).returncode
    assert not large.out.exists()
    command = [*start, "2", *ranked(large, "--resume", victim=-1, call=0)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert without_command(tree(large.out)) == without_command(large.old)
    assert list(large.out.parent.iterdir()) == [large.out]


def test_a_rank_without_its_rank_0_keeps_others_out(large: Place) -> None:
    """Of a launch without a launcher, others may live on for a while; what they write must not end up elsewhere."""
    large.reset(overwrite=False)
    work = large.out.with_name(".out.partial")
    work.mkdir()
    (work / ".lock").touch()
    script = "import fcntl, sys, time; f = open(sys.argv[1], 'a'); fcntl.flock(f, 2); print(flush=True); time.sleep(60)"
    left = subprocess.Popen([sys.executable, "-c", script, str(work / ".journal-1")], stdout=subprocess.PIPE)
    try:
        assert left.stdout
        left.stdout.readline()
        done = run(large.source, large.out, "--resume")
        assert done.returncode == 1
        assert "Another process is writing" in done.stderr
        assert (work / ".journal-1").exists()
    finally:
        left.kill()
        left.communicate()
    assert run(large.source, large.out).returncode == 0
    assert list(large.out.parent.iterdir()) == [large.out]
