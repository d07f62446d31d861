"""Configurations of any kind, told apart by what they hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mindport.config.hf import ModelConfig, read_hf_config
from mindport.config.json_file import read_json_object
from mindport.config.native import FILE_NAME, read_native_config
from mindport.errors import MindportError
from mindport.i18n import tr


@dataclass(frozen=True)
class Kind:
    """A kind of configuration.

    Args:
        name: "hf" or "native".
        file: its name in a model folder.
        read: file -> the model in canonical terms.
    """

    name: str
    file: str
    read: Callable[[Path], ModelConfig]


HF = Kind("hf", "config.json", read_hf_config)
NATIVE = Kind("native", FILE_NAME, lambda path: read_native_config(path).model)
KINDS = (HF, NATIVE)


def read_config(path: Path) -> tuple[Kind, ModelConfig]:
    """The config in a file or a folder, and its kind.

    Raises:
        MindportError: there is none, there are several, or it cannot be read.
    """
    file = _file_in(path) if path.is_dir() else path
    kind = _kind_of(file)
    return kind, kind.read(file)


def _file_in(folder: Path) -> Path:
    found = [folder / kind.file for kind in KINDS if (folder / kind.file).is_file()]
    names = ", ".join(kind.file for kind in KINDS)
    if not found:
        raise MindportError(
            tr("{folder} holds none of {names}.", folder=folder, names=names), tr("Give a configuration or its folder.")
        )
    if len(found) > 1:
        raise MindportError(
            tr("{folder} holds several configurations.", folder=folder), tr("Name the file that you mean.")
        )
    return found[0]


def _kind_of(file: Path) -> Kind:
    """By content: a copy may have any name."""
    content = read_json_object(file)
    return NATIVE if isinstance(content.get("mindport"), dict) and "transformer" in content else HF
