"""Row movements: copying the traced runs gives what numpy's own join gives."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mindport.layout import Fuse, Stack, Stored, Transpose
from mindport.layout.ops import Shape
from mindport.layout.trace import Run, row_count, trace

PATIENT = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])

Sources = dict[str, tuple[str, int, Stored]]


def sources_of(tensors: dict[str, Stored]) -> Sources:
    """Slot -> (source tensor, its index among the tensor's parts, what the tensor is made of)."""
    return {part: (name, i, stored) for name, stored in tensors.items() for i, part in enumerate(stored.parts)}


def copied(runs: list[Run], tensors: dict[str, np.ndarray], width: int) -> np.ndarray:
    """What copying the runs gives, as rows."""
    rows = [tensors[run.tensor].reshape(-1, width)[run.start : run.start + run.rows] for run in runs]
    assert all(len(piece) == run.rows for piece, run in zip(rows, runs, strict=True))
    return np.concatenate(rows) if rows else np.zeros((0, width))


@st.composite
def layouts(draw: st.DrawFn) -> tuple[dict[str, Shape], dict[str, Stored], Stored]:
    """Slots, source tensors of one or more slots each, and a target tensor of some slots in some order."""
    rest = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    common = draw(st.sampled_from([1, 2, 3, 4, 6]))
    count = draw(st.integers(1, 5))
    slots: dict[str, Shape] = {f"s{i}": (common * draw(st.integers(1, 3)), *rest) for i in range(count)}
    divisors = [n for n in range(1, common + 1) if common % n == 0]
    names, tensors = list(slots), {}
    while names:
        take = draw(st.integers(1, len(names)))
        chosen, names = names[:take], names[take:]
        tensors[f"t{len(tensors)}"] = Stored(tuple(chosen), (Fuse(draw(st.sampled_from(divisors))),))
    wanted = draw(st.lists(st.sampled_from(list(slots)), min_size=1, max_size=count, unique=True))
    return slots, tensors, Stored(tuple(wanted), (Fuse(draw(st.sampled_from(divisors))),))


@given(layouts())
@PATIENT
def test_runs_are_what_numpy_joins(case: tuple[dict[str, Shape], dict[str, Stored], Stored]) -> None:
    slots, tensors, target = case
    rng = np.random.default_rng(0)
    values = {name: rng.standard_normal(shape) for name, shape in slots.items()}
    files = {name: stored.join([values[part] for part in stored.parts]) for name, stored in tensors.items()}
    wanted = target.join([values[part] for part in target.parts])
    runs = trace(target, sources_of(tensors), slots)
    assert runs is not None
    width = wanted.shape[-1] if wanted.ndim > 1 else 1
    assert np.array_equal(copied(runs, files, width).reshape(wanted.shape), wanted)


@given(layouts())
@PATIENT
def test_runs_are_as_long_as_they_can_be(case: tuple[dict[str, Shape], dict[str, Stored], Stored]) -> None:
    slots, tensors, target = case
    runs = trace(target, sources_of(tensors), slots)
    assert runs
    assert all(run.rows > 0 for run in runs)
    for before, after in pairwise(runs):
        assert (before.tensor, before.start + before.rows) != (after.tensor, after.start)


def test_a_renamed_tensor_is_one_run() -> None:
    tensors = {"file": Stored(("slot",))}
    assert trace(Stored(("slot",)), sources_of(tensors), {"slot": (6, 4)}) == [Run("file", 0, 6)]


def test_tensors_that_lie_end_to_end_are_not_merged() -> None:
    # Rows 0..1 of `b` come after rows 0..1 of `a`; a run must never cross from one file range to another.
    tensors = {"a": Stored(("x",)), "b": Stored(("y",))}
    runs = trace(Stored(("x", "y"), (Fuse(1),)), sources_of(tensors), {"x": (2, 3), "y": (2, 3)})
    assert runs == [Run("a", 0, 2), Run("b", 0, 2)]


def test_a_slice_of_a_fused_tensor() -> None:
    tensors = {"qkv": Stored(("q", "k", "v"), (Fuse(2),))}
    shapes: dict[str, Shape] = {"q": (8, 3), "k": (4, 3), "v": (4, 3)}
    assert trace(Stored(("k",)), sources_of(tensors), shapes) == [Run("qkv", 4, 2), Run("qkv", 12, 2)]


def test_rows_of_vectors_are_their_elements() -> None:
    tensors = {"b": Stored(("q", "k"), (Fuse(2),))}
    runs = trace(Stored(("q",)), sources_of(tensors), {"q": (4,), "k": (2,)})
    assert runs == [Run("b", 0, 2), Run("b", 3, 2)]


def test_a_transpose_on_either_side_is_not_a_row_movement() -> None:
    turned, plain = Stored(("s",), (Transpose(),)), Stored(("s",))
    shapes: dict[str, Shape] = {"s": (3, 2)}
    assert trace(turned, sources_of({"t": plain}), shapes) is None
    assert trace(plain, sources_of({"t": turned}), shapes) is None


def test_a_transpose_of_a_vector_is() -> None:
    assert trace(Stored(("s",)), sources_of({"t": Stored(("s",), (Fuse(1), Transpose()))}), {"s": (5,)}) == [
        Run("t", 0, 5)
    ]


def test_empty_tensors_have_no_runs() -> None:
    assert trace(Stored(("s",)), sources_of({"t": Stored(("s",))}), {"s": (0, 4)}) == []


def test_row_counts() -> None:
    assert [row_count(shape) for shape in [(), (5,), (5, 3), (2, 5, 3), (0, 3), (3, 0)]] == [1, 5, 5, 10, 0, 3]


def test_stacked_matrices_are_copied_one_after_the_other() -> None:
    tensors = {"a": Stored(("x",)), "b": Stored(("y",))}
    shapes: dict[str, Shape] = {"x": (2, 3), "y": (2, 3)}
    stack = Stored(("x", "y"), (Stack(),))
    assert trace(stack, sources_of(tensors), shapes) == [Run("a", 0, 2), Run("b", 0, 2)]
    assert trace(Stored(("y",)), sources_of({"s": stack}), shapes) == [Run("s", 2, 2)]


def test_a_pair_in_a_stack() -> None:
    # transformers 5: (expert, 2 * rows, hidden), gate rows and then up rows of each expert.
    fused = Stored(("g0", "u0", "g1", "u1"), (Fuse(of=2), Stack()))
    shapes: dict[str, Shape] = dict.fromkeys(("g0", "u0", "g1", "u1"), (2, 3))
    gates = Stored(("g0", "g1"), (Stack(),))
    assert trace(gates, sources_of({"file": fused}), shapes) == [Run("file", 0, 2), Run("file", 4, 2)]


def test_stacked_vectors_are_not_row_movements() -> None:
    shapes: dict[str, Shape] = {"x": (4,), "y": (4,)}
    assert trace(Stored(("x", "y"), (Stack(),)), sources_of({"a": Stored(("x",)), "b": Stored(("y",))}), shapes) is None
