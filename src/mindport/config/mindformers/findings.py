"""What is found wrong with a configuration for MindFormers."""

from __future__ import annotations

from dataclasses import dataclass

ERROR, WARNING, NOTE = "error", "warning", "note"
"""MindFormers stops, or computes something else than was meant; it runs, but not as well as it could; it changes a
value of its own accord, which is often harmless."""

LEVELS = (ERROR, WARNING, NOTE)


@dataclass(frozen=True)
class ConfigFinding:
    """One thing that is wrong.

    Args:
        code: its name, the same in every version of Mindport.
        level: ERROR, WARNING or NOTE.
        path: the key it is about, `section.key`; "" for the file.
        line: where the key stands, or else its section, from 1; None where neither does.
        message: what is wrong, with the values.
        reason: why that matters.
        fix: values that would work, or what to do; "" where the message says it.
    """

    code: str
    level: str
    path: str
    line: int | None
    message: str
    reason: str
    fix: str = ""


def worst(findings: list[ConfigFinding]) -> str | None:
    """The gravest level among them; None of none."""
    return next((level for level in LEVELS if any(finding.level == level for finding in findings)), None)
