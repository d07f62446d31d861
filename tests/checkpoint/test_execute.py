"""Carrying out plans: some layouts spelled out. test_engine.py has any."""

from __future__ import annotations

import errno
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from mindport.checkpoint import execute, safetensors
from mindport.checkpoint.files import read
from mindport.checkpoint.plan import Plan, make_plan
from mindport.errors import MindportError
from mindport.layout import Fuse, Stored, TensorMap, Transpose
from mindport.layout.ops import Operation, Shape

from .writing import write

Arrays = dict[str, np.ndarray]


def write_source(path: Path, tensors: Arrays) -> None:
    """float32 arrays as a file, with a gap-free order of its own."""
    names = sorted(tensors, reverse=True)
    head, _ = safetensors.make_header([(name, "F32", tensors[name].shape) for name in names], {})
    path.write_bytes(head + b"".join(tensors[name].tobytes() for name in names))


def plan_of(folder: Path, sources: TensorMap, targets: TensorMap, slots: Arrays, files: int = 1) -> Plan:
    """A plan over real files that hold the slots' values as `sources` lay them out."""
    tensors = {name: stored.join([slots[part] for part in stored.parts]) for name, stored in sources.items()}
    entries = {}
    for number in range(files):
        path = folder / f"{number}.safetensors"
        write_source(path, {name: tensors[name] for i, name in enumerate(tensors) if i % files == number})
        entries.update(safetensors.read_header(path))
    plan = make_plan(entries, sources, targets, {name: array.shape for name, array in slots.items()})
    assert not plan.problems
    return plan


def carried_out(plan: Plan, path: Path) -> Arrays:
    counted: list[int] = []
    write(plan, path, counted.append, {"format": "ms"})
    assert sum(counted) == plan.bytes_out, "progress must count every byte once"
    return {name: read(entry) for name, entry in safetensors.read_header(path).items()}


def values(shapes: dict[str, Shape]) -> Arrays:
    rng = np.random.default_rng(3)
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


HEADS: dict[str, Shape] = {"q": (12, 5), "k": (4, 5), "v": (4, 5)}


def test_three_projections_become_one_per_group(tmp_path: Path) -> None:
    slots = values(HEADS)
    plan = plan_of(
        tmp_path, {n: Stored((n,)) for n in HEADS}, {"qkv": Stored(("q", "k", "v"), (Fuse(2),))}, slots, files=3
    )
    q, k, v = slots["q"], slots["k"], slots["v"]
    wanted = np.concatenate([q[:6], k[:2], v[:2], q[6:], k[2:], v[2:]])
    assert np.array_equal(carried_out(plan, tmp_path / "out")["qkv"], wanted)


def test_a_transposed_fused_source_becomes_three(tmp_path: Path) -> None:
    slots = values(HEADS)
    plan = plan_of(
        tmp_path,
        {"c_attn": Stored(("q", "k", "v"), (Fuse(), Transpose()))},
        {n: Stored((n,)) for n in HEADS},
        slots,
    )
    written = carried_out(plan, tmp_path / "out")
    assert all(np.array_equal(written[name], slots[name]) for name in HEADS)


def test_outputs_can_differ_in_dtype(tmp_path: Path) -> None:
    head, _ = safetensors.make_header([("half", "BF16", (2, 2)), ("whole", "I64", (1,))], {})
    content = bytes(range(16))
    (tmp_path / "in").write_bytes(head + content)
    entries = safetensors.read_header(tmp_path / "in")
    maps: TensorMap = {"half": Stored(("half",)), "whole": Stored(("whole",))}
    plan = make_plan(entries, maps, {"w": maps["whole"], "h": maps["half"]}, {"half": (2, 2), "whole": (1,)})
    write(plan, tmp_path / "out")
    assert (tmp_path / "out").read_bytes().endswith(content[8:] + content[:8])


def test_a_large_tensor_is_copied_in_bounded_memory(tmp_path: Path) -> None:
    path, rows = tmp_path / "in", 1 << 16
    head, _ = safetensors.make_header([("a", "F32", (rows, 128)), ("b", "F32", (rows, 128))], {})
    path.write_bytes(head)
    with path.open("r+b") as file:
        file.truncate(len(head) + 2 * rows * 512)  # 64 MB of zeros that take no space
    entries = safetensors.read_header(path)
    sources: TensorMap = {"a": Stored(("a",)), "b": Stored(("b",))}
    shapes: dict[str, Shape] = {"a": (rows, 128), "b": (rows, 128)}
    plan = make_plan(entries, sources, {"ab": Stored(("a", "b"), (Fuse(8),))}, shapes)
    tracemalloc.start()
    try:
        write(plan, tmp_path / "out")
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert (tmp_path / "out").stat().st_size > 64 << 20


def test_a_disk_that_fails_while_more_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slots = values(HEADS)
    plan = plan_of(tmp_path, {n: Stored((n,)) for n in HEADS}, {n: Stored((n,)) for n in HEADS}, slots)

    def fail(file: int) -> None:
        raise OSError(errno.EIO, "lost")

    monkeypatch.setattr(execute, "FLUSH", 1)
    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(OSError, match="lost"):
        write(plan, tmp_path / "out")


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("writer", ["safetensors", "ckpt"])
@pytest.mark.parametrize("event", ["shorter", "gone"])
def test_a_source_that_changes_after_planning(tmp_path: Path, transposed: bool, writer: str, event: str) -> None:
    slots = values({"s": (4, 4)})
    ops: tuple[Operation, ...] = (Transpose(),) if transposed else ()
    plan = plan_of(tmp_path, {"in": Stored(("s",), ops)}, {"out": Stored(("s",))}, slots)
    source = tmp_path / "0.safetensors"
    if event == "gone":
        source.unlink()
    else:
        source.write_bytes(source.read_bytes()[:-1])
    with pytest.raises(MindportError, match="changed while"):
        write(plan, tmp_path / f"out.{writer}")
