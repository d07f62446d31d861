"""Which of several processes this is, by what its launcher put into the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from mindport.errors import MindportError, brief
from mindport.i18n import tr


@dataclass(frozen=True)
class Rank:
    """One of several processes that share a conversion.

    Attributes:
        number: which one, from 0.
        count: how many there are, this one included.
        launcher: the command that started them; "" where none did.
    """

    number: int
    count: int
    launcher: str


@dataclass(frozen=True)
class _Launcher:
    command: str
    mark: str
    """Only under this launcher this variable is set; none of the others means anything without it."""
    number: str
    count: str


# The first whose mark is set. A launcher that starts processes node by node (srun, mpirun) is often used to start, on
# each node, one that starts them core by core or device by device (mpirun, torchrun, msrun), and what it set stays in
# the environment of the latter's processes: there it counts nodes. So the inner ones come first. Two marks need a word:
#
# - SLURM_STEP_NUM_TASKS is that of a step, so of srun. A batch script has SLURM_PROCID and SLURM_NTASKS as well, but is
#   one process, which would wait for the others for ever.
# - RANK and WORLD_SIZE alone are left behind, or set for something else, too often to be believed without torchrun.
_LAUNCHERS = (
    _Launcher("msrun", "MS_ROLE", "MS_NODE_ID", "MS_WORKER_NUM"),
    _Launcher("torchrun", "TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE"),
    _Launcher("mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    _Launcher("mpiexec", "PMI_SIZE", "PMI_RANK", "PMI_SIZE"),
    _Launcher("srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)


def rank_of(environment: Mapping[str, str]) -> Rank | None:
    """The rank that a launcher gave this process: msrun, torchrun, Open MPI, MPICH or Intel MPI, or a Slurm step.

    Where one launcher was started by another, the inner one counts: srun and mpirun start msrun once per node.

    Args:
        environment: as `os.environ`.

    Returns:
        The rank; `Rank(0, 1, "")` without a launcher. None for the scheduler that msrun starts besides its workers with
        the same command: it has no share in the work, and has to end with exit code 0.

    Raises:
        MindportError: what the launcher set does not say which process this is.
    """
    launcher = next((launcher for launcher in _LAUNCHERS if launcher.mark in environment), None)
    if launcher is None:
        return Rank(0, 1, "")
    if launcher.command == "msrun":
        role = environment["MS_ROLE"]
        if role == "MS_SCHED":
            return None
        if role != "MS_WORKER":
            raise _unclear(launcher, "MS_ROLE", role)
        # RANK_ID must not be read instead: on the scheduler's node, workers without a rank have the scheduler's, 0.
        if launcher.number not in environment:
            raise MindportError(
                tr("msrun did not say which rank this process has."), tr("Give msrun --node_rank on every node.")
            )
    number, count = (_read(launcher, name, environment) for name in (launcher.number, launcher.count))
    if number >= count:
        raise _unclear(launcher, launcher.number, environment[launcher.number])
    return Rank(number, count, launcher.command)


def _read(launcher: _Launcher, name: str, environment: Mapping[str, str]) -> int:
    text = environment.get(name, "")
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise _unclear(launcher, name, text)
    return int(text)


def _unclear(launcher: _Launcher, name: str, value: str) -> MindportError:
    """Also where a variable is missing: its value is then ''."""
    return MindportError(
        tr("The environment is that of {launcher}, but {name} is {value}.", **_said(launcher, name, value)),
        tr("Start all processes with {launcher}; for a single one, unset {mark}.", **_said(launcher, name, value)),
    )


def _said(launcher: _Launcher, name: str, value: str) -> dict[str, str]:
    return {"launcher": launcher.command, "mark": launcher.mark, "name": name, "value": brief(value)}
