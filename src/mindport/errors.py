"""The one exception a user sees: what is wrong, and what to do about it."""

from __future__ import annotations

import reprlib
from typing import Any

_brief = reprlib.Repr()
_brief.maxstring = _brief.maxother = _brief.maxlong = 60
_brief.maxdict = _brief.maxlist = 6


def brief(value: object) -> str:
    """How a message shows a value from a file: its repr, cut where it would fill the screen."""
    return _brief.repr(value)


class MindportError(Exception):
    """A failure the user can act on.

    Args:
        message: one sentence that says what is wrong, already in the user's language.
        fix: one sentence that says what to do; may be empty where the message says it all.
    """

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix

    def as_dict(self) -> dict[str, Any]:
        """The two sentences by name."""
        return {"message": self.message, "fix": self.fix}

    def __str__(self) -> str:
        return f"{self.message} {self.fix}" if self.fix else self.message
