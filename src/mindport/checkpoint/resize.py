"""A vocabulary of another size: rows of embedding and head cut, padded or put in another order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mindport.errors import MindportError, brief
from mindport.i18n import tr
from mindport.layout import Stored
from mindport.layout.trace import Movement
from mindport.schema import MOST_ROWS, TransformerConfig, VocabChange, placed_slots

if TYPE_CHECKING:
    import numpy as np


def vocab_change(
    config: TransformerConfig,
    size: int | None,
    rule: str,
    mapping: Sequence[object] | None = None,
) -> VocabChange | None:
    """The change that was asked for, or None if there is none.

    Args:
        config: the source's.
        size: rows afterwards; None: as many as `mapping` has.
        rule: in `VOCAB_RULES`.
        mapping: new row -> old row, or None for a row with initial values.

    Raises:
        MindportError: a size or a row that cannot be, or a special token that would be gone.
    """
    before = config.vocab_size
    if mapping is None:
        if size is None or size == before:
            return None
        after = size
        if not 0 < after <= MOST_ROWS:
            raise MindportError(tr("A vocabulary cannot have {size} rows.", size=size))
        change = VocabChange(before, after, rule)
    else:
        after = len(mapping)
        if size not in (None, after):
            raise MindportError(
                tr("The vocabulary map has {count} entries, not {size}.", count=after, size=size),
                tr("Give one entry for each new row, or leave the size out."),
            )
        wrong = [row for row in mapping if row is not None and not (type(row) is int and 0 <= row < before)]
        if wrong or not mapping:
            raise MindportError(
                tr("The vocabulary map has an entry that is no row of the source: {row}.", row=brief(wrong[:1])),
                tr("Give a JSON array: for each new row a number from 0 to {last}, or null.", last=before - 1),
            )
        change = VocabChange(before, after, rule, tuple(row if isinstance(row, int) else None for row in mapping))
    _check_special(config, change)
    return change


def _check_special(config: TransformerConfig, change: VocabChange) -> None:
    """Special tokens are not renumbered, so each must keep its row."""
    ids: dict[str, Any] = {
        name: getattr(config, name)
        for name in ("bos_token_id", "eos_token_id", "pad_token_id", "embedding_padding_idx")
    }
    for name, value in ids.items():
        for number in value if isinstance(value, list) else [value]:
            if number is None or not 0 <= number < change.before:
                continue
            if number >= change.after or change.origins[number] != number:
                raise MindportError(
                    tr("{name} is {number}, and that row would be gone or another.", name=name, number=number),
                    tr("Keep the rows of special tokens, or change the ids in config.json first."),
                )


@dataclass(frozen=True)
class Resize:
    """A change of the vocabulary as a plan carries it out.

    Args:
        change: of the rows.
        slots: those with a row for each token.
        std: of normal initial values.
    """

    change: VocabChange
    slots: frozenset[str]
    std: float

    @staticmethod
    def of(change: VocabChange | None, config: TransformerConfig) -> Resize | None:
        """For the slots of a model, whose config may be that before or after."""
        if change is None:
            return None
        slots = frozenset(placed.name for placed in placed_slots(config) if placed.slot.per_token)
        return Resize(change, slots, config.init_method_std)

    def concerns(self, stored: Stored) -> bool:
        """Whether a tensor changes its number of rows."""
        concerned = any(part in self.slots for part in stored.parts)
        assert not concerned or (len(stored.parts) == 1 and not stored.ops), "rows of tokens are stored as they are"
        return concerned

    def moved(self, movement: Movement) -> Movement:
        """The movement with the new rows in place; those with initial values have the owner -1."""
        import numpy as np

        rows = np.array(self.change.origins)
        return replace(
            movement,
            units=replace(movement.units, shape=(rows.size, *movement.units.shape[1:])),
            owner=np.where(rows < 0, -1, movement.owner[rows]),
            unit=np.where(rows < 0, 0, movement.unit[rows]),
        )

    def new_rows(self, slot: str, numbers: np.ndarray, old: Iterator[np.ndarray], width: int) -> np.ndarray:
        """Initial values of new rows.

        Args:
            slot: whose rows they are.
            numbers: of the new rows; the values of a row depend on nothing else.
            old: blocks of all old rows in order, (rows, width); consumed only where the rule asks for them.
            width: elements of a row.

        Returns:
            float32, (rows, width).
        """
        import numpy as np

        rule = self.change.rule
        if rule == "normal" and slot.endswith(".bias"):
            rule = "zeros"
        result = np.zeros((numbers.size, width), np.float32)
        if rule == "zeros":
            return result
        generators = [np.random.default_rng([*slot.encode(), int(number)]) for number in numbers]
        if rule == "normal":
            for row, generator in zip(result, generators, strict=True):
                row[:] = generator.standard_normal(width, np.float32) * np.float32(self.std)
            return result
        total, count = np.zeros(width), 0
        spread, weight = np.zeros((numbers.size, width), np.float32), np.zeros((numbers.size, 1))
        for block in old:
            block = block.astype(np.float32, copy=False)
            total += block.sum(0, dtype=np.float64)
            count += len(block)
            if rule == "source":
                # Random combinations of the old rows, centred: exactly the distribution with their covariance, which
                # itself would be a matrix of width x width.
                noise = np.stack([generator.standard_normal(len(block), np.float32) for generator in generators])
                spread += noise @ block
                weight += noise.sum(1, keepdims=True, dtype=np.float64)
        mean = total / count
        result[:] = mean + (spread - weight * mean) * np.sqrt(1e-9 / count)
        return result
