"""The command line in this process, through the entry point of the installed command."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from mindport.cli import app


def run_main(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *args: object
) -> tuple[Any, str, str]:
    """Exit code, standard output, standard error."""
    monkeypatch.setattr(sys, "argv", ["mindport", *map(str, args)])
    code: Any = 0
    try:
        app.main()
    except SystemExit as end:
        code = end.code or 0
    captured = capsys.readouterr()
    return code, captured.out, captured.err
