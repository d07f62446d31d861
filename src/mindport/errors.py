"""The one exception a user sees: what is wrong, and what to do about it."""

from __future__ import annotations


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

    def __str__(self) -> str:
        return f"{self.message} {self.fix}" if self.fix else self.message
