"""Numbers and foreign text as a report shows them."""

from __future__ import annotations

import json
import math
import unicodedata
from typing import Any

_LONGEST = 200
"""Characters of a config value in a table; `migration.json` has all of it."""

_JOINERS = "\u200c\u200d"
_INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def printable(text: str, *, lines: bool = False) -> str:
    """The text with every character escaped that is not seen, or that reorders what is: no cell can fake another.

    Args:
        lines: keep line breaks and tabs.
    """
    kept = _JOINERS + "\n\t" if lines else _JOINERS
    return "".join(
        c if c in kept or unicodedata.category(c) not in _INVISIBLE else c.encode("unicode_escape").decode()
        for c in text
    )


def width(text: str) -> int:
    """Width of a text in Latin letters; a Chinese character takes two."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def value(of: Any) -> str:
    """A config value as JSON, cut where it is very long."""
    text = json.dumps(of, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text):,})"


def bound(number: float) -> str:
    """A bound, to three digits and without the zeros that say nothing."""
    if number == 0 or not math.isfinite(number):
        return _special(number)
    mantissa, exponent = f"{number:.2e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{exponent}"


def error(number: float, limit: float = math.nan) -> str:
    """Scientific, with as many digits as it takes to be seen on its own side of its limit."""
    if number == 0 or not math.isfinite(number):
        return _special(number)
    shown = float(bound(limit)) if math.isfinite(limit) else limit
    for digits in range(1, 7):
        text = f"{number:.{digits}e}"
        if (float(text) > shown) == (number > limit):
            break
    return text


def significant(number: float) -> str:
    """Six significant digits."""
    return f"{number:#.6g}".removesuffix(".") if math.isfinite(number) else _special(number)


def cosine(number: float) -> str:
    """Nine decimals: float32 tells apart about seven."""
    return f"{number:.9f}" if math.isfinite(number) else _special(number)


def percent(share: float) -> str:
    """A share rounded down, so that 100% is said of nothing less."""
    return f"{math.floor(share * 1e4 + 1e-9) / 100:g}%" if math.isfinite(share) else _special(share)


def size(nbytes: float) -> str:
    """Bytes in decimal units."""
    for unit in ("B", "kB", "MB"):
        if nbytes < 1000:
            return f"{nbytes:.3g} {unit}" if unit != "B" else f"{nbytes:.0f} B"
        nbytes /= 1000
    return f"{nbytes:,.2f} GB"


def duration(seconds: float) -> str:
    """Seconds, with more digits for fewer."""
    return f"{seconds:,.{2 if seconds < 1 else 1}f} s" if math.isfinite(seconds) else _special(seconds)


def _special(number: float) -> str:
    if number == 0:
        return "0"
    return "NaN" if math.isnan(number) else "−∞" if number < 0 else "∞"
