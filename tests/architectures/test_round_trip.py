"""There and back: every test model through the native folder gives the same bytes, config and spelling again."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mindport.architectures import architecture, model_types
from mindport.architectures.naming import Spelling, skipped_tensors, spellings, tensor_map, tied_copies
from mindport.architectures.rope import Rope
from mindport.checkpoint.convert import Conversion, convert
from mindport.checkpoint.export import export
from mindport.checkpoint.options import Options
from mindport.config.hf import from_hf
from mindport.config.native import read_native_config
from mindport.errors import MindportError

from .generator import real_classes, variants
from .random_model import (
    Arrays,
    Prepared,
    load_reference,
    read_config,
    read_tensors,
    to_parameters,
    write_config,
    write_tensors,
)

WEIGHT_FILE = "model.safetensors"

each_architecture = pytest.mark.parametrize("model_type", model_types())


def bits(arrays: Arrays) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """Arrays as what must be equal."""
    return {name: (a.dtype.name, a.shape, a.tobytes()) for name, a in arrays.items()}


def cast(arrays: Arrays, dtype: str, *, keep_vectors: bool = False) -> Arrays:
    """Arrays in another dtype; vectors stay as they are on request."""
    to = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    return {name: a if keep_vectors and a.ndim < 2 else a.astype(to) for name, a in arrays.items()}


def weights(folder: Path) -> bytes:
    return (folder / WEIGHT_FILE).read_bytes()


def changed_copy(model: Prepared, folder: Path, tensors: Arrays, **config: Any) -> Path:
    """The source folder with other tensors or config keys."""
    shutil.copytree(model.source, folder)
    write_tensors(folder, tensors)
    write_config(folder, {**read_config(folder), **config})
    return folder


def there_and_back(source: Path, folder: Path) -> tuple[Conversion, Path]:
    """The conversion of a folder, and the folder exported again."""
    conversion = convert(source, folder / "native")
    export(folder / "native", folder / "again")
    return conversion, folder / "again"


def assert_same_weights(again: Path, source: Path, conversion: Conversion) -> None:
    """The same file; or, where tensors are left out by declaration, the same values in all others."""
    assert conversion.plan is not None
    skipped = conversion.plan.skipped
    if not skipped:
        assert weights(again) == weights(source)
    after, before = (bits(read_tensors(folder)) for folder in (again, source))
    assert {k: v for k, v in after.items() if k not in skipped} == {k: v for k, v in before.items() if k not in skipped}


def in_slots(model: Prepared, tensors: Arrays) -> Arrays:
    """The slots that tensors of the source hold."""
    plan = model.conversion.plan
    assert plan is not None
    return {
        slot: stored.split(tensors[name], [plan.slot_shapes[part] for part in stored.parts])[i]
        for slot, (name, i, stored) in plan.slots.items()
    }


def in_spelling(model: Prepared, spelling: Spelling) -> Arrays:
    """The tensors of the source as a file of another spelling holds them."""
    variant = model.variant
    declaration, config = architecture(variant.model_type), variant.config
    found = {
        name: stored.join([model.slots[part] for part in stored.parts])
        for name, stored in tensor_map(declaration, config, spelling).items()
    }
    usual, plan = model.conversion.config.spelling, model.conversion.plan
    assert usual is not None
    assert plan is not None
    hf_class = model.conversion.config.model.declared_class
    copies = zip(*(tied_copies(declaration, config, s) for s in (usual, spelling)), strict=True)
    unused = zip(*(skipped_tensors(declaration, hf_class, config, s) for s in (usual, spelling)), strict=True)
    kept = [(old, new) for old, new in copies if old in model.tensors]
    kept += [(old, new) for old, new in unused if old in plan.skipped]
    return found | {new: model.tensors[old] for old, new in kept}


def test_weights_and_config_come_back(model: Prepared, tmp_path: Path) -> None:
    export(model.native, tmp_path / "again")
    assert_same_weights(tmp_path / "again", model.source, model.conversion)
    before, after = read_config(model.source), read_config(tmp_path / "again")
    assert list(after.items()) == list(before.items())
    assert from_hf(after).transformer == from_hf(before).transformer
    load_reference(tmp_path / "again", model.variant)


def test_native_config_reads_back(model: Prepared) -> None:
    written = read_native_config(model.native)
    assert written == model.conversion.config
    assert written.model.hf == read_config(model.source)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_ckpt(model: Prepared, dtype: str, tmp_path: Path) -> None:
    """MindSpore reads from its own format what the safetensors file holds."""
    import mindspore as ms

    source = changed_copy(model, tmp_path / "source", cast(model.tensors, dtype), dtype=dtype)
    conversion = convert(source, tmp_path / "native", Options("ckpt"))
    loaded = ms.load_checkpoint(str(conversion.folder / conversion.files[0]))
    wanted = to_parameters(model.variant.config, cast(model.slots, dtype))
    assert bits({name: parameter.asnumpy() for name, parameter in loaded.items()}) == bits(wanted)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("vectors", ["narrow", "wide"])
def test_half_precision(model: Prepared, dtype: str, vectors: str, tmp_path: Path) -> None:
    """Narrow checkpoints, also those that keep vectors in float32, are moved bit by bit."""
    wide = vectors == "wide"
    source = changed_copy(model, tmp_path / "source", cast(model.tensors, dtype, keep_vectors=wide), dtype=dtype)
    conversion, again = there_and_back(source, tmp_path)
    assert conversion.config.model.transformer == replace(model.conversion.config.model.transformer, params_dtype=dtype)
    wanted = to_parameters(model.variant.config, in_slots(model, cast(model.tensors, dtype, keep_vectors=wide)))
    assert bits(read_tensors(tmp_path / "native")) == bits(wanted)
    assert_same_weights(again, source, conversion)


def test_spellings(model: Prepared, tmp_path: Path) -> None:
    """Every declared spelling of the names gives the same weights, and is written again."""
    for number, spelling in enumerate(spellings(architecture(model.variant.model_type), read_config(model.source))):
        tensors = in_spelling(model, spelling)
        folder = tmp_path / str(number)
        source = changed_copy(model, folder / "source", tensors)
        conversion, again = there_and_back(source, folder)
        assert conversion.config.spelling == spelling or tensors.keys() == model.tensors.keys()
        assert weights(folder / "native") == weights(model.native)
        assert_same_weights(again, source, conversion)


def test_spellings_are_known_to_transformers(model: Prepared, tmp_path: Path) -> None:
    variant = model.variant
    wanted = load_reference(model.source, variant).state_dict()
    for number, spelling in enumerate(spellings(architecture(variant.model_type), read_config(model.source))):
        tensors = in_spelling(model, spelling)
        found = load_reference(changed_copy(model, tmp_path / str(number), tensors), variant).state_dict()
        assert found.keys() == wanted.keys()
        assert all(bool((found[name] == wanted[name]).all()) for name in wanted)


def test_tied_copies(model: Prepared, tmp_path: Path) -> None:
    """A file may repeat what is tied; what it repeats must be equal, and comes back."""
    variant = model.variant
    declared, spelling = model.conversion.config.model, model.conversion.config.spelling
    assert spelling is not None
    copies = tied_copies(declared.declaration, variant.config, spelling)
    unused = skipped_tensors(declared.declaration, declared.declared_class, variant.config, spelling)
    for number, (name, slot) in enumerate(copies.items()):
        if name in unused or name in model.tensors:
            continue
        folder = tmp_path / str(number)
        source = changed_copy(model, folder / "source", {**model.tensors, name: model.slots[slot]})
        conversion, again = there_and_back(source, folder)
        assert conversion.plan is not None
        assert list(conversion.plan.copies) == [name]
        assert weights(folder / "native") == weights(model.native)
        assert_same_weights(again, source, conversion)

        write_tensors(source, {**model.tensors, name: model.slots[slot] + 1})
        with pytest.raises(MindportError, match="differs from"):
            convert(source, folder / "other")


def test_tensors_left_out(model: Prepared, tmp_path: Path) -> None:
    """Tensors that are declared unused may be there, whatever their shape; each is reported with its reason."""
    variant = model.variant
    declared, spelling = model.conversion.config.model, model.conversion.config.spelling
    assert spelling is not None
    assert model.conversion.plan is not None
    unused = skipped_tensors(declared.declaration, declared.declared_class, variant.config, spelling)
    names = [name for name in unused if name not in model.tensors]
    source = changed_copy(
        model, tmp_path / "source", {**model.tensors, **{name: np.ones(3, np.float32) for name in names}}
    )
    conversion, again = there_and_back(source, tmp_path)
    assert conversion.plan is not None
    assert conversion.plan.skipped == {**model.conversion.plan.skipped, **{name: unused[name] for name in names}}
    assert weights(tmp_path / "native") == weights(model.native)
    assert_same_weights(again, model.source, model.conversion)


def test_other_spellings_of_config_keys(model: Prepared) -> None:
    variant = model.variant
    hf, wanted = read_config(model.source), model.conversion.config.model.transformer
    for rule in architecture(variant.model_type).rules:
        for alias in rule.aliases:
            (key,) = rule.keys
            renamed = {alias if k == key else k: value for k, value in {key: None, **hf}.items()}
            if renamed[alias] is not None:
                found = replace(from_hf(renamed).transformer, **dict.fromkeys(variant.off, False))
                assert found == wanted, alias


def test_older_spelling_of_a_rope_scaling(model: Prepared) -> None:
    """Before `rope_type` the kind was called `type`."""
    declaration = architecture(model.variant.model_type)
    names = {"rope_type": "type", "type": "rope_type"}
    for key, scaling in model.variant.hf.items():
        if isinstance(declaration.rule_for(key), Rope) and isinstance(scaling, dict):
            other = {names.get(k, k): value for k, value in scaling.items()}
            assert from_hf({**model.variant.hf, key: other}).transformer == from_hf(model.variant.hf).transformer


@each_architecture
def test_other_names_of_classes(model_type: str) -> None:
    declaration, hf = architecture(model_type), variants(model_type)[0].hf
    real = real_classes(declaration)
    for name in set(declaration.classes) - set(real):
        read = from_hf({**hf, "architectures": [name]})
        alike = [other for other in real if declaration.classes[other] == read.declared_class]
        assert read.transformer == from_hf({**hf, "architectures": alike}).transformer
