"""Folders and files of weights into networks: the native one, or one of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from mindspore import nn

from mindport.checkpoint.dtypes import NAMES
from mindport.checkpoint.files import Files
from mindport.checkpoint.folder import find_weights
from mindport.checkpoint.load_report import LoadError, LoadReport
from mindport.checkpoint.problems import collapse_names, listed
from mindport.checkpoint.source import TensorEntry
from mindport.config.native import FILE_NAME, NativeConfig, native_only, read_native_config
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.models.build import build_model
from mindport.models.load import Given, load
from mindport.models.own import build_own
from mindport.models.transformer import Transformer
from mindport.schema import TransformerConfig
from mindport.targets.native import carried_parameters


@dataclass(frozen=True)
class Loading:
    """A network and the tensors for it, of which nothing but headers has been read.

    Args:
        network: to load into.
        tensors: name -> where it lies.
        carried: name -> shape of tensors that have no place in the network, and are to be there.
        widen: half precision becomes the network's float32.
    """

    network: nn.Cell
    tensors: Mapping[str, TensorEntry]
    carried: Mapping[str, tuple[int, ...]]
    widen: bool

    @property
    def nbytes(self) -> int:
        """Bytes to be read."""
        return sum(entry.nbytes for name, entry in self.tensors.items() if name not in self.carried)

    def run(self, progress: Callable[[int], None] = lambda nbytes: None) -> LoadReport:
        """Load, one tensor in memory at a time, and compare the network with the file afterwards.

        Args:
            progress: called with the number of bytes just loaded.

        Raises:
            MindportError: the file changed while it was read.
        """
        with Files() as files:
            given = [
                Given(name, NAMES[entry.dtype], entry.shape, entry.nbytes, partial(files.read, entry))
                for name, entry in self.tensors.items()
            ]
            return load(self.network, given, carried=self.carried, widen=self.widen, progress=progress)


@dataclass(frozen=True)
class LoadedModel:
    """A network that holds exactly the weights of a folder.

    Args:
        network: not in training mode.
        config: of the folder.
        report: how much was loaded.
    """

    network: Transformer
    config: NativeConfig
    report: LoadReport


def load_folder(folder: Path, *, keep_hidden_states: bool = False) -> LoadedModel:
    """Build the network of a converted folder in float32 and load its weights exactly.

    Raises:
        MindportError: unreadable, or any name, shape, dtype or value that is not as it should be, in both directions.
    """
    loading = native_loading(folder, keep_hidden_states=keep_hidden_states)
    report = loading.run()
    if report.count:
        raise LoadError(report)
    assert isinstance(loading.network, Transformer)
    return LoadedModel(loading.network, read_native_config(folder), report)


def native_loading(folder: Path, *, keep_hidden_states: bool = False) -> Loading:
    """The native network of a converted folder, in float32, which half-precision weights are widened to.

    Raises:
        MindportError: the config or the headers of the weights cannot be read, or are another network's; or the
            network cannot be built.
    """
    config = native_only(folder, read_native_config(folder)).model.transformer
    tensors = _tensors(folder)
    transformer = replace(config, params_dtype="float32", compute_dtype="float32")
    try:
        network = build_model(transformer, initialise=False, keep_hidden_states=keep_hidden_states)
    except MemoryError:
        raise MindportError(
            tr("The model of {folder} does not fit into memory.", folder=folder),
            tr("Use a machine with more memory, or a smaller model."),
        ) from None
    return Loading(network, tensors, carried_parameters(transformer), widen=True)


def own_loading(path: Path, network: str) -> Loading:
    """A network of the user's own, in the dtypes it has, and the weights of a folder, an index or a file.

    Args:
        path: holds the weights, and `ms_config.json` if the network asks for a configuration.
        network: as `build_own` takes it; its code is run.

    Raises:
        MindportError: the headers of the weights cannot be read, or the network cannot be built.
    """

    def config() -> TransformerConfig:
        if not (path / FILE_NAME).is_file():
            raise MindportError(
                tr("{network} takes a configuration, and {path} has no ms_config.json.", network=network, path=path),
                tr("Name a class or function that can be called without arguments."),
            )
        return read_native_config(path).model.transformer

    tensors = _tensors(path)
    return Loading(build_own(network, config), tensors, {}, widen=False)


def _tensors(path: Path) -> dict[str, TensorEntry]:
    found = find_weights(path)
    if found.problems:
        rows = collapse_names(found.problems)
        raise MindportError(
            tr("{path}: the weights are not as their index says:\n{list}\n", path=path, list=listed(rows, 40)),
            tr("Convert the model again, or copy the folder again from where it was made."),
        )
    return found.entries
