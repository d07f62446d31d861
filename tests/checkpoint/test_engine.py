"""Any plan: what is written, and every checksum, is what numpy computes, whatever layouts, files, dtypes and chunks."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import event, given, settings
from hypothesis import strategies as st

from mindport.checkpoint import content, execute
from mindport.checkpoint.carry_out import Job, write_weights
from mindport.checkpoint.dtypes import FLOATS, numpy_dtype
from mindport.checkpoint.files import read
from mindport.checkpoint.folder import find_weights
from mindport.checkpoint.manifest import FILE_NAME
from mindport.checkpoint.plan import Plan, make_plan
from mindport.checkpoint.policy import KEEP, DtypePolicy
from mindport.checkpoint.recheck import check_manifest
from mindport.checkpoint.resize import Resize
from mindport.checkpoint.shards import ckpt_file, safetensors_files
from mindport.checkpoint.source import TensorEntry, stamp_of
from mindport.layout import Fuse, Stack, Stored, TensorMap, Transpose
from mindport.layout.ops import Operation, Shape
from mindport.schema import VOCAB_RULES, VocabChange

Arrays = dict[str, np.ndarray]

each_case = settings(max_examples=150, deadline=None)


# --- layouts ---------------------------------------------------------------------------------------------------------


def fits(op: Operation, shapes: list[Shape]) -> bool:
    """Whether an operation can be applied; that means to vectors and more, for all but stacking."""
    try:
        after = op.shapes(shapes) if isinstance(op, Stack) or all(shapes) else []
    except ValueError:
        return False
    return bool(after) and len(after[0]) < 5


@st.composite
def layouts(draw: st.DrawFn, shapes: dict[str, Shape], prefix: str) -> TensorMap:
    """All slots, joined at random: by any operations in any order that they allow."""
    left, result = list(draw(st.permutations(list(shapes)))), {}
    while left:
        parts = left[: draw(st.integers(1, len(left)))]
        ops: list[Operation] = []
        now = [shapes[part] for part in parts]
        while len(now) > 1 or (len(ops) < 4 and draw(st.booleans())):
            several = [Fuse(groups, of) for groups in (1, 2, 3) for of in (None, 1, 2, 3) if len(now) % (of or 1) == 0]
            possible = [op for op in (Transpose(), Stack(), *several) if fits(op, now)]
            if len(ops) > 3:  # come to an end
                possible = [op for op in possible if len(op.shapes(now)) < len(now)]
            if not possible:
                break
            ops.append(draw(st.sampled_from(possible)))
            now = ops[-1].shapes(now)
        if len(now) > 1:
            parts, ops = parts[:1], []
        result[f"{prefix}{len(result)}"] = Stored(tuple(parts), tuple(ops))
        left = left[len(parts) :]
    return result


@st.composite
def slots(draw: st.DrawFn) -> dict[str, Shape]:
    """Vectors, matrices and stacks of matrices that go together, and some that do not."""
    axes = draw(st.integers(0, 3))
    width = [draw(st.integers(1, 4)) for _ in range(max(0, axes - 1))]
    rows = draw(st.lists(st.sampled_from([0, 1, 2, 3, 6, 12]), min_size=1, max_size=2))
    names = [f"s{number}" for number in range(draw(st.integers(1, 7)))]
    shapes = {name: (draw(st.sampled_from(rows)), *width)[:axes] for name in names}
    if draw(st.booleans()):
        shapes["odd"] = draw(st.sampled_from([(), (5,), (2, 5), (2, 2, 2), (1, 1)]))
    return shapes


# --- files -----------------------------------------------------------------------------------------------------------


@dataclass
class Raw:
    """A file without a format: tensors lie in it as they like, and what else is in it is noise."""

    path: Path
    content: bytearray

    def put(self, draw: st.DrawFn, name: str, code: str, array: np.ndarray) -> TensorEntry:
        """Plain, in pieces, or a view of a larger storage."""
        kind = draw(st.sampled_from(["plain", "pieces", "view"]))
        if kind == "plain":
            return TensorEntry(name, code, array.shape, self.path, self._append(draw, array.tobytes()))
        if kind == "pieces":
            stored, pieces = array.tobytes(), []
            while stored:
                size = draw(st.integers(1, len(stored)))
                pieces.append((self._append(draw, stored[:size]), size))
                stored = stored[size:]
            first = pieces[0][0] if pieces else 0
            return TensorEntry(name, code, array.shape, self.path, first, pieces=tuple(pieces))
        order = draw(st.permutations(range(array.ndim)))
        before = [draw(st.integers(0, 2)) for _ in order]
        step = [draw(st.integers(1, 2)) for _ in order]
        larger = [b + n * s + draw(st.integers(0, 1)) for b, n, s in zip(before, array.shape, step, strict=True)]
        storage = np.full([larger[axis] for axis in order], 7, array.dtype)
        view = storage.transpose(np.argsort(order)) if order else storage
        for axis, (b, n, s) in enumerate(zip(before, array.shape, step, strict=True)):
            view = view[(slice(None),) * axis + (slice(b, b + n * s, s),)]
        view[...] = array
        start = view.__array_interface__["data"][0] - storage.__array_interface__["data"][0] if view.size else 0
        strides = tuple(stride // array.itemsize for stride in view.strides)
        return TensorEntry(
            name, code, array.shape, self.path, self._append(draw, storage.tobytes()) + start, strides=strides
        )

    def _append(self, draw: st.DrawFn, stored: bytes) -> int:
        self.content += b"\xa5" * draw(st.integers(0, 9))
        offset = len(self.content)
        self.content += stored
        return offset


@dataclass
class Case:
    """A plan, the values of its slots, and those of the source tensors."""

    plan: Plan
    slots: Arrays
    sources: Arrays


def any_values(shape: Shape, code: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, *shape])
    if code in FLOATS:
        return np.asarray(rng.standard_normal(shape), numpy_dtype(code))
    return np.asarray(rng.integers(0, 100, shape), numpy_dtype(code))


def planned(
    draw: st.DrawFn,
    folder: Path,
    shapes: dict[str, Shape],
    sides: tuple[TensorMap, TensorMap],
    codes: Sequence[str],
    policy: DtypePolicy = KEEP,
    resize: Resize | None = None,
) -> Case:
    """Write source files and plan over them; each source tensor has one of the dtypes."""
    values: Arrays = {}
    tensors: Arrays = {}
    entries: dict[str, TensorEntry] = {}
    files = [Raw(folder / f"{number}.raw", bytearray()) for number in range(draw(st.integers(1, 3)))]
    for name, stored in sides[0].items():
        code = draw(st.sampled_from(codes))
        values |= {part: any_values(shapes[part], code, len(values) + i) for i, part in enumerate(stored.parts)}
        tensors[name] = np.array(stored.join([values[part] for part in stored.parts]), order="C")
        entries[name] = draw(st.sampled_from(files)).put(draw, name, code, tensors[name])
    for file in files:
        file.path.write_bytes(file.content)
    return Case(make_plan(entries, *sides, shapes, policy=policy, resize=resize), values, tensors)


def carried_out(case: Case, folder: Path, kind: str = "safetensors", shard_bytes: int | None = None) -> Arrays:
    """What was written; the manifest's checksums, and the count of the progress, are compared here."""
    plan, counted = case.plan, []
    assert not plan.problems, plan.problems
    files = safetensors_files(plan.outputs, {}, shard_bytes)
    if kind == "ckpt":
        files = (ckpt_file(plan.outputs, "model.ckpt"),)
    folder.mkdir()
    write_weights(Job(plan, files, {}, {p: stamp_of(p) for p in plan.files}, lambda work: None), folder, counted.append)
    assert sum(counted) == plan.bytes_out, "progress must count every byte once"
    manifest = json.loads((folder / FILE_NAME).read_text())
    assert manifest["source"]["tensors"] == {n: xxhash.xxh3_128_hexdigest(a.tobytes()) for n, a in case.sources.items()}
    entries = {name: entry for file in files for name, entry in find_weights(folder / file.name).entries.items()}
    written = {name: read(entry) for name, entry in entries.items()}
    assert {output.name: (output.dtype, output.shape) for output in plan.outputs} == {
        name: (entry.dtype, entry.shape) for name, entry in entries.items()
    }
    digests = {name: digest for file in manifest["weights"].values() for name, digest in file["tensors"].items()}
    assert digests == {name: xxhash.xxh3_128_hexdigest(array.tobytes()) for name, array in written.items()}
    if len(files) == 1:
        check_manifest(folder)
    return written


def sized(draw: st.DrawFn, patch: pytest.MonkeyPatch, *, elements: int) -> None:
    """Small and odd sizes of everything that is done piece by piece; `elements`: pieces have a multiple of so many."""
    sizes = st.sampled_from([1, 3, 8, 25, 1 << 17])
    patch.setattr(content, "CHUNK", elements * draw(sizes))
    patch.setattr(content, "BLOCK", draw(st.sampled_from([1, 24, 100, 999, 1 << 20])))
    patch.setattr(content, "_LONG_RUN", draw(st.sampled_from([1, 8, 100, 1 << 16])))
    patch.setattr(execute, "THREADS", draw(st.integers(1, 4)))


@given(st.data())
@each_case
def test_any_layout_on_both_sides(data: st.DataObject) -> None:
    draw: Any = data.draw
    shapes = draw(slots())
    sides = draw(layouts(shapes, "in")), draw(layouts(shapes, "out"))
    code = draw(st.sampled_from(["F32", "BF16", "F64", "I8", "I64", "BOOL"]))
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        sized(draw, patch, elements=1)
        case = planned(draw, Path(place), shapes, sides, [code])
        kind = draw(st.sampled_from(["safetensors", "ckpt"]))
        limit = draw(st.sampled_from([None, 1, 100]))
        written = carried_out(case, Path(place) / "out", kind, limit)
    for name, stored in sides[1].items():
        event(f"{len(stored.parts)} parts, {[type(op).__name__ for op in stored.ops]}")
        assert written[name].tobytes() == stored.join([case.slots[part] for part in stored.parts]).tobytes(), name


@given(st.data())
@each_case
def test_any_layout_and_another_dtype(data: st.DataObject) -> None:
    """Each value is rounded by itself, so that it is the same before and after any layout."""
    draw: Any = data.draw
    shapes = draw(slots())
    sides = draw(layouts(shapes, "in")), draw(layouts(shapes, "out"))
    wanted = draw(st.sampled_from(FLOATS))
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        sized(draw, patch, elements=8)
        case = planned(draw, Path(place), shapes, sides, FLOATS, DtypePolicy(wanted))
        written = carried_out(case, Path(place) / "out")
    for name, stored in sides[1].items():
        parts = [case.slots[part].astype(numpy_dtype(wanted)) for part in stored.parts]
        assert written[name].tobytes() == stored.join(parts).tobytes(), name


# --- another vocabulary ----------------------------------------------------------------------------------------------


@st.composite
def changes(draw: st.DrawFn) -> VocabChange:
    before, rule = draw(st.integers(1, 12)), draw(st.sampled_from(VOCAB_RULES))
    if draw(st.booleans()):
        return VocabChange(before, draw(st.integers(1, 20)), rule)
    rows = draw(st.lists(st.none() | st.integers(0, before - 1), min_size=1, max_size=20))
    if draw(st.booleans()):  # so that it can be undone
        rows = list(draw(st.permutations([*rows[:5], *range(before)])))
    return VocabChange(before, len(rows), rule, tuple(rows))


@given(st.data())
@each_case
def test_another_vocabulary_and_back(data: st.DataObject) -> None:
    draw: Any = data.draw
    change, width = draw(changes()), draw(st.integers(1, 5))
    shapes: dict[str, Shape] = {"word.weight": (change.before, width), "word.bias": (change.before,), "other": (3, 2)}
    side: TensorMap = {name: Stored((name,)) for name in shapes}
    resize = Resize(change, frozenset(["word.weight", "word.bias"]), 0.02)
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        sized(draw, patch, elements=8)
        case = planned(draw, Path(place), shapes, (side, side), [draw(st.sampled_from(FLOATS))], resize=resize)
        written = carried_out(case, Path(place) / "there")
        assert written["other"].tobytes() == case.slots["other"].tobytes()
        for name in ("word.weight", "word.bias"):
            check_rows(change, case.slots[name], written[name], name)
        undone = change.undone()
        lost = {*range(change.before)} - {*change.origins}
        assert (undone is None) == bool(lost)
        if undone is None:
            return
        back = Resize(undone, resize.slots, resize.std)
        entries = find_weights(Path(place) / "there").entries
        after = {name: entries[name].shape for name in side}
        plan = make_plan(entries, side, side, after, resize=back)
        returned = carried_out(Case(plan, {}, written), Path(place) / "back")
    for name in side:
        assert returned[name].tobytes() == case.slots[name].tobytes()


def check_rows(change: VocabChange, old: np.ndarray, new: np.ndarray, name: str) -> None:
    """Rows of old tokens bit by bit, new ones as far as their rule determines them."""
    assert new.shape == (change.after, *old.shape[1:])
    for row, origin in enumerate(change.origins):
        if origin >= 0:
            assert new[row].tobytes() == old[origin].tobytes()
            continue
        value = new[row].astype(np.float64)
        assert np.isfinite(value).all()
        mean = old.astype(np.float64).mean(0)
        if change.rule == "zeros" or (change.rule == "normal" and name.endswith(".bias")):
            assert not value.any()
        elif change.rule == "normal":
            assert np.abs(value).max() < 0.02 * 6
            assert value.any()
        else:  # around the mean of the old rows; in the source's own distribution, by a thousandth of a percent
            assert np.allclose(value, mean, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("rule", VOCAB_RULES)
def test_new_rows_depend_on_nothing_but_their_number(tmp_path: Path, rule: str) -> None:
    """Not on how many there are, nor on how large the pieces are in which they are made."""
    old = any_values((40, 6), "F32", 1)
    (tmp_path / "raw").write_bytes(old.tobytes())
    entries = {"w": TensorEntry("w", "F32", (40, 6), tmp_path / "raw", 0)}
    side: TensorMap = {"w": Stored(("w",))}
    found = []
    for number, (after, block) in enumerate([(50, 1 << 20), (50, 30), (90, 1 << 20), (90, 100)]):
        resize = Resize(VocabChange(40, after, rule), frozenset("w"), 0.02)
        plan = make_plan(entries, side, side, {"w": (40, 6)}, resize=resize)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(content, "BLOCK", block)
            written = carried_out(Case(plan, {"w": old}, {"w": old}), tmp_path / str(number))
        found.append(written["w"][40:50])
    for other in found[1:]:
        assert np.allclose(found[0], other, rtol=1e-5, atol=1e-7)
    if rule in ("zeros", "normal"):
        assert all(other.tobytes() == found[0].tobytes() for other in found)
    if rule in ("normal", "source"):
        assert len({row.tobytes() for row in found[0]}) == 10
