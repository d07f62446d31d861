"""`VocabChange`: what became of the rows of a vocabulary, and the way back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

VOCAB_RULES = ("zeros", "mean", "normal", "source")
"""Initial values of new rows.

    zeros: all 0.
    mean: the mean of all old rows.
    normal: normal with the config's initializer_range; 0 for a bias.
    source: as `resize_token_embeddings` of transformers does by default: around the mean of the old rows, with a
        billionth of their covariance.
"""


MOST_ROWS = 1 << 26
"""Of a vocabulary; far above any real one."""


@dataclass(frozen=True)
class VocabChange:
    """What became of a vocabulary.

    Args:
        before, after: numbers of rows.
        rule: in VOCAB_RULES.
        mapping: new row -> old row, or None for a row with initial values; None: old rows keep their numbers.
    """

    before: int
    after: int
    rule: str
    mapping: tuple[int | None, ...] | None = None

    @cached_property
    def origins(self) -> tuple[int, ...]:
        """New row -> old row, or -1."""
        if self.mapping is None:
            return tuple(row if row < self.before else -1 for row in range(self.after))
        return tuple(-1 if row is None else row for row in self.mapping)

    def undone(self) -> VocabChange | None:
        """The way back; None where an old row is gone."""
        place = {row: number for number, row in enumerate(self.origins) if row >= 0}
        if len(place) < self.before:
            return None
        mapping = None if self.mapping is None else tuple(place[row] for row in range(self.before))
        return VocabChange(self.after, self.before, self.rule, mapping)

    def to_json(self) -> dict[str, Any]:
        """Its record in `ms_config.json`."""
        mapping = None if self.mapping is None else list(self.mapping)
        return {"before": self.before, "after": self.after, "rule": self.rule, "mapping": mapping}

    @staticmethod
    def from_json(record: Mapping[str, Any]) -> VocabChange:
        """From its record.

        Raises:
            KeyError, TypeError, ValueError: it is not one.
        """
        mapping = record["mapping"]
        change = VocabChange(
            int(record["before"]), int(record["after"]), record["rule"], None if mapping is None else tuple(mapping)
        )
        if (
            not 0 < change.after <= MOST_ROWS
            or change.rule not in VOCAB_RULES
            or len(change.origins) != change.after
            or max(change.origins) >= change.before
        ):
            raise ValueError(record)
        return change
