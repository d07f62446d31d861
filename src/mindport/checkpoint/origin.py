"""Where a conversion comes from: a Hugging Face folder, or a folder that Mindport has converted before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mindport.architectures.naming import skipped_tensors, tensor_map, tied_copies
from mindport.checkpoint.folder import Found, find_weights
from mindport.checkpoint.manifest import check_listed
from mindport.checkpoint.match import spelling_of, with_optional_parts
from mindport.checkpoint.quantised import pair_scales
from mindport.checkpoint.source import Checkpoint
from mindport.checkpoint.training_state import without_training_state
from mindport.config.hf import read_hf_config
from mindport.config.native import FILE_NAME, NativeConfig, read_native_config
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.layout import TensorMap
from mindport.schema import TransformerConfig


@dataclass(frozen=True)
class Origin:
    """A model as it lies there.

    Args:
        config: canonical config, and what the way back to Hugging Face needs to know.
        found: the weights files.
        source: their tensors.
        tensors: what the model's tensors are made of.
        copies: tensors that may exist besides, as copies of a slot.
        skipped: tensors that may exist besides, to be left out -> reason.
        shared: slot without a tensor of its own -> the slot whose tensor serves it.
        converted: Mindport wrote it.
    """

    config: NativeConfig
    found: Found
    source: Checkpoint
    tensors: TensorMap
    copies: Mapping[str, str]
    skipped: Mapping[str, str]
    shared: Mapping[str, str]
    converted: bool


def origin_of(model: Path) -> Origin:
    """What a folder holds, from its config and tensor headers alone.

    Raises:
        MindportError: something cannot be read or is not supported.
    """
    if (model / FILE_NAME).is_file() and not (model / "config.json").is_file():
        return converted_origin(config_of(model), model)
    return _hugging_face(model)


def config_of(folder: Path) -> NativeConfig:
    """The config of a folder that was converted before.

    Raises:
        MindportError: it cannot be read; or it is of MindFormers, where it says how the weights lie, and was changed.
    """
    config = read_native_config(folder)
    if config.destination:
        check_listed(folder, FILE_NAME)
    return config


def converted_origin(config: NativeConfig, weights: Path) -> Origin:
    """Weights that lie as a target has them; state of the optimizer and counters of a training run are left out.

    Args:
        weights: a file or a folder.

    Raises:
        MindportError: the weights cannot be read.
    """
    found = find_weights(weights)
    transformer = config.model.transformer
    tensors = config.target.parameters(transformer)
    source, left_out = without_training_state(found.entries, tensors)
    return Origin(config, found, source, tensors, {}, left_out, config.target.shared(transformer), True)


def _hugging_face(model: Path) -> Origin:
    described = read_hf_config(model)
    if described.part.path:
        # transformers has changed the names under which it stores the parts, and no declaration says them.
        raise MindportError(
            tr(
                "{model} is a composite model; only the config of its text model, {part}, can be converted.",
                model=model,
                part=described.part.name,
            ),
            tr("Give its config.json, or a folder with the weights of the text model alone."),
        )
    found = find_weights(model)
    source = pair_scales(found.entries, described.hf)
    spelling = spelling_of(described, source)
    described = with_optional_parts(described, spelling, source)
    declaration, config = described.declaration, described.transformer
    skipped = skipped_tensors(declaration, described.declared_class, config, spelling)
    copies = tied_copies(declaration, config, spelling)
    copies = {name: slot for name, slot in copies.items() if name not in skipped}
    tensors = _counting(tensor_map(declaration, config, spelling), source, config, copies, skipped)
    return Origin(NativeConfig(described, spelling), found, source, tensors, copies, skipped, {}, False)


def _counting(
    tensors: TensorMap,
    source: Checkpoint,
    config: TransformerConfig,
    copies: dict[str, str],
    skipped: dict[str, str],
) -> TensorMap:
    """The tensors, with those that count in this file: not tied, a copy may differ, and where the class does not read
    the other, it is the copy that counts."""
    if config.tie_word_embeddings:
        return tensors
    result = dict(tensors)
    for name in copies.keys() & source.keys():
        holder = next(n for n, stored in result.items() if copies[name] in stored.parts)
        if holder in skipped:
            result[name] = result.pop(holder)
    return result
