"""Files that are not what they claim to be: a reader gives one clear error, or the right values."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from mindport.checkpoint.dtypes import ITEM_SIZE
from mindport.checkpoint.files import read
from mindport.checkpoint.source import TensorEntry
from mindport.errors import MindportError

Reader = Callable[[Path], dict[str, TensorEntry]]

CLAIMS = (0, 1, 2, 127, 128, 255, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 8 << 30, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
"""Numbers that lengths, counts and offsets are replaced with."""


def mutations(content: bytes, count: int, seed: int) -> Iterator[bytes]:
    """The content with one to four changes: bytes set, inserted, deleted, moved, numbers replaced, an end."""
    rng = random.Random(seed)
    for _ in range(count):
        changed = bytearray(content)
        for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
            place = rng.randrange(len(changed) + 1)
            kind = rng.randrange(8)
            if kind == 0:
                changed[place : place + 1] = bytes([rng.randrange(256)])
            elif kind == 1:
                changed[place:place] = rng.randbytes(rng.randrange(1, 9))
            elif kind == 2:
                del changed[place : place + rng.randrange(1, 17)]
            elif kind == 3:
                changed[place:place] = changed[place : place + rng.randrange(1, 65)]
            elif kind == 4:
                width = rng.choice((1, 2, 4, 8))
                changed[place : place + width] = (rng.choice(CLAIMS) % 256**width).to_bytes(width, "little")
            elif kind == 5:
                other = rng.randrange(len(changed) + 1)
                length = rng.randrange(1, 33)
                changed[place : place + length] = changed[other : other + length]
            elif kind == 6:
                changed[place : place + 1] = bytes(b ^ (1 << rng.randrange(8)) for b in changed[place : place + 1])
            elif rng.random() < 0.3:
                del changed[place:]
        yield bytes(changed)


def read_or_refused(reader: Reader, path: Path, content: bytes) -> dict[str, bytes] | None:
    """Name -> bytes of the values; None where the reader refused with one clear sentence."""
    path.write_bytes(content)
    error = None
    try:
        entries = reader(path)
    except MindportError as refused:
        error = refused
    if error:
        assert error.fix
        assert len(str(error)) < 600 + len(str(path)), "a message must fit the screen whatever the file holds"
        return None
    for entry in entries.values():
        first = min([entry.offset, *(offset for offset, _ in entry.pieces)])
        assert 0 <= first <= len(content)
    return {name: bits_of(entry) for name, entry in entries.items()}


def bits_of(entry: TensorEntry) -> bytes:
    """The values of a tensor in C order, as they are stored: read as unsigned integers of the same width."""
    return read(replace(entry, dtype=f"U{8 * ITEM_SIZE[entry.dtype]}")).tobytes()
