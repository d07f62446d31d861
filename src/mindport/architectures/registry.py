"""Finds declarations: one module per model_type in this package, imported only when asked for."""

from __future__ import annotations

import difflib
import importlib
import json
from functools import cache
from pathlib import Path
from typing import Any

from mindport.architectures.vocabulary import Architecture
from mindport.errors import MindportError, brief
from mindport.i18n import tr

_DEFAULTS = Path(__file__).parent / "defaults"


@cache
def model_types() -> tuple[str, ...]:
    """Every declared model_type, sorted. A declaration is a module that has its table of class defaults."""
    return tuple(sorted(path.stem for path in _DEFAULTS.glob("*.json")))


@cache
def architecture(model_type: str) -> Architecture:
    """The declaration of a model_type.

    Raises:
        MindportError: nothing is declared under this name.
    """
    if model_type not in model_types():
        near = difflib.get_close_matches(model_type.lower(), model_types(), n=1, cutoff=0.3)
        hint = tr("Nearest supported model_type: {near}.", near=near[0]) if near else ""
        raise MindportError(
            tr("model_type {model_type} is not supported.", model_type=brief(model_type)),
            f"{hint} {tr('`mindport list` shows those that are.')}".strip(),
        )
    module = importlib.import_module(f"mindport.architectures.{model_type.replace('-', '_')}")
    declared: Architecture = module.ARCHITECTURE
    return declared


@cache
def class_defaults(model_type: str) -> dict[str, Any]:
    """What the Hugging Face config class assumes for keys a file leaves out.

    Our own table, checked in a test against the class of the installed transformers, so that it need not be imported.
    """
    table: dict[str, Any] = json.loads((_DEFAULTS / f"{model_type}.json").read_text(encoding="utf-8"))
    return table
