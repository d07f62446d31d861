"""Multi-token-prediction modules (DeepSeek-V3, section 2.2), which files store as layers after the model's last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mindport.layout import Stored
from mindport.schema import MTP

OWN: dict[str, str | Stored] = {
    "{base}layers.{T}.embed_tokens.weight": f"{MTP}embedding.word.weight",
    "{base}layers.{T}.enorm.{p}": f"{MTP}embedding_norm.{{p}}",
    "{base}layers.{T}.hnorm.{p}": f"{MTP}hidden_norm.{{p}}",
    "{base}layers.{T}.eh_proj.weight": f"{MTP}projection.weight",
    "{base}layers.{T}.shared_head.norm.{p}": f"{MTP}final_norm.{{p}}",
    "{base}layers.{T}.shared_head.head.weight": f"{MTP}head.output.weight",
}
"""What a module has besides a layer, as DeepSeek names it."""

OPTIONAL = {"mtp_num_layers": f"{MTP}projection.weight".format(M=0)}
"""For `HFClass.optional`: many files lack the modules that their config counts."""


def module_layers(tensors: Mapping[str, str | Stored]) -> dict[str, str | Stored]:
    """The tensors of a layer, `{base}layers.{L}.*`, as each module has them too."""
    return {name.replace("{L}", "{T}"): in_module(made_of) for name, made_of in tensors.items() if "{L}" in name}


def in_module(made_of: str | Stored) -> str | Stored:
    """The same slots of a layer inside a module."""
    if isinstance(made_of, str):
        return f"{MTP}{made_of.replace('{L}.', '')}"
    return replace(made_of, parts=tuple(f"{MTP}{part.replace('{L}.', '')}" for part in made_of.parts))
