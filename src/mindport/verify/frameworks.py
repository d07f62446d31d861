"""The optional frameworks, asked for once, with a sentence that says what to install."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os

from mindport.errors import MindportError
from mindport.i18n import tr

EXTRAS = {"torch": "verify", "transformers": "verify", "mindspore": "mindspore"}
"""Module -> the extra of this package that installs it."""


def require(*modules: str) -> None:
    """Make sure the modules can be imported.

    Raises:
        MindportError: one is not installed, or fails to import.
    """
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        extras = ",".join(dict.fromkeys(EXTRAS[name] for name in missing))
        raise MindportError(
            tr("This needs {modules}, which is not installed.", modules=", ".join(missing)),
            tr("Run: pip install 'mindport[{extras}]'.", extras=extras),
        )
    quieten()
    for name in modules:
        try:
            importlib.import_module(name)
        except Exception as error:  # an installation can fail to import in any way
            raise MindportError(
                tr("{module} is installed but cannot be imported: {error}.", module=name, error=error),
                tr("Run: pip install 'mindport[{extras}]'.", extras=EXTRAS[name]),
            ) from None


def quieten() -> None:
    """Keep warnings and progress bars of the frameworks out of our own output; nothing is sent or fetched."""
    os.environ.setdefault("GLOG_v", "3")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    logging.getLogger("transformers").setLevel(logging.ERROR)
