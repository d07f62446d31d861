"""All problems of a plan in one error, layers collapsed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from mindport.checkpoint.implied import Implied, describe
from mindport.checkpoint.plan import MISSING, UNPLACED, Problem
from mindport.errors import MindportError
from mindport.i18n import tr

_SHOWN = 20

_NUMBER = re.compile(r"(?<=\.)(?:0|[1-9][0-9]{0,5})(?=\.)")
"""A layer index inside a tensor name, as transformers writes it."""

_MARK = "\x00"
"""Stands for the layer index while rows are compared."""


class PlanError(MindportError):
    """Config and checkpoint do not fit. `problems` holds every one of them."""

    def __init__(self, model: Path, problems: Sequence[Problem], found: Sequence[Implied] = ()) -> None:
        super().__init__(
            tr("{model}: config and checkpoint do not fit.", model=model) + f"\n{listed(collapse(problems), _SHOWN)}\n",
            _prefixed(problems) or describe(found) or tr("Compare config.json with the tensors it describes."),
        )
        self.problems = tuple(problems)


def listed(rows: Sequence[tuple[str, str]], most: int) -> str:
    """Lines of an error: the first rows of (name, what), and how many more there are."""
    lines = [f"  {name}: {what}" for name, what in rows[:most]]
    if len(rows) > most:
        lines.append("  " + tr("... and {count} more", count=len(rows) - most))
    return "\n".join(lines)


def _prefixed(problems: Sequence[Problem]) -> str:
    """What to do where one prefix is all that is wrong with the names; "" where it is not."""
    missing = {problem.tensor for problem in problems if problem.kind == MISSING}
    prefix = prefix_between({problem.tensor for problem in problems if problem.kind == UNPLACED}, missing)
    if not prefix:
        return ""
    return tr(
        "Every name begins with {prefix}: save the state dict of the model itself, without its wrapper.", prefix=prefix
    )


def prefix_between(longer: Collection[str], shorter: Collection[str]) -> str:
    """What has to stand before each of the shorter names to make it one of the longer; "" where nothing does it."""
    if not shorter:
        return ""
    first, known = max(shorter, key=len), set(longer)
    prefixes = (name.removesuffix(first) for name in longer if name.endswith(first))
    return next((prefix for prefix in prefixes if all(prefix + name in known for name in shorter)), "")


def collapse(problems: Sequence[Problem]) -> list[tuple[str, str]]:
    """(name, problem) with the numbers of like tensors gathered: `layers.{0..31}.mlp.up.weight`."""
    return collapse_names((problem.tensor, problem.what) for problem in problems)


def collapse_names(rows: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Rows of (tensor name, text) with the layer numbers of like rows gathered, in both columns."""
    groups: dict[tuple[str, str], list[int]] = {}
    for name, text in rows:
        if not name.isprintable():  # a name from a file must not write to the terminal
            name = repr(name)
        number = _NUMBER.search(name)
        if number:
            name = _NUMBER.sub(_MARK, name, count=1)
            text = re.sub(rf"(?<=\.){number.group()}(?=\.)", _MARK, text)
        groups.setdefault((name, text), []).extend([int(number.group())] if number else [])
    return [
        (name.replace(_MARK, _spans(numbers)), text.replace(_MARK, _spans(numbers)))
        for (name, text), numbers in groups.items()
    ]


def _spans(numbers: list[int]) -> str:
    """[0, 1, 2, 5] -> {0..2,5}; a single number stands alone."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    text = ",".join(f"{a}" if a == b else f"{a}..{b}" for a, b in spans)
    return text if len(numbers) == 1 else "{" + text + "}"
