"""The conformance suite runs in an environment of its own: see `make conformance`.

MindFormers pins MindSpore and transformers to other versions than the rest of the tests use, so the main
suite neither collects nor reports what is here. Under `make conformance` a missing MindFormers is an error,
not a skip.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from tempfile import gettempdir

import pytest

# MindFormers writes logs into the working folder at import, unless it is told of another place.
os.environ.setdefault("LOCAL_DEFAULT_PATH", str(Path(gettempdir()) / "mindport-conformance"))

collect_ignore_glob: list[str] = []
if os.environ.get("MINDPORT_CONFORMANCE") != "1" and find_spec("mindformers") is None:
    collect_ignore_glob.append("test_*.py")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The largest difference of each comparison with MindFormers."""
    from .models import WORST

    if WORST:
        terminalreporter.section("differences to MindFormers")
        for what, difference in WORST.items():
            terminalreporter.write_line(f"{difference:.2g}  {what}")
