"""Weights that are kept without being computed with: counted, checked byte by byte, and never missed in silence."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from mindport.checkpoint.check import check_folder
from mindport.errors import MindportError
from mindport.models.folder import load_folder
from mindport.targets import NATIVE
from mindport.targets.native import computed_parameters, is_carried
from mindport.verify.ladder import Ladder

from .random_model import Prepared, load_reference, read_tensors, write_tensors


def test_what_is_carried_is_counted(model: Prepared) -> None:
    config = model.variant.config
    carried = [name for name in NATIVE.parameters(config) if is_carried(name)]
    loaded = load_folder(model.native).report
    assert (loaded.tensors, loaded.carried) == (len(computed_parameters(config)), len(carried))
    assert bool(carried) == bool(config.mtp_num_layers)
    if carried:
        summary = Ladder(model.source, model.native).load_summary
        assert summary.endswith(f"; {len(carried)} more carried along, not computed")


def test_what_is_carried_is_checked(model: Prepared, tmp_path: Path) -> None:
    tensors = read_tensors(model.native)
    carried = [name for name in tensors if is_carried(name)]
    if not carried:
        return
    folder = tmp_path / "native"
    shutil.copytree(model.native, folder)
    for name in carried:
        values = tensors[name].copy()
        values.flat[-1] = np.nextafter(values.flat[-1], np.float32(9))
        write_tensors(folder, {**tensors, name: values})
        with pytest.raises(MindportError, match="differs from the source"):
            check_folder(model.source, folder)
    first = carried[0]
    for wrong in ({k: v for k, v in tensors.items() if k != first}, {**tensors, f"{first}.more": tensors[first] + 1}):
        write_tensors(folder, wrong)
        with pytest.raises(MindportError, match=first):
            load_folder(folder)


def test_transformers_finds_what_is_carried(model: Prepared) -> None:
    """It predicts several tokens while generating only, and then takes every weight of the modules from our names."""
    config = model.variant.config
    if not config.mtp_num_layers or config.head == "none":
        return
    from transformers.modeling_layers import MtpModel

    network = load_reference(model.source, model.variant)
    modules = range(config.num_layers, config.num_layers + config.mtp_num_layers)
    # It knows them by the number of layers of the published models.
    network._keys_to_ignore_on_load_unexpected = [rf"layers\.{module}\." for module in modules]
    weights = MtpModel.from_pretrained(network).state_dict()  # an error where one is missing
    held = {array.tobytes() for array in model.tensors.values()}
    assert all(weights[name].numpy().tobytes() in held for name in weights if ".experts." not in name)
