"""Plans: every problem is found before a weight is read, all of them at once, layers collapsed."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindport.checkpoint.plan import Problem, make_plan
from mindport.checkpoint.problems import PlanError, collapse, collapse_names
from mindport.checkpoint.source import Checkpoint, TensorEntry
from mindport.layout import Fuse, Stored, TensorMap, Transpose

SLOTS = {"q": (4, 3), "k": (2, 3), "out": (3, 4)}
SOURCE_MAP: TensorMap = {
    "file.q": Stored(("q",)),
    "file.k": Stored(("k",)),
    "file.out": Stored(("out",), (Transpose(),)),
}
TARGET_MAP: TensorMap = {"qk": Stored(("q", "k"), (Fuse(2),)), "o": Stored(("out",))}


def checkpoint(**changes: tuple[str, tuple[int, ...]] | None) -> Checkpoint:
    """The tensors of SOURCE_MAP; a keyword changes, adds or (None) removes one: `out=("F32", (4, 3))`."""
    described = {"q": ("F32", (4, 3)), "k": ("F32", (2, 3)), "out": ("F32", (4, 3)), **changes}
    entries = {}
    for offset, (name, info) in enumerate(described.items()):
        if info:
            entries[f"file.{name}"] = TensorEntry(f"file.{name}", *info, Path("x"), offset)
    return entries


def problems(source: Checkpoint, target: TensorMap = TARGET_MAP, **more: dict[str, str]) -> list[Problem]:
    plan = make_plan(source, SOURCE_MAP, target, SLOTS, **more)
    assert not (plan.problems and plan.outputs), "a plan with problems must not be carried out"
    return list(plan.problems)


def test_a_plan_without_problems() -> None:
    plan = make_plan(checkpoint(), SOURCE_MAP, TARGET_MAP, SLOTS)
    assert plan.problems == ()
    assert [(o.name, o.dtype, o.shape) for o in plan.outputs] == [("qk", "F32", (6, 3)), ("o", "F32", (3, 4))]
    assert plan.bytes_out == (6 * 3 + 3 * 4) * 4


def test_a_missing_tensor() -> None:
    assert problems(checkpoint(k=None)) == [Problem("file.k", "missing from the checkpoint")]


def test_a_parameter_that_nothing_fills() -> None:
    """A target's graph may have a weight that the source's files never have."""
    wanted = {**TARGET_MAP, "both": Stored(("q", "scale")), "bias": Stored(("bias",))}
    why = "nothing in the checkpoint fills it"
    assert problems(checkpoint(), wanted) == [Problem("both", why), Problem("bias", why)]
    missing = Problem("file.k", "missing from the checkpoint")  # said once, of the tensor, not of all it would fill
    assert problems(checkpoint(k=None)) == [missing]


def test_a_tensor_of_another_shape() -> None:
    # What the config implies is said in the file's own layout: (in, out) for a transposed tensor.
    found = problems(checkpoint(out=("F32", (3, 4))))
    assert found == [Problem("file.out", "has shape [3, 4], the config implies [4, 3]")]


def test_a_tensor_without_a_place() -> None:
    found = problems(checkpoint(lora=("F32", (1,))))
    assert found == [Problem("file.lora", "in the checkpoint, but the config gives it no place")]


def test_a_copy_of_another_shape() -> None:
    found = problems(checkpoint(copy=("F32", (3, 4))), copies={"file.copy": "q"})
    assert found == [Problem("file.copy", "has shape [3, 4], its twin has [4, 3]")]


def test_a_slot_the_target_has_no_place_for() -> None:
    found = problems(checkpoint(), {"qk": TARGET_MAP["qk"]})
    assert found == [Problem("out", "the target has no place for it")]


def test_parts_of_different_dtypes() -> None:
    found = make_plan(checkpoint(k=("BF16", (2, 3))), SOURCE_MAP, TARGET_MAP, SLOTS)
    assert found.problems == (Problem("qk", "its parts have different dtypes: ['bfloat16', 'float32']"),)


def test_dtypes_are_kept_tensor_by_tensor() -> None:
    plan = make_plan(checkpoint(out=("F16", (4, 3))), SOURCE_MAP, TARGET_MAP, SLOTS)
    assert [o.dtype for o in plan.outputs] == ["F32", "F16"]


def test_all_problems_at_once() -> None:
    source = checkpoint(q=None, k=("F32", (3, 2)), extra=("F32", (1,)), copy=("F32", (9,)))
    found = problems(source, {"o": TARGET_MAP["o"]}, copies={"file.copy": "out"})
    assert [problem.tensor for problem in found] == ["file.q", "file.k", "file.extra", "file.copy"]
    error = PlanError(Path("model"), found)
    assert error.problems == tuple(found)
    assert all(problem.tensor in str(error) and problem.what in str(error) for problem in found)


def test_what_is_skipped_and_what_is_a_copy_is_recorded_only_if_it_is_there() -> None:
    source = checkpoint(mask=("BOOL", (1,)), copy=("F32", (4, 3)))
    copies = {"file.copy": "q", "file.other": "k"}
    plan = make_plan(
        source, SOURCE_MAP, TARGET_MAP, SLOTS, copies=copies, skipped={"file.mask": "why", "file.none": "no"}
    )
    assert plan.problems == ()
    assert dict(plan.skipped) == {"file.mask": "why"}
    assert dict(plan.copies) == {"file.copy": "q"}


def test_a_tensor_that_is_needed_is_never_skipped() -> None:
    plan = make_plan(checkpoint(), SOURCE_MAP, TARGET_MAP, SLOTS, skipped={"file.q": "listed by another class"})
    assert not plan.skipped
    assert not plan.problems


# --- how problems are shown --------------------------------------------------------------------------------------


def test_layers_are_collapsed() -> None:
    rows = [Problem(f"layers.{n}.up", "missing") for n in (0, 1, 2, 5, 7, 8)] + [Problem("norm", "missing")]
    assert collapse(rows) == [("layers.{0..2,5,7..8}.up", "missing"), ("norm", "missing")]


def test_different_problems_are_not_collapsed() -> None:
    rows = [Problem("layers.0.up", "missing"), Problem("layers.1.up", "has shape [1]")]
    assert collapse(rows) == [("layers.0.up", "missing"), ("layers.1.up", "has shape [1]")]


def test_the_layer_number_is_collapsed_in_both_columns() -> None:
    rows = [(f"h.{n}.attn.c_attn", f"layer.{n}.q, layer.{n}.k") for n in range(12)]
    assert collapse_names(rows) == [("h.{0..11}.attn.c_attn", "layer.{0..11}.q, layer.{0..11}.k")]


def test_only_the_first_number_is_a_layer() -> None:
    rows = [(f"layers.{n}.experts.3.up", "missing") for n in range(2)]
    assert collapse_names(rows) == [("layers.{0..1}.experts.3.up", "missing")]


@pytest.mark.parametrize("name", ["a{}b", "layers.{}.x", "{0}", "a.1.{}", "layers.00.x", f"layers.{'9' * 5000}.x"])
def test_odd_names_survive(name: str) -> None:
    assert collapse_names([(name, "missing {}")]) == [(name, "missing {}")]


def test_a_long_list_is_cut() -> None:
    found = [Problem(f"tensor_{n}", "missing") for n in range(50)]
    text = str(PlanError(Path("model"), found))
    assert text.count("\n  tensor_") == 20
    assert "and 30 more" in text


def test_eighty_layers_are_one_line() -> None:
    text = str(PlanError(Path("model"), [Problem(f"layers.{n}.up", "missing") for n in range(80)]))
    assert text.count("\n  ") == 1
    assert "layers.{0..79}.up: missing" in text


def test_names_cannot_write_to_the_terminal() -> None:
    text = str(PlanError(Path("model"), [Problem("\x1b[2J\nerror: all is well", "missing")]))
    assert "\x1b" not in text
    assert "\nerror" not in text
