"""The gate notices every mistake a conversion could make, but for those that provably change nothing.

What changes nothing in the outputs is run all the same, to see that it does not, and has to be noticed by the
comparison of the bytes or of the config instead.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindport.architectures.naming import tensor_map
from mindport.checkpoint import safetensors
from mindport.checkpoint.export import export
from mindport.checkpoint.plan import make_plan
from mindport.config.hf import to_hf
from mindport.config.native import write_native_config
from mindport.errors import MindportError
from mindport.models import build_model, load_parameters
from mindport.schema import slots_of
from mindport.targets import NATIVE
from mindport.verify.gates import STRICT
from mindport.verify.parity import forward_parity

from .mutations import Mutation, config_mutations, weight_mutations, why_invisible
from .random_model import Prepared, computed, read_config, read_tensors, run_native, to_parameters, write_tensors

EVERY = "MINDPORT_EVERY_MUTATION" in os.environ
"""As `make slow` sets it: every mistake in every model."""

WHOLE, SHARES = 3, 3
"""Models of an architecture in which every mistake is made; beyond them each makes one share, the next the next."""


def share(model: Prepared, mutations: Iterator[Mutation]) -> Iterator[Mutation]:
    """The mistakes to make in a model: all, or the part that falls to it."""
    number = model.variant.number
    if EVERY or number < WHOLE:
        return mutations
    return islice(mutations, number % SHARES, None, SHARES)


def noticed(model: Prepared, network: Any) -> bool:
    """Whether the outputs of a network fail the gate, as the verification of a migration compares them."""
    batch = model.batches[0]
    wanted, found = model.reference[batch.name], run_native(network, batch)
    if wanted.keys() - found.keys():
        return True
    return not all(d.passes(STRICT) for d in forward_parity([batch], lambda _: found, lambda _: wanted))


def weights_noticed(model: Prepared, set_mode: Callable[[str], None]) -> Iterator[tuple[Mutation, bool]]:
    set_mode("graph")  # compiled once: its weights are arguments
    network, config = model.network, model.variant.config
    assert not noticed(model, network)
    try:
        for mutation in share(model, weight_mutations(model)):
            load_parameters(network, computed(config, {**model.slots, **mutation.weights}).items())
            yield mutation, noticed(model, network)
    finally:
        load_parameters(network, computed(config, model.slots).items())
    assert not noticed(model, network)


def configs_noticed(model: Prepared, set_mode: Callable[[str], None]) -> Iterator[tuple[Mutation, bool]]:
    set_mode("pynative")
    for mutation in share(model, config_mutations(model)):
        assert mutation.config is not None
        try:
            network = build_model(mutation.config, initialise=False)
        except MindportError:
            yield mutation, True
            continue
        arrays = computed(mutation.config, {**model.slots, **mutation.weights})
        load_parameters(network, arrays.items())
        yield mutation, noticed(model, network)


def noticed_otherwise(model: Prepared, mutation: Mutation, folder: Path) -> bool:
    """Whether the way back shows it: another file, or another config."""
    if mutation.config is not None:
        return mutation.config != model.variant.config
    folder.mkdir()
    write_native_config(folder, model.conversion.config)
    write_tensors(folder, to_parameters(model.variant.config, {**model.slots, **mutation.weights}))
    export(folder, folder / "again")
    found, source = read_tensors(folder / "again"), model.tensors
    return any(not np.array_equal(found[name], source[name]) for name in found)


@pytest.mark.parametrize("kind", [weights_noticed, configs_noticed], ids=["weights", "config"])
def test_mutations(
    kind: Callable[..., Iterator[tuple[Mutation, bool]]],
    model: Prepared,
    set_mode: Callable[[str], None],
    record: Callable[[str, Any], None],
    tmp_path: Path,
) -> None:
    config = model.variant.config
    made, wrong, invisible = 0, [], Counter[str]()
    for mutation, caught in kind(model, set_mode):
        reason = why_invisible(config, mutation)
        if reason is None:
            made += 1
            if not caught:
                wrong.append(f"{mutation.name}: not noticed")
            continue
        invisible[reason] += 1
        if caught:
            wrong.append(f"{mutation.name}: shows, although {reason}")
        if not noticed_otherwise(model, mutation, tmp_path / str(len(list(tmp_path.iterdir())))):
            wrong.append(f"{mutation.name}: not noticed on the way back either")
    for what, value in {"made": made, "caught": made - len(wrong), "invisible": dict(invisible)}.items():
        record(what, value)
    assert made
    assert not wrong, "\n".join(wrong)


def test_files_that_do_not_fit_are_refused(model: Prepared) -> None:
    """Each tensor missing, each matrix of another shape, and one too many."""
    described, spelling = model.conversion.config.model, model.conversion.config.spelling
    assert spelling is not None
    config = described.transformer
    source = safetensors.read_header(model.source / safetensors.SINGLE_FILE)
    tensors = tensor_map(described.declaration, config, spelling)
    tensors = {name: stored for name, stored in tensors.items() if name in source}
    source = {name: entry for name, entry in source.items() if name in tensors}

    def problems(changed: Any) -> list[str]:
        return [p.tensor for p in make_plan(changed, tensors, NATIVE.parameters(config), slots_of(config)).problems]

    for name, entry in source.items():
        assert problems({k: v for k, v in source.items() if k != name}) == [name]
        turned = replace(entry, shape=(*entry.shape, 1) if len(set(entry.shape)) == 1 else entry.shape[::-1])
        assert problems({**source, name: turned}) == [name]
        assert problems({**source, f"{name}.more": replace(entry, name=f"{name}.more")}) == [f"{name}.more"]


def test_configs_that_cannot_be_written_are_refused(model: Prepared) -> None:
    """A canonical config goes back to exactly one Hugging Face config, or is refused; it is never rounded."""
    described = model.conversion.config.model
    for mutation in config_mutations(model):
        assert mutation.config is not None
        if mutation.field in described.declared_class.optional:
            continue  # said by the tensors, not by the config
        try:
            written = to_hf(replace(described, transformer=mutation.config))
        except MindportError:
            continue
        assert written != read_config(model.source), mutation.name
