"""What a conversion will need of memory, before it runs."""

from __future__ import annotations

from mindport.checkpoint.content import BLOCK, CHUNK, STRIP
from mindport.checkpoint.execute import THREADS
from mindport.checkpoint.plan import Output, Plan
from mindport.layout.trace import units_of

_UNIT = 4 * 8
"""Bytes per unit of a tensor while its movement is worked out: a few arrays of 64-bit numbers."""

_FACTOR = 4
"""Arrays of the size of a block that are alive at once: read, gathered, cast, written."""

_LOADED = 40 << 20
"""Bytes that numpy and the rest of the program take beside an idle interpreter."""


def peak_bytes(plan: Plan) -> int:
    """Predicted peak of private memory above an idle interpreter."""
    return _LOADED + THREADS * max((_needed(plan, output) for output in plan.outputs), default=0)


def _needed(plan: Plan, output: Output) -> int:
    shapes = [plan.slot_shapes[part] for part in output.stored.parts]
    units = units_of(output.stored, shapes)
    sources = {plan.slots[part][0]: plan.slots[part][2] for part in output.stored.parts}
    moved = [units_of(stored, [plan.slot_shapes[slot] for slot in stored.parts]) for stored in sources.values()]
    if units is None or any(found is None or found.width != units.width for found in moved):
        return 2 * output.nbytes + sum(plan.source[name].nbytes for name in sources)
    row = output.nbytes // max(1, units.count)
    block = STRIP * BLOCK if units.columns else BLOCK
    return CHUNK + _FACTOR * max(block, row) + _UNIT * units.count
