"""What a document is made of, before it is Markdown or HTML."""

from __future__ import annotations

from dataclasses import dataclass

from mindport.i18n import tr
from mindport.records import formats


@dataclass(frozen=True)
class Cell:
    """One cell of a table: its parts, and how it looks: "text", "code", "number", "good", "bad" or "warn"."""

    parts: tuple[str, ...]
    kind: str = "text"

    @property
    def is_short(self) -> bool:
        """Whether no part is worth a line break."""
        return max(map(formats.width, self.parts), default=0) <= (32 if self.kind == "code" else 24)


@dataclass(frozen=True)
class Table:
    """Rows of cells under a head."""

    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    block: str = "table"

    def is_numeric(self, column: int) -> bool:
        """Whether a column holds numbers alone."""
        return bool(self.rows) and all(row[column].kind == "number" for row in self.rows)


@dataclass(frozen=True)
class Note:
    """A paragraph; a tone of "good", "bad" or "warn" makes it stand out."""

    text: str
    tone: str = ""
    block: str = "note"


@dataclass(frozen=True)
class Bullets:
    """Sentences in a list."""

    items: tuple[str, ...]
    block: str = "bullets"


@dataclass(frozen=True)
class Grouped:
    """Names under the reason they share, or under none."""

    groups: tuple[tuple[str, tuple[str, ...]], ...]
    block: str = "grouped"


@dataclass(frozen=True)
class Quote:
    """Foreign text with its line breaks."""

    label: str
    text: str
    block: str = "quote"


@dataclass(frozen=True)
class Curves:
    """Two curves, one value per step, and how far they are apart."""

    name: str
    title: str
    ours: tuple[float, ...]
    reference: tuple[float, ...]
    differences: tuple[float, ...]
    difference_label: str
    bound: float
    bound_label: str
    block: str = "curves"


Block = Table | Note | Bullets | Grouped | Quote | Curves


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it; `anchor` is its address in the page."""

    anchor: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Figure:
    """A number that matters: "good", "bad", "warn", or "" where it is neither."""

    label: str
    value: str
    detail: str = ""
    tone: str = ""


@dataclass(frozen=True)
class Document:
    """All of it, in one language."""

    language: str
    title: str
    passed: bool
    verdict: str
    figures: tuple[Figure, ...]
    warnings: tuple[str, ...]
    sections: tuple[Section, ...]
    footer: str


def one(text: str, kind: str = "text") -> Cell:
    return Cell((text,), kind)


def result(passed: bool) -> Cell:
    return one(tr("passed") if passed else tr("failed"), "good" if passed else "bad")


def tone(passed: bool) -> str:
    return "good" if passed else "bad"
