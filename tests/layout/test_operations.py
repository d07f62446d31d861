"""Layout operations: each is undone by its own inverse, and each does what its definition says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mindport.layout import Fuse, Stack, Stored, Transpose, dimension, evaluate
from mindport.layout.trace import Units, units_of

small = st.integers(1, 5)
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy


@st.composite
def fused(draw: st.DrawFn) -> tuple[int, list[tuple[int, ...]]]:
    """Groups, and shapes of parts whose rows divide into them: vectors, matrices, or more axes."""
    groups = draw(st.integers(1, 4))
    rest = tuple(draw(st.lists(small, max_size=2)))
    rows = draw(st.lists(st.integers(0, 4).map(lambda n: n * groups), min_size=1, max_size=4))
    return groups, [(n, *rest) for n in rows]


def numbered(shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    """Arrays whose elements are all different."""
    arrays, start = [], 0
    for shape in shapes:
        size = int(np.prod(shape))
        arrays.append(np.arange(start, start + size, dtype=np.float64).reshape(shape))
        start += size
    return arrays


def equal(ours: list[np.ndarray], theirs: list[np.ndarray]) -> bool:
    return len(ours) == len(theirs) and all(
        a.shape == b.shape and np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True)
    )


@given(fused())
@PATIENT
def test_fuse_is_undone_by_split(case: tuple[int, list[tuple[int, ...]]]) -> None:
    groups, shapes = case
    fuse, parts = Fuse(groups), numbered(shapes)
    whole = fuse.join(parts)
    assert [whole[0].shape] == fuse.shapes(shapes)
    assert equal(fuse.split(whole, shapes), parts)


@given(fused())
@PATIENT
def test_fuse_takes_the_rows_group_by_group(case: tuple[int, list[tuple[int, ...]]]) -> None:
    groups, shapes = case
    parts = numbered(shapes)
    wanted = []
    for group in range(groups):
        for part in parts:
            rows = len(part) // groups
            wanted += [part[group * rows + row] for row in range(rows)]
    (whole,) = Fuse(groups).join(parts)
    assert np.array_equal(whole, np.array(wanted).reshape(whole.shape))


@given(heads_per_group=small, groups=small, head=small, hidden=small)
@PATIENT
def test_fused_qkv_is_megatrons(heads_per_group: int, groups: int, head: int, hidden: int) -> None:
    """Row (g, i, d) of the whole: for i < heads_per_group query head g*heads_per_group+i, then key g, then value g."""
    query, key, value = numbered(
        [(groups * heads_per_group * head, hidden), (groups * head, hidden), (groups * head, hidden)]
    )
    sizes = SimpleNamespace(num_query_groups=groups)
    (whole,) = Fuse("num_query_groups").bind(sizes).join([query, key, value])
    width = heads_per_group + 2
    assert whole.shape == (groups * width * head, hidden)
    for g in range(groups):
        for i in range(width):
            for d in range(head):
                row = whole[(g * width + i) * head + d]
                if i < heads_per_group:
                    source = query[(g * heads_per_group + i) * head + d]
                else:
                    source = (key if i == heads_per_group else value)[g * head + d]
                assert np.array_equal(row, source)


def test_one_group_lays_the_parts_end_to_end() -> None:
    parts = numbered([(4, 3), (2, 3)])
    assert equal(Fuse().bind(None).join(parts), [np.concatenate(parts)])


def test_as_many_groups_as_rows_interleave() -> None:
    gate, up = numbered([(3, 2), (3, 2)])
    (whole,) = Fuse(3).join([gate, up])
    assert np.array_equal(whole[0::2], gate)
    assert np.array_equal(whole[1::2], up)


@pytest.mark.parametrize(
    ("groups", "shapes"),
    [(1, [(4, 3), (4, 2)]), (1, [(4,), (4, 1)]), (3, [(6, 2), (4, 2)]), (2, [(3,)])],
)
def test_fuse_refuses_parts_that_do_not_fit(groups: int, shapes: list[tuple[int, ...]]) -> None:
    with pytest.raises(ValueError, match=r"parts of one tensor differ|do not divide"):
        Fuse(groups).shapes(shapes)


@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=4), min_size=1, max_size=3))
@PATIENT
def test_transpose_swaps_the_last_two_axes_and_is_its_own_inverse(shapes: list[list[int]]) -> None:
    parts = numbered([tuple(shape) for shape in shapes])
    joined = Transpose().join(parts)
    assert [a.shape for a in joined] == Transpose().shapes([tuple(s) for s in shapes])
    for before, after in zip(parts, joined, strict=True):
        assert np.array_equal(after, np.moveaxis(before, -1, -2) if before.ndim > 1 else before)
    assert equal(Transpose().split(joined, [p.shape for p in parts]), parts)


@given(fused(), st.lists(st.sampled_from(["transpose", "fuse"]), max_size=3))
@PATIENT
def test_stored_is_undone_by_split(case: tuple[int, list[tuple[int, ...]]], more: list[str]) -> None:
    """Any sequence of operations; a Fuse of one part is allowed anywhere after the first."""
    groups, shapes = case
    ops: list[Any] = [Fuse(groups)]
    ops += [Transpose() if name == "transpose" else Fuse(1) for name in more]
    stored = Stored(tuple(f"part.{i}" for i in range(len(shapes))), tuple(ops))
    parts = numbered(shapes)
    whole = stored.join(parts)
    assert whole.shape == stored.shape(shapes)
    assert equal(stored.split(whole, shapes), parts)


def test_operations_keep_the_order_they_are_written_in() -> None:
    # GPT-2's attention: the three projections side by side, stored (in, out).
    query, key, value = numbered([(4, 3), (2, 3), (2, 3)])
    whole = Stored(("q", "k", "v"), (Fuse(), Transpose())).join([query, key, value])
    assert np.array_equal(whole, np.concatenate([query.T, key.T, value.T], axis=1))


def test_a_tensor_without_operations_is_its_part() -> None:
    array = np.arange(6.0).reshape(2, 3)
    stored = Stored(("only",))
    assert stored.shape([(2, 3)]) == (2, 3)
    assert stored.join([array]) is array
    assert stored.split(array, [(2, 3)])[0] is array


def test_split_gives_views_where_it_can() -> None:
    whole = np.zeros((8, 3))
    assert all(np.shares_memory(part, whole) for part in Fuse(1).split([whole], [(4, 3), (4, 3)]))
    assert np.shares_memory(Transpose().split([whole], [(3, 8)])[0], whole)


SIZES = SimpleNamespace(num_attention_heads=6, kv_channels=20, hidden_size=48)


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        ("hidden_size", (48,)),
        ("num_attention_heads*kv_channels, hidden_size", (120, 48)),
        (" 3 * hidden_size,2*2*2 , 1", (144, 8, 1)),
    ],
)
def test_symbolic_shapes(shape: str, wanted: tuple[int, ...]) -> None:
    assert evaluate(shape, SIZES) == wanted


@given(st.integers(0, 10**6), st.integers(0, 10**6))
@PATIENT
def test_dimensions_multiply(a: int, b: int) -> None:
    sizes = SimpleNamespace(a=a, b=b)
    assert dimension("a*b", sizes) == a * b == dimension(f"{a}*b", sizes)


@pytest.mark.parametrize("term", ["hiden_size", "hidden_size*", "-1", "2.5", "hidden size"])
def test_a_name_that_does_not_exist_is_a_mistake_in_the_declaration(term: str) -> None:
    with pytest.raises(AttributeError):
        dimension(term, SIZES)


def test_an_unbound_fuse_cannot_be_used() -> None:
    with pytest.raises(AssertionError, match="bind"):
        Fuse("num_query_groups").join([np.zeros((2, 2))])


@given(count=small, shape=st.lists(small, min_size=1, max_size=3))
@PATIENT
def test_stack_is_undone_by_split(count: int, shape: list[int]) -> None:
    shapes = [tuple(shape)] * count
    parts = numbered(shapes)
    whole = Stack().join(parts)
    assert [whole[0].shape] == Stack().shapes(shapes) == [(count, *shape)]
    assert all(np.array_equal(whole[0][i], part) for i, part in enumerate(parts))
    assert equal(Stack().split(whole, shapes), parts)


def test_only_equal_shapes_stack() -> None:
    with pytest.raises(ValueError, match="different shapes"):
        Stack().shapes([(2, 3), (3, 2)])


@given(experts=small, rows=small, hidden=small)
@PATIENT
def test_expert_stacks_interleave_gate_and_up(experts: int, rows: int, hidden: int) -> None:
    """GPT-OSS: (expert, hidden, 2 * rows), gate in the even columns and up in the odd ones."""
    gates, ups = numbered([(experts, rows, hidden)] * 2)
    stored = Stored(
        tuple(f"{part}{e}" for e in range(experts) for part in ("gate", "up")),
        (Fuse(rows, of=2), Transpose(), Stack()),
    )
    parts = [part[e] for e in range(experts) for part in (gates, ups)]
    shapes = [part.shape for part in parts]
    whole = stored.join(parts)
    assert whole.shape == stored.shape(shapes) == (experts, hidden, 2 * rows)
    assert np.array_equal(whole[..., ::2], gates.swapaxes(1, 2))
    assert np.array_equal(whole[..., 1::2], ups.swapaxes(1, 2))
    assert equal(stored.split(whole, shapes), parts)
    assert units_of(stored, shapes) == Units((experts, 1, 2 * rows), hidden, True)


def test_sets_must_be_whole() -> None:
    with pytest.raises(ValueError, match="sets of 2"):
        Fuse(of=2).shapes([(2, 3)] * 3)
