"""A network from a converted folder: config and weights, nothing else needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mindport.checkpoint.files import read
from mindport.checkpoint.folder import find_weights
from mindport.checkpoint.plan import Problem
from mindport.checkpoint.problems import PlanError
from mindport.config.native import NativeConfig, read_native_config
from mindport.errors import MindportError, brief
from mindport.i18n import tr
from mindport.models.build import build_model
from mindport.models.load import load_parameters
from mindport.models.transformer import Transformer
from mindport.targets.native import NATIVE, is_carried


@dataclass(frozen=True)
class LoadedModel:
    """A network that holds exactly the weights of a folder.

    Args:
        network: not in training mode.
        config: of the folder.
        tensors, nbytes: how many tensors and bytes of the weights file the network holds.
        dtypes: of these tensors.
        widened: whether they were widened to float32, without loss, to be computed with.
        carried: how many more tensors the file holds that are carried along and not computed with.
    """

    network: Transformer
    config: NativeConfig
    tensors: int
    nbytes: int
    dtypes: tuple[str, ...]
    widened: bool
    carried: int


def load_folder(folder: Path, *, keep_hidden_states: bool = False) -> LoadedModel:
    """Build the network of a converted folder in float32 and load its weights exactly.

    Raises:
        MindportError: unreadable, or any name, shape, dtype or value that is not as it should be, in both directions.
    """
    config = read_native_config(folder)
    transformer = replace(config.model.transformer, params_dtype="float32", compute_dtype="float32")
    try:
        network = build_model(transformer, initialise=False, keep_hidden_states=keep_hidden_states)
    except MemoryError:
        raise MindportError(
            tr("The model of {folder} does not fit into memory.", folder=folder),
            tr("Use a machine with more memory, or a smaller model."),
        ) from None
    found = find_weights(folder)
    if found.problems:
        raise PlanError(folder, [Problem(name, what) for name, what in found.problems])
    seen: set[str] = set()
    total = [0, 0]
    carried: set[str] = set()

    def arrays() -> Iterator[tuple[str, np.ndarray]]:
        for name, entry in found.entries.items():
            if is_carried(name):
                carried.add(name)
                continue
            array = read(entry)
            seen.add(str(array.dtype))
            total[0] += 1
            total[1] += array.nbytes
            # Only widening: float16 and bfloat16 values are float32 values.
            yield name, array.astype(np.float32) if str(array.dtype) in ("float16", "bfloat16") else array

    load_parameters(network, arrays())
    wrong = carried ^ {name for name in NATIVE.parameters(transformer) if is_carried(name)}
    if wrong:
        raise MindportError(
            tr(
                "{folder}: {count} of the tensors that are only carried along are missing or too many, such as {name}.",
                folder=folder,
                count=len(wrong),
                name=brief(min(wrong)),
            ),
            tr("Convert the model again."),
        )
    return LoadedModel(network, config, total[0], total[1], tuple(sorted(seen)), bool(seen - {"float32"}), len(carried))
