"""The optional frameworks, asked for once, with a sentence that says what to install."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os

from mindport.errors import MindportError
from mindport.i18n import tr

EXTRAS = {
    "torch": "verify",
    "transformers": "verify",
    "mindspore": "mindspore",
    "mindformers": "mindformers",
    "jinja2": "report",
    "matplotlib": "report",
}
"""Module -> the extra of this package that installs it."""


def installed(*modules: str) -> None:
    """Make sure the modules are there, without importing them.

    Raises:
        MindportError: one is not installed.
    """
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        extras = ",".join(dict.fromkeys(EXTRAS[name] for name in missing))
        raise MindportError(
            tr("This needs {modules}, which is not installed.", modules=", ".join(missing)),
            tr("Run: pip install 'mindport[{extras}]'.", extras=extras),
        )


def require(*modules: str) -> None:
    """Import the modules, in an environment made ready for them.

    Raises:
        MindportError: one is not installed, or fails to import.
    """
    installed(*modules)
    prepare()
    for name in modules:
        try:
            importlib.import_module(name)
        except Exception as error:  # an installation can fail to import in any way
            raise MindportError(
                tr("{module} is installed but cannot be imported: {error}.", module=name, error=error),
                tr("Run: pip install 'mindport[{extras}]'.", extras=EXTRAS[name]),
            ) from None


def prepare() -> None:
    """Environment of the frameworks, before they are imported: quiet, off-line, and fair with the processor."""
    os.environ.setdefault("GLOG_v", "3")
    # Waiting threads of both frameworks otherwise spin, and take from each other the cores they wait for.
    os.environ.setdefault("MS_DEV_HOST_BLOCKING_RUN", "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    logging.getLogger("transformers").setLevel(logging.ERROR)
