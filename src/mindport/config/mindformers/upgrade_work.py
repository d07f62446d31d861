"""A MindFormers YAML on its way to another version: its text, what was done to it, and the words for that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mindport.config.mindformers.plan import generation_of
from mindport.config.yaml_edit import CannotEditError, Editor, Way
from mindport.i18n import tr
from mindport.targets.mindformers import VERSIONS, Version

RENAMED, MOVED, DROPPED, RESTORED = "renamed", "moved", "dropped", "restored"
ADDED, KEPT, LEFT = "added", "kept", "left"
ACTIONS = (RENAMED, MOVED, DROPPED, RESTORED, ADDED, KEPT, LEFT)
"""Under another name or word; to another section; set aside as a comment; a comment again a line; a new line; an
unknown key, left alone or now in the block at the end; to be done by hand."""


@dataclass(frozen=True)
class UpgradeStep:
    """One thing that was done.

    Args:
        action: one of ACTIONS.
        path: the key, `section.key`.
        to: its new place, name or value; "" where there is none.
        version: the version that brought it about; "" where it is a matter of no version.
        note: what it means, in the user's language.
    """

    action: str
    path: str
    to: str
    version: str
    note: str


class Work:
    """A file on its way.

    Args:
        editor: its text.
        to: the version it goes to.
        start: the version it is for; None = not known.
    """

    def __init__(self, editor: Editor, to: Version, start: Version | None) -> None:
        self.editor, self.to, self.start = editor, to, start
        self.generation = generation_of(editor.file.values)
        self.steps: list[UpgradeStep] = []

    @property
    def values(self) -> Mapping[str, Any]:
        return self.editor.file.values

    def step(self, action: str, path: str, to: str, version: str, note: str) -> None:
        """Note down what was done."""
        self.steps.append(UpgradeStep(action, path, to, version, note))

    def left(self, path: str, to: str, version: str, error: CannotEditError) -> None:
        """Note down what could not be done."""
        self.step(LEFT, path, to, version, tr("to be done by hand: {reason}", reason=str(error)))

    def between(self, version: str) -> bool:
        """Whether a change lies on the way from the version the file is for."""
        if self.start is None:
            return True
        low, high = sorted((self.start, self.to), key=lambda one: one.order)
        return low.order < VERSIONS[version].order <= high.order

    def word(self, path: str) -> str | None:
        """A value as it is written; None where there is none."""
        return self.editor.source_of(way_of(path)) if self.editor.entry(way_of(path)) else None


def way_of(path: str) -> Way:
    """`section.key` as the editor takes it."""
    return tuple(path.split(".")) if path else ()


def before(name: str) -> str:
    """The version before one."""
    names = list(VERSIONS)
    return names[names.index(name) - 1]


def after(name: str) -> str:
    """The version after one."""
    names = list(VERSIONS)
    return names[names.index(name) + 1]
