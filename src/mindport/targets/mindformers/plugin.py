"""Mindport's plug-in for MindFormers: the files that a run needs, and how its YAML names them."""

from __future__ import annotations

from pathlib import Path

from mindport.plugin.families import MODULE
from mindport.targets.mindformers.versions import Family

AUTO_REGISTER = "auto_register"
"""The key of a model config by which MindFormers finds a class outside itself."""

FOLDER = "mindport_plugin"
"""Where the files lie, beside the YAML: what `--register_path` has to name."""

_SOURCES = Path(__file__).parents[2] / "plugin"


def reference(family: Family) -> str:
    """What `auto_register` says of a family of the plug-in."""
    return f"{MODULE}.{family.config_class}"


def is_plugin(auto_register: object) -> bool:
    """Whether a value of `auto_register` means the plug-in."""
    return isinstance(auto_register, str) and auto_register.startswith(f"{MODULE}.")


def plugin_files() -> dict[str, str]:
    """The plug-in, to be written beside a YAML: relative path -> text.

    It runs where MindFormers is, without Mindport.
    """
    return {f"{FOLDER}/{path.name}": path.read_text(encoding="utf-8") for path in sorted(_SOURCES.glob("*.py"))}
