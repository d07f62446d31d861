"""The launchers themselves start the ranks of a meeting."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("rank.py")
BIN = Path(sys.executable).parent


def launched(command: list[Any], *arguments: Any) -> tuple[int, list[dict[str, Any]], str]:
    """Exit code, what the ranks said in order of their number, and all that was printed."""
    path = os.pathsep.join([str(BIN), os.environ["PATH"]])  # msrun starts whatever is called python
    done = subprocess.run(
        [str(word) for word in [*command, "python", SCRIPT, *arguments]],
        env=os.environ | {"PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    said = [json.loads(line) for line in re.findall(r"^\{.*\}$", done.stdout, re.MULTILINE)]
    return done.returncode, sorted(said, key=lambda rank: rank["rank"]), done.stdout


@pytest.fixture
def msrun(tmp_path: Path) -> list[Any]:
    if not (BIN / "msrun").exists():
        pytest.skip("msrun is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--worker_num=3", "--local_worker_num=3", f"--master_port={port}", "--join=True"]
    return [BIN / "msrun", *options, f"--log_dir={tmp_path / 'logs'}"]


@pytest.fixture
def mpirun() -> list[Any]:
    found = shutil.which("mpirun")
    if not found:
        pytest.skip("mpirun is not installed")
    return [found, "--allow-run-as-root", "--oversubscribe", "-n", "3"]


@pytest.mark.parametrize("launcher", ["msrun", "mpirun"])
def test_three_ranks(launcher: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    code, said, output = launched(request.getfixturevalue(launcher), tmp_path / "meeting", "x", 30)
    assert code == 0, output
    assert [rank["rank"] for rank in said] == [0, 1, 2], output
    assert said[0]["results"] == [{"rank": 0}, {"rank": 1}, {"rank": 2}]
    assert not any(rank["frameworks"] for rank in said)
    assert not (tmp_path / "meeting").exists()


@pytest.mark.parametrize("launcher", ["msrun", "mpirun"])
def test_a_rank_that_fails(launcher: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """The launcher ends them all then; rank 0 has had the time to say why, and to clear up."""
    code, said, output = launched(request.getfixturevalue(launcher), tmp_path / "meeting", "x", 30, "2:crash")
    assert code != 0
    assert said[0]["rank"] == 0, output
    assert said[0]["error"] == "Rank 2 failed: ValueError: wrong"
    assert "in act" in output, "the traceback of the rank that failed"
    assert not (tmp_path / "meeting").exists()


@pytest.mark.parametrize("launcher", ["msrun", "mpirun"])
def test_a_rank_that_is_killed(launcher: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """The launcher kills the others; the next launch is not disturbed by what they left."""
    command = request.getfixturevalue(launcher)
    code, _, output = launched(command, tmp_path / "meeting", "x", 30, "2:kill")
    assert code != 0, output
    code, said, output = launched(command, tmp_path / "meeting", "y", 30)
    assert code == 0, output
    assert said[0]["results"] == [{"rank": 0}, {"rank": 1}, {"rank": 2}]
