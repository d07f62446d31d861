"""What a conversion will do, worked out from names and headers before a single weight is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path

from mindport.checkpoint.dtypes import ITEM_SIZE, NAMES
from mindport.checkpoint.policy import KEEP, DtypePolicy
from mindport.checkpoint.resize import Resize
from mindport.checkpoint.source import Checkpoint, TensorEntry
from mindport.i18n import tr
from mindport.layout import Stored, TensorMap
from mindport.layout.ops import Shape

SlotSource = tuple[str, int, Stored]
"""Source tensor, index of the slot among its parts, and what that tensor is made of."""


@dataclass(frozen=True)
class Output:
    """One tensor to write.

    Args:
        name, dtype, shape: as it will be written.
        stored: the slots it is made of.
    """

    name: str
    dtype: str
    shape: Shape
    stored: Stored

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * ITEM_SIZE[self.dtype]


MISSING, UNPLACED = "missing", "unplaced"


@dataclass(frozen=True)
class Problem:
    """Something that forbids the conversion.

    Args:
        tensor: whose problem it is.
        what: for people.
        kind: MISSING or UNPLACED, where it is one of these.
    """

    tensor: str
    what: str
    kind: str = field(default="", compare=False)


@dataclass(frozen=True)
class Plan:
    """All outputs in order, or the problems that forbid them.

    Args:
        source: the checkpoint to read.
        outputs: tensors to write, in order.
        slots: slot -> where its values come from.
        slot_shapes: slot -> shape in the source.
        copies: source tensors that must equal a slot -> that slot.
        skipped: source tensors left out -> reason.
        problems: if there are any, nothing may be written.
        resize: the change of the vocabulary, if any.
    """

    source: Checkpoint
    outputs: tuple[Output, ...]
    slots: Mapping[str, SlotSource]
    slot_shapes: Mapping[str, Shape]
    copies: Mapping[str, str]
    skipped: Mapping[str, str]
    problems: tuple[Problem, ...]
    resize: Resize | None = None

    def unresized(self) -> Plan:
        """The plan as the source has its vocabulary."""
        return replace(self, resize=None)

    def copied(self, output: Output) -> str | None:
        """The source tensor whose bytes an output is, unchanged and in full; None where it is something else."""
        (part, *others) = output.stored.parts
        name, _, stored = self.slots[part]
        whole = not others and not output.stored.ops and stored.parts == (part,) and not stored.ops
        entry = self.source[name]
        same = entry.plain and (entry.dtype, entry.shape) == (output.dtype, output.shape)
        resized = self.resize is not None and self.resize.concerns(output.stored)
        return name if whole and same and not resized else None

    @property
    def bytes_out(self) -> int:
        return sum(output.nbytes for output in self.outputs)

    @property
    def used(self) -> dict[str, TensorEntry]:
        """Source tensors that are read: all but those left out."""
        return {name: entry for name, entry in self.source.items() if name not in self.skipped}

    @property
    def bytes_in(self) -> int:
        """Stored bytes to read."""
        return sum(entry.stored_nbytes for entry in self.used.values())

    @property
    def files(self) -> list[Path]:
        """Files that are read."""
        scales = (entry.scales.factors.path for entry in self.used.values() if entry.scales)
        return sorted({*(entry.path for entry in self.used.values()), *scales})


def make_plan(
    source: Checkpoint,
    source_map: TensorMap,
    target_map: TensorMap,
    slot_shapes: Mapping[str, Shape],
    *,
    copies: Mapping[str, str] | None = None,
    skipped: Mapping[str, str] | None = None,
    policy: DtypePolicy = KEEP,
    resize: Resize | None = None,
    found: Iterable[Problem] = (),
) -> Plan:
    """Place every tensor of `source` and every tensor of the target, or say why not.

    Args:
        source: tensors that exist.
        source_map, target_map: what the tensors of each side are made of.
        slot_shapes: the model's slots, in the source's shapes.
        copies: names that may exist besides, as copies of a slot.
        skipped: names that may exist besides, to be left out -> reason.
        policy: dtypes of the outputs.
        resize: change of the vocabulary.
        found: problems that are known already.
    """
    copies = {name: slot for name, slot in (copies or {}).items() if name in source}
    skipped = {name: why for name, why in (skipped or {}).items() if name in source and name not in source_map}
    problems = list(found)

    def shape_of(stored: Stored) -> Shape:
        return stored.shape([slot_shapes[part] for part in stored.parts])

    slots: dict[str, SlotSource] = {}
    for name, stored in source_map.items():
        if name not in source:
            problems.append(Problem(name, tr("missing from the checkpoint"), MISSING))
        elif source[name].shape != shape_of(stored):
            problems.append(
                Problem(
                    name,
                    tr(
                        "has shape {found}, the config implies {wanted}",
                        found=list(source[name].shape),
                        wanted=list(shape_of(stored)),
                    ),
                )
            )
        else:
            slots.update({part: (name, i, stored) for i, part in enumerate(stored.parts)})
    for name in source:
        if name not in source_map and name not in copies and name not in skipped:
            problems.append(Problem(name, tr("in the checkpoint, but the config gives it no place"), UNPLACED))
    for name, slot in copies.items():
        if source[name].shape != slot_shapes[slot]:
            problems.append(
                Problem(
                    name,
                    tr(
                        "has shape {found}, its twin has {wanted}",
                        found=list(source[name].shape),
                        wanted=list(slot_shapes[slot]),
                    ),
                )
            )
    placed = {part for stored in target_map.values() for part in stored.parts}
    problems += [Problem(slot, tr("the target has no place for it")) for slot in slots if slot not in placed]
    known = {part for stored in source_map.values() for part in stored.parts}
    problems += [
        Problem(name, tr("nothing in the checkpoint fills it"))
        for name, stored in target_map.items()
        if not known.issuperset(stored.parts)
    ]

    outputs: list[Output] = []
    if not problems:
        for name, stored in target_map.items():
            dtypes = {policy.dtype(part, source[slots[part][0]].dtype) for part in stored.parts}
            if len(dtypes) > 1:
                names = sorted(NAMES[dtype] for dtype in dtypes)
                problems.append(Problem(name, tr("its parts have different dtypes: {dtypes}", dtypes=names)))
                continue
            shape = shape_of(stored)
            if resize and resize.concerns(stored):
                shape = (resize.change.after, *shape[1:])
            outputs.append(Output(name, dtypes.pop(), shape, stored))
    if problems:
        outputs = []
    return Plan(source, tuple(outputs), slots, slot_shapes, copies, skipped, tuple(problems), resize)
