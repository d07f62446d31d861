"""The pieces of a SentencePiece model, read from its protobuf by hand.

Only two fields of `sentencepiece_model.proto` are needed: `ModelProto.pieces` (1, repeated) and `SentencePiece.piece`
(1, string). All others are skipped by their length.
"""

from __future__ import annotations

from collections.abc import Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
"""Wire types of protobuf."""

MOST = 1 << 22
"""Pieces. Some twenty times as many as the largest vocabularies have."""


def pieces(content: bytes) -> list[str]:
    """The pieces in the order of their ids.

    Raises:
        ValueError: not a SentencePiece model, or a truncated one.
    """
    found: list[str] = []
    for number, message in _fields(content):
        if number == 1 and message is not None:
            if len(found) == MOST:
                raise ValueError("too many pieces")
            found.append(next((text for n, text in _fields(message) if n == 1 and text is not None), b"").decode())
    if not found:
        raise ValueError("no pieces")
    return found


def _fields(message: bytes) -> Iterator[tuple[int, bytes | None]]:
    """(field number, content) of every field of a message; None for numbers."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            _, at = _varint(message, at)
            yield number, None
            continue
        if kind == _BYTES:
            length, at = _varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {kind}")
        if number == 0 or at + length > len(message):
            raise ValueError("truncated")
        yield number, message[at : at + length] if kind == _BYTES else None
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, low ones first, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
    raise ValueError("a number of more than ten bytes")
