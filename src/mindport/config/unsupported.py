"""The refusal of a config that no declaration reads: what it is, and which family comes nearest."""

from __future__ import annotations

from typing import Any

from mindport.architectures.families import Verdict, verdict
from mindport.config.composite import TextPart
from mindport.errors import MindportError, brief
from mindport.i18n import tr

_MOST_KEYS = 6
"""Of those left out, in a message; the attribute has all."""


class UnsupportedModel(MindportError):
    """No declaration reads this config.

    Args:
        message, fix: as of any `MindportError`.
        reason: what the model is or has that is not supported, in the user's language.
        nearest: the declared model_type that comes nearest; None where none is near.
        left_out: of a composite config, the keys that are about other parts than its text model.
    """

    def __init__(
        self, message: str, fix: str, reason: str, nearest: str | None = None, left_out: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message, fix)
        self.reason = reason
        self.nearest = nearest
        self.left_out = left_out

    def as_dict(self) -> dict[str, Any]:
        """Of the error by name: its two sentences, and what makes them up."""
        return {**super().as_dict(), "reason": self.reason, "nearest": self.nearest, "left_out": self.left_out}


def unsupported(part: TextPart) -> UnsupportedModel:
    """The refusal of a config, or of the text model inside one."""
    found = verdict(part.config)
    reason = tr(found.reason)
    return UnsupportedModel(_message(part, found, reason), _fix(part, found), reason, found.nearest, part.left_out)


def _message(part: TextPart, found: Verdict, reason: str) -> str:
    name = part.config.get("model_type")
    if name is None:
        return tr("The config names no model_type; {reason}.", reason=reason)
    if part.path:
        return tr(
            "model_type {model_type} in {part} is not supported: {reason} (left out: {keys}).",
            model_type=brief(name),
            part=part.name,
            reason=reason,
            keys=", ".join(part.left_out[:_MOST_KEYS]) + (" ..." if len(part.left_out) > _MOST_KEYS else ""),
        )
    if found.known:
        return tr("model_type {model_type} is not supported: {reason}.", model_type=brief(name), reason=reason)
    if part.config.get("auto_map"):
        return tr(
            "model_type {model_type} is not known, and the code in its folder is never run; {reason}.",
            model_type=brief(name),
            reason=reason,
        )
    return tr("model_type {model_type} is not known; {reason}.", model_type=brief(name), reason=reason)


def _fix(part: TextPart, found: Verdict) -> str:
    if found.nearest is None:
        return tr("`mindport list` shows what is supported.")
    if found.same:
        return tr('Set "model_type": "{near}" in config.json: its keys are the same.', near=found.nearest)
    name = part.config.get("model_type")
    if name is None:
        return tr(
            "Nearest supported model_type: {near}. If the model is one, add it to config.json.", near=found.nearest
        )
    return tr("Nearest supported model_type: {near}. `mindport list` shows all of them.", near=found.nearest)
