"""Which process this is, by the environments that launchers make."""

from __future__ import annotations

import pytest

from mindport.checkpoint.ranks import Rank, rank_of
from mindport.errors import MindportError

MSRUN = {"MS_ROLE": "MS_WORKER", "MS_NODE_ID": "2", "MS_WORKER_NUM": "3", "RANK_ID": "2", "RANK_SIZE": "3"}
TORCHRUN = {"TORCHELASTIC_RUN_ID": "x", "RANK": "2", "WORLD_SIZE": "3"}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "3", "PMIX_RANK": "2"}
MPICH = {"PMI_RANK": "2", "PMI_SIZE": "3"}
SRUN = {"SLURM_PROCID": "2", "SLURM_NTASKS": "3", "SLURM_STEP_NUM_TASKS": "3"}
LAUNCHERS = {"msrun": MSRUN, "torchrun": TORCHRUN, "mpirun": OPEN_MPI, "mpiexec": MPICH, "srun": SRUN}

each_launcher = pytest.mark.parametrize("launcher", LAUNCHERS)


@each_launcher
def test_each_launcher(launcher: str) -> None:
    assert rank_of(LAUNCHERS[launcher]) == Rank(2, 3, launcher)


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"HOME": "/root"},
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "7"},  # a batch script
        {"RANK": "1", "WORLD_SIZE": "4"},
        {"RANK_ID": "1", "RANK_SIZE": "4"},
        {"MS_SIMULATION_LEVEL": "1", "MS_WORKER_NUM": "4", "RANK_SIZE": "4", "RANK_ID": "0"},  # msrun --sim_level
    ],
)
def test_one_process(environment: dict[str, str]) -> None:
    assert rank_of(environment) == Rank(0, 1, "")


def test_the_scheduler_of_msrun_has_no_rank() -> None:
    assert rank_of({"MS_ROLE": "MS_SCHED", "MS_WORKER_NUM": "3", "RANK_ID": "0", "RANK_SIZE": "3"}) is None


def test_workers_that_all_have_the_scheduler_s_rank() -> None:
    """What msrun sets on several nodes without --node_rank, on the first of them."""
    environment = {"MS_ROLE": "MS_WORKER", "MS_WORKER_NUM": "4", "RANK_ID": "0", "RANK_SIZE": "4"}
    with pytest.raises(MindportError, match="--node_rank"):
        rank_of(environment)


@pytest.mark.parametrize("outer", [OPEN_MPI, SRUN, MPICH])
def test_msrun_started_by_another(outer: dict[str, str]) -> None:
    nodes = {name: "1" if "RANK" in name or "PROCID" in name else "2" for name in outer}
    assert rank_of(nodes | MSRUN) == Rank(2, 3, "msrun")


def test_mpirun_started_by_slurm() -> None:
    """Open MPI's daemons are started by srun, one per node, as may be MPICH's."""
    daemon = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "PMI_RANK": "1", "PMI_SIZE": "2"}
    assert rank_of(daemon | OPEN_MPI) == Rank(2, 3, "mpirun")
    assert rank_of({"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"} | MPICH) == Rank(2, 3, "mpiexec")


NAMES = {
    "msrun": ("MS_NODE_ID", "MS_WORKER_NUM"),
    "torchrun": ("RANK", "WORLD_SIZE"),
    "mpirun": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    "mpiexec": ("PMI_RANK", "PMI_SIZE"),
    "srun": ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
}


@each_launcher
@pytest.mark.parametrize(
    ("number", "count"), [("3", "3"), ("0", "0"), ("-1", "3"), ("two", "3"), ("1", "3.0"), ("", "3"), ("0", "1_0")]
)
def test_values_that_say_nothing(launcher: str, number: str, count: str) -> None:
    environment = LAUNCHERS[launcher] | dict(zip(NAMES[launcher], (number, count), strict=True))
    with pytest.raises(MindportError, match=launcher) as caught:
        rank_of(environment)
    assert any(name in caught.value.message for name in NAMES[launcher])


@each_launcher
def test_a_number_that_is_missing(launcher: str) -> None:
    environment = {name: value for name, value in LAUNCHERS[launcher].items() if name != NAMES[launcher][0]}
    with pytest.raises(MindportError, match=launcher):
        rank_of(environment)


def test_a_role_that_is_unknown() -> None:
    with pytest.raises(MindportError, match="MS_ROLE is 'MS_PSERVER'"):
        rank_of(MSRUN | {"MS_ROLE": "MS_PSERVER"})
