"""Memory: what there is, and what a process took."""

from __future__ import annotations

import resource
import sys
from pathlib import Path


def peak_mb() -> float:
    """Most memory that this process has held at once, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def available_bytes() -> int | None:
    """Memory that a process may still take, by the system and by the control groups this one is in; None where the
    system does not say."""
    bounds = [_of_system(), *(_of_group(*files) for files in _GROUPS)]
    known = [bound for bound in bounds if bound is not None]
    return min(known) if known else None


_GROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        "/sys/fs/cgroup/memory/memory.stat",
    ),
)
"""Limit, usage and what it consists of, in both versions of control groups, where a container sees its own."""


def _of_system() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return None


def _of_group(limit: str, usage: str, parts: str) -> int | None:
    try:
        most, taken = (int(Path(file).read_text(encoding="ascii")) for file in (limit, usage))
        lines = dict(line.split() for line in Path(parts).read_text(encoding="ascii").splitlines())
    except (OSError, ValueError):  # no such group, or "max"
        return None
    # Files that were read count as usage, and give way when memory is asked for.
    cached = int(lines.get("total_inactive_file", lines.get("inactive_file", 0)))
    return max(0, most - (taken - cached))
