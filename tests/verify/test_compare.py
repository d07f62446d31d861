"""The comparison of two outputs, and what passes its gate."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mindport.verify.alignment import Alignment, Settings
from mindport.verify.compare import difference
from mindport.verify.gates import ACCEPTANCE, STRICT


def test_equal_arrays_pass() -> None:
    x = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
    found = difference("logits", x, x, scores=True)
    assert (found.max_abs, found.top1, found.top1_gap, found.positions) == (0.0, 1.0, 0.0, 5)
    assert found.cosine == pytest.approx(1.0)
    assert found.passes(STRICT)


def test_the_bound_grows_with_the_scale_above_one_only() -> None:
    for scale, bound in ((0.01, 2e-5), (1.0, 2e-5), (40.0, 8e-4)):
        reference = np.full((3, 4), scale)
        for error, passes in ((0.9 * bound, True), (1.1 * bound, False)):
            found = difference("x", reference + error, reference, scores=False)
            assert found.passes(STRICT) == passes, (scale, error)


def test_a_nan_passes_nothing() -> None:
    reference = np.ones((2, 3))
    for ours in (np.full((2, 3), np.nan), np.array([[1, 1, 1], [1, np.nan, 1]])):
        assert not difference("x", ours, reference, scores=True).passes(ACCEPTANCE)


def test_another_choice_fails_unless_it_is_a_tie() -> None:
    reference = np.array([[0.0, 1.0, 0.5]] * 4)
    tie, worse = reference.copy(), reference.copy()
    reference[0, 2] = 1.0 - 1e-6
    tie[0, 2] = 1.0 + 1e-6
    worse[0] = [0.0, 0.5, 1.0]
    found = difference("logits", tie, reference, scores=True)
    assert found.top1 == 0.75
    assert found.top1_gap == pytest.approx(1e-6)
    assert found.passes(STRICT)
    assert not difference("logits", worse, reference, scores=True).passes(ACCEPTANCE)


def test_shapes_have_to_agree() -> None:
    with pytest.raises(ValueError, match="shapes"):
        difference("x", np.ones((2, 3)), np.ones((2, 4)), scores=False)
    with pytest.raises(ValueError, match="shapes"):
        difference("x", np.ones((0, 3)), np.ones((0, 3)), scores=False)


@pytest.mark.parametrize(
    ("losses", "norms", "passes"),
    [
        ((3.0, 2.0), (1.0, 1.0), True),
        ((3.0, 2.0 + 2e-4), (1.0, 1.0), False),
        ((3.0, 2.0), (1.0, 1.002), False),
        ((3.0, math.nan), (1.0, 1.0), False),
        ((3.0, 2.0), (1.0, math.nan), False),
    ],
)
def test_alignment_gate(losses: tuple[float, ...], norms: tuple[float, ...], passes: bool) -> None:
    found = Alignment("causal_lm", Settings(steps=2), losses, (3.0, 2.0), norms, (1.0, 1.0))
    assert found.passes(STRICT) == passes


def test_weights_that_do_not_move_fail() -> None:
    still = (3.0, 3.0)
    assert not Alignment("causal_lm", Settings(steps=2), still, still, still, still).passes(STRICT)
