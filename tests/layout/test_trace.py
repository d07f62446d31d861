"""Movements of units: following them gives what numpy's own join gives."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mindport.layout import Fuse, Stack, Stored, Transpose
from mindport.layout.ops import Operation, Shape
from mindport.layout.trace import Movement, Units, trace, units_of

PATIENT = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])

Sources = dict[str, tuple[str, int, Stored]]
Run = tuple[str, int, int]


def sources_of(tensors: dict[str, Stored]) -> Sources:
    """Slot -> (source tensor, its index among the tensor's parts, what the tensor is made of)."""
    return {part: (name, i, stored) for name, stored in tensors.items() for i, part in enumerate(stored.parts)}


def as_units(array: np.ndarray, units: Units) -> np.ndarray:
    """A tensor as (units, elements)."""
    if units.columns:
        array = array.reshape(*units.shape[:-2], units.width, units.shape[-1]).swapaxes(-1, -2)
    return array.reshape(units.count, units.width)


def followed(movement: Movement, tensors: dict[str, np.ndarray]) -> np.ndarray:
    """What following a movement gives, as (units, elements)."""
    sources = [as_units(tensors[name], units) for name, units in movement.tensors]
    found = [sources[owner][unit] for owner, unit in zip(movement.owner, movement.unit, strict=True)]
    return np.stack(found) if found else np.zeros((0, movement.units.width))


def runs(movement: Movement | None) -> list[Run]:
    """(source tensor, first unit, how many)."""
    assert movement is not None
    assert [start for start, *_ in movement.runs()] == list(
        np.cumsum([0, *(count for *_, count in movement.runs())])[:-1]
    )
    return [(movement.tensors[owner][0], first, count) for _, owner, first, count in movement.runs()]


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


@given(layouts(), st.booleans(), st.booleans())
@PATIENT
def test_movements_are_what_numpy_joins(
    case: tuple[dict[str, Shape], dict[str, Stored], Stored], turned_source: bool, turned_target: bool
) -> None:
    slots, tensors, target = case
    turn: tuple[Operation, ...] = (Transpose(),)
    if turned_source:
        tensors = {name: Stored(stored.parts, stored.ops + turn) for name, stored in tensors.items()}
    if turned_target:
        target = Stored(target.parts, target.ops + turn)
    rng = np.random.default_rng(0)
    values = {name: rng.standard_normal(shape) for name, shape in slots.items()}
    files = {name: stored.join([values[part] for part in stored.parts]) for name, stored in tensors.items()}
    wanted = target.join([values[part] for part in target.parts])
    movement = trace(target, sources_of(tensors), slots)
    if movement is None:  # a fused matrix of more axes may have its rows broken up
        assert any(len(shape) > 2 for shape in slots.values())
        return
    assert np.array_equal(followed(movement, files), as_units(wanted, movement.units))


@given(layouts())
@PATIENT
def test_runs_are_as_long_as_they_can_be(case: tuple[dict[str, Shape], dict[str, Stored], Stored]) -> None:
    slots, tensors, target = case
    found = runs(trace(target, sources_of(tensors), slots))
    assert found
    assert all(count > 0 for _, _, count in found)
    for (tensor, start, count), (following, first, _) in pairwise(found):
        assert (tensor, start + count) != (following, first)


def test_a_renamed_tensor_is_one_run() -> None:
    tensors = {"file": Stored(("slot",))}
    assert runs(trace(Stored(("slot",)), sources_of(tensors), {"slot": (6, 4)})) == [("file", 0, 6)]


def test_tensors_that_lie_end_to_end_are_not_merged() -> None:
    # Rows 0..1 of `b` come after rows 0..1 of `a`; a run must never cross from one file range to another.
    tensors = {"a": Stored(("x",)), "b": Stored(("y",))}
    found = runs(trace(Stored(("x", "y"), (Fuse(1),)), sources_of(tensors), {"x": (2, 3), "y": (2, 3)}))
    assert found == [("a", 0, 2), ("b", 0, 2)]


def test_a_slice_of_a_fused_tensor() -> None:
    tensors = {"qkv": Stored(("q", "k", "v"), (Fuse(2),))}
    shapes: dict[str, Shape] = {"q": (8, 3), "k": (4, 3), "v": (4, 3)}
    assert runs(trace(Stored(("k",)), sources_of(tensors), shapes)) == [("qkv", 4, 2), ("qkv", 12, 2)]


def test_units_of_vectors_are_their_elements() -> None:
    tensors = {"b": Stored(("q", "k"), (Fuse(2),))}
    found = runs(trace(Stored(("q",)), sources_of(tensors), {"q": (4,), "k": (2,)}))
    assert found == [("b", 0, 2), ("b", 3, 2)]


def test_units_of_a_transposed_matrix_are_its_columns() -> None:
    turned, plain = Stored(("s",), (Transpose(),)), Stored(("s",))
    shapes: dict[str, Shape] = {"s": (3, 2)}
    assert units_of(turned, [(3, 2)]) == Units((1, 3), 2, True)
    for source, target in ((turned, plain), (plain, turned), (turned, turned)):
        assert runs(trace(target, sources_of({"t": source}), shapes)) == [("t", 0, 3)]


def test_columns_that_were_fused_in_groups_after_a_transpose_are_broken_up() -> None:
    stored = Stored(("x", "y"), (Transpose(), Fuse(2)))
    assert units_of(stored, [(3, 2), (3, 2)]) is None
    shapes: dict[str, Shape] = {"x": (3, 2), "y": (3, 2)}
    assert trace(stored, sources_of({"a": Stored(("x",)), "b": Stored(("y",))}), shapes) is None


def test_columns_of_matrices_that_lie_one_below_the_other() -> None:
    # As a stack of matrices; MindFormers holds the experts of a layer so: (expert * hidden, 2 * width).
    stored = Stored(("g0", "u0", "g1", "u1"), (Fuse(of=2), Transpose(), Fuse()))
    shapes: dict[str, Shape] = dict.fromkeys(("g0", "u0", "g1", "u1"), (3, 2))
    assert units_of(stored, list(shapes.values())) == Units((2, 1, 6), 2, True)
    plain = sources_of({f"file.{slot}": Stored((slot,)) for slot in shapes})
    assert runs(trace(stored, plain, shapes)) == [(f"file.{slot}", 0, 3) for slot in shapes]
    assert runs(trace(Stored(("u0",)), sources_of({"file": stored}), shapes)) == [("file", 3, 3)]
    stacked = Stored(tuple(shapes), (Fuse(of=2), Stack(), Transpose()))
    assert runs(trace(stacked, sources_of({"file": stored}), shapes)) == [("file", 0, 12)]
    values = {slot: np.random.default_rng(i).standard_normal((3, 2)) for i, slot in enumerate(shapes)}
    wanted = stored.join([values[slot] for slot in stored.parts])
    movement = trace(stored, plain, shapes)
    assert movement is not None
    found = followed(movement, {f"file.{slot}": value for slot, value in values.items()})
    assert np.array_equal(found, as_units(wanted, movement.units))


def test_matrices_without_elements_have_no_columns_to_move() -> None:
    assert units_of(Stored(("x", "y"), (Transpose(), Fuse())), [(3, 0), (3, 0)]) is None


def test_a_transpose_of_a_vector_is_none() -> None:
    movement = trace(Stored(("s",)), sources_of({"t": Stored(("s",), (Fuse(1), Transpose()))}), {"s": (5,)})
    assert runs(movement) == [("t", 0, 5)]


def test_empty_tensors_have_no_runs() -> None:
    assert runs(trace(Stored(("s",)), sources_of({"t": Stored(("s",))}), {"s": (0, 4)})) == []


def test_stacked_matrices_are_copied_one_after_the_other() -> None:
    tensors = {"a": Stored(("x",)), "b": Stored(("y",))}
    shapes: dict[str, Shape] = {"x": (2, 3), "y": (2, 3)}
    stack = Stored(("x", "y"), (Stack(),))
    assert runs(trace(stack, sources_of(tensors), shapes)) == [("a", 0, 2), ("b", 0, 2)]
    assert runs(trace(Stored(("y",)), sources_of({"s": stack}), shapes)) == [("s", 2, 2)]


def test_a_pair_in_a_stack() -> None:
    # transformers 5: (expert, 2 * rows, hidden), gate rows and then up rows of each expert.
    fused = Stored(("g0", "u0", "g1", "u1"), (Fuse(of=2), Stack()))
    shapes: dict[str, Shape] = dict.fromkeys(("g0", "u0", "g1", "u1"), (2, 3))
    gates = Stored(("g0", "g1"), (Stack(),))
    assert runs(trace(gates, sources_of({"file": fused}), shapes)) == [("file", 0, 2), ("file", 4, 2)]


def test_stacked_vectors_are_copied_one_after_the_other() -> None:
    shapes: dict[str, Shape] = {"x": (4,), "y": (4,)}
    movement = trace(Stored(("x", "y"), (Stack(),)), sources_of({"a": Stored(("x",)), "b": Stored(("y",))}), shapes)
    assert runs(movement) == [("a", 0, 4), ("b", 0, 4)]
