"""The error for a file that is not what its format allows."""

from __future__ import annotations

import os
from pathlib import Path

from mindport.errors import MindportError
from mindport.i18n import tr


def broken(path: Path, reason: str) -> MindportError:
    """The error for a damaged file; `reason` is already in the user's language."""
    return MindportError(
        tr("{path} is broken: {reason}.", path=os.fspath(path), reason=reason),
        tr("Download or save the file again."),
    )
