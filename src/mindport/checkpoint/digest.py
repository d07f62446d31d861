"""Fast checksums (xxh3, 128 bits) of tensors, computed while they stream by. Against accidents, not against malice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import xxhash

from mindport.checkpoint.content import CHUNK, Content
from mindport.checkpoint.files import Files
from mindport.checkpoint.plan import Plan
from mindport.checkpoint.source import TensorEntry


def new_digest() -> xxhash.xxh3_128:
    """An empty checksum."""
    return xxhash.xxh3_128()


def digest_of(chunks: Iterable[memoryview]) -> str:
    """Checksum of a stream, in hexadecimal."""
    digest = new_digest()
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


def plain_chunks(files: Files, entry: TensorEntry) -> Iterator[memoryview]:
    """The bytes of a plain tensor. A chunk is valid until the next is asked for."""
    buffer = memoryview(bytearray(CHUNK))
    for start in range(0, entry.nbytes, CHUNK):
        part = buffer[: entry.nbytes - start]
        files.fill(entry, start, part)
        yield part


class Watch:
    """Checksums of source tensors whose bytes come by in order, as they do where a layout keeps the order of rows."""

    def __init__(self) -> None:
        self._digests: dict[str, xxhash.xxh3_128] = {}
        self._ends: dict[str, int] = {}

    def seen(self, entry: TensorEntry, start: int, content: memoryview) -> None:
        """Bytes of a plain tensor, from its byte `start` on."""
        if start != self._ends.get(entry.name, 0):
            self._ends[entry.name] = -1  # out of order: nothing fits any more
            return
        self._digests.setdefault(entry.name, new_digest()).update(content)
        self._ends[entry.name] = start + len(content)

    def complete(self, entries: Iterable[TensorEntry]) -> dict[str, str]:
        """Checksums of those that came by from the first to the last byte."""
        found = {}
        for entry in entries:
            if entry.plain and self._ends.get(entry.name, 0) == entry.nbytes:
                found[entry.name] = self._digests.get(entry.name, new_digest()).hexdigest()
        return found


def parts_of(entry: TensorEntry) -> list[TensorEntry]:
    """The tensors of the files behind a source tensor: itself, or fp8 elements and scales."""
    if entry.scales is None:
        return [entry]
    return [replace(entry, dtype=entry.scales.stored_dtype, scales=None), entry.scales.factors]


def source_digests(plan: Plan, content: Content, names: Iterable[str]) -> dict[str, str]:
    """Checksums of source tensors, read once more."""
    parts = (part for name in names for part in parts_of(plan.source[name]))
    return {part.name: digest_of(content.values(part)) for part in parts}
