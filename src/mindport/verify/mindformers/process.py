"""Running a Python that is not ours, with Mindport's source lent to it, to its end or to the end of our patience."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.verify.mindformers.exchange import read_answer

_PACKAGE = Path(__file__).parents[2]

_OF_A_LAUNCHER = ("RANK_", "MS_ROLE", "MS_WORKER_NUM", "MS_SCHED_", "MS_NODE_ID", "MS_SIMULATION_LEVEL", "DEVICE_ID")
_NOT_FOR_OTHERS = ("PYTHONHOME", "PYTHONSTARTUP", "RUN_MODE", *_OF_A_LAUNCHER)
"""Starts of names of variables that mean this process, or a launch of several, and would be misunderstood."""

_LINES, _LONGEST = 5, 1000
"""Of what a process wrote last."""


def run(python: Path, who: str, exchange: Path, timeout: float) -> None:
    """Run `python -m mindport.verify.mindformers WHO EXCHANGE`, alone in its process group.

    Args:
        exchange: folder with the job; holds the answer afterwards, `WHO.log`, and whatever MindFormers leaves.
        timeout: seconds.

    Raises:
        MindportError: it fails, with its own sentence if it has one; it crashes, or takes too long.
    """
    command = [str(python), "-W", "ignore", "-m", "mindport.verify.mindformers", who, str(exchange)]
    log = exchange / f"{who}.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            cwd=exchange,
            env=_environment(exchange),
            start_new_session=True,
        )
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise MindportError(
                tr(
                    "{python} did not end within {seconds:.0f} s; it wrote last: {lines}",
                    python=python,
                    seconds=timeout,
                    lines=_last(log),
                ),
                tr("Give it more time with --timeout, or a smaller model."),
            ) from None
        finally:
            _end(process)
    if status:
        raise _failed(python, who, exchange, status, log)


def _failed(python: Path, who: str, exchange: Path, status: int, log: Path) -> MindportError:
    said = read_answer(exchange, who).get("error") if status == 1 else None
    if isinstance(said, dict) and isinstance(said.get("message"), str) and isinstance(said.get("fix"), str):
        return MindportError(said["message"], said["fix"])
    if status == -signal.SIGKILL:
        return MindportError(
            tr("{python} was killed, as happens when memory runs out.", python=python),
            tr("Free some memory, or verify a smaller model of the same kind."),
        )
    return MindportError(
        tr(
            "{python} crashed (status {status}); it wrote last: {lines}", python=python, status=status, lines=_last(log)
        ),
        tr("See whether that Python can import mindformers at all, or name another with --python."),
    )


def _environment(exchange: Path) -> dict[str, str]:
    """Variables of the process: Mindport's package alone on the way of imports, and not what lies beside it, which is
    made for another Python."""
    lent = exchange / "source"
    lent.mkdir(exist_ok=True)
    if not (lent / _PACKAGE.name).exists():
        (lent / _PACKAGE.name).symlink_to(_PACKAGE)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_FOR_OTHERS)}
    path = os.pathsep.join([str(lent), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**kept, "PYTHONPATH": path, "LOCAL_DEFAULT_PATH": str(exchange / "logs")}


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and all that it has started, if it has not ended."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def last_lines(content: bytes) -> str:
    """The end of what a process wrote, as one line."""
    lines = [" ".join(line.split()) for line in content.decode("utf-8", "replace").splitlines()]
    return " | ".join([line for line in lines if line][-_LINES:])[-_LONGEST:] or "-"


def _last(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 8 * _LONGEST))
        return last_lines(file.read())
