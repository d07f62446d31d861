"""A tiny transformers model with random values in every tensor, as a folder, and both sides run on the same tokens."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mindport.architectures import architecture
from mindport.architectures.naming import spellings, tensor_map
from mindport.checkpoint import safetensors
from mindport.checkpoint.convert import Conversion, convert
from mindport.checkpoint.files import read
from mindport.checkpoint.match import spelling_of
from mindport.config.hf import from_hf
from mindport.config.json_file import read_json_object
from mindport.schema import TransformerConfig, slots_of
from mindport.targets import NATIVE
from mindport.targets.native import is_carried
from mindport.verify.batches import Batch
from mindport.verify.compare import Difference
from mindport.verify.parity import forward_parity
from mindport.verify.torch_model import arrays_of

from .generator import LENGTH, Variant

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class TypedBatch(Batch):
    """A batch with segments.

    Args:
        token_type_ids: (batch, seq) int32; None = not given to the model.
        bare: give the model nothing but ids; the mask is then all ones.
    """

    token_type_ids: np.ndarray | None = None
    bare: bool = False

    @property
    def inputs(self) -> dict[str, np.ndarray]:
        """What the model is given, by transformers' names."""
        given = {
            "input_ids": self.input_ids,
            "attention_mask": self.attention_mask,
            "token_type_ids": self.token_type_ids,
        }
        return {name: a for name, a in given.items() if a is not None and (name == "input_ids" or not self.bare)}


class Prepared:
    """A variant as a Hugging Face folder and as a converted one, with what both sides compute.

    Args:
        variant: what to make.
        folder: to work in.
    """

    def __init__(self, variant: Variant, folder: Path) -> None:
        self.variant = variant
        self.source, self.native = folder / "source", folder / "native"
        save(variant, self.source)
        self.conversion: Conversion = convert(self.source, self.native)

    @cached_property
    def tensors(self) -> Arrays:
        """The tensors of the Hugging Face file."""
        return read_tensors(self.source)

    @cached_property
    def slots(self) -> Arrays:
        """The slots of the converted file."""
        return to_slots(self.variant.config, read_tensors(self.native))

    @cached_property
    def batches(self) -> list[TypedBatch]:
        return make_batches(self.variant.config)

    @cached_property
    def reference(self) -> dict[str, Mapping[str, np.ndarray]]:
        """What transformers computes, by batch."""
        network = load_reference(self.source, self.variant)
        return {batch.name: run_torch(network, batch) for batch in self.batches}

    @cached_property
    def network(self) -> Any:
        """The native network with the converted weights. Who changes it restores it."""
        from mindport.models.folder import load_folder

        return load_folder(self.native).network

    def compare(self, network: Any, batches: Sequence[Batch]) -> list[Difference]:
        """A native network against the reference."""
        return forward_parity(
            batches, lambda batch: run_native(network, batch), lambda batch: self.reference[batch.name]
        )


def fresh(variant: Variant) -> Any:
    """The transformers model as it is before training."""
    import transformers

    # A copy: transformers writes into the RoPE settings that it is given.
    keys = {key: deepcopy(value) for key, value in variant.hf.items() if key not in ("model_type", "architectures")}
    config = transformers.AutoConfig.for_model(variant.model_type, **keys)
    config._attn_implementation = architecture(variant.model_type).reference_attention
    return getattr(transformers, variant.hf_class)(config).eval()


def build(variant: Variant) -> Any:
    """The transformers model, every tensor random."""
    model = fresh(variant)
    seed, batches = zlib.crc32(str(variant).encode()), make_batches(variant.config)
    initial = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    randomise(model, seed)
    while not routes_clearly(model, batches):
        seed += 1
        model.load_state_dict(initial)
        randomise(model, seed)
    return model


MARGIN = 2e-4
"""What the input of a router may be off, relatively, without another choice of experts."""


LEAST = 3
"""Real tokens of the first batch that go to an expert."""


def routes_clearly(model: Any, batches: Sequence[TypedBatch]) -> bool:
    """Whether every expert has tokens, and every token keeps its experts when each router's input is a little off.

    A mistake in an expert that has none would not show. Two experts that score all but alike would be chosen by the
    last bit of a sum, which no two frameworks share.
    """
    import torch

    routers = [module for name, module in model.named_modules() if type(module).__name__.endswith("Router")]
    if not routers:
        return True
    generator = torch.Generator().manual_seed(0)
    seen: list[Any] = []

    def disturb(_: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        x, *rest = inputs
        return (x + MARGIN * x.norm(dim=-1, keepdim=True) * unit(torch.randn(x.shape, generator=generator)), *rest)

    def unit(x: Any) -> Any:
        return x / x.norm(dim=-1, keepdim=True)

    def note(_: Any, __: Any, outputs: tuple[Any, ...]) -> None:
        # The numbers of the experts; what else a router returns differs between the generations of transformers.
        (chosen,) = (output for output in outputs if not output.is_floating_point())
        seen.append(chosen.sort(-1).values)

    hooks = [router.register_forward_hook(note) for router in routers]
    for batch in batches:
        run_torch(model, batch)
    wanted, real = list(seen), torch.from_numpy(batches[0].attention_mask.reshape(-1) == 1)
    clear = all(
        bool((chosen[real].flatten().bincount(minlength=len(router.weight)) >= LEAST).all())
        for router, chosen in zip(routers, wanted, strict=False)  # of the first batch, one each
    )
    hooks += [router.register_forward_pre_hook(disturb) for router in routers]
    for _ in range(3 if clear else 0):
        seen.clear()
        for batch in batches:
            run_torch(model, batch)
        clear = clear and all(torch.equal(a, b) for a, b in zip(seen, wanted, strict=True))
    for hook in hooks:
        hook.remove()
    return clear


def randomise(model: Any, seed: int) -> None:
    """Give every parameter and every saved buffer values of its own, such that outputs are about 1.

    With biases 0 and norms 1, as a fresh model has them, a dropped or swapped one would not show.
    """
    import torch
    from transformers.pytorch_utils import Conv1D

    generator = torch.Generator().manual_seed(seed)
    saved = set(model.state_dict())
    with torch.no_grad():
        for prefix, module in model.named_modules():
            own = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
            for name, tensor in own:
                if f"{prefix}.{name}".lstrip(".") not in saved or not tensor.is_floating_point():
                    continue
                values = torch.randn(tensor.shape, generator=generator)
                if tensor.ndim < 2:
                    # Around the constant that a norm's weight starts from, be it 1 or an offset of 0.
                    first = tensor.flatten()[0]
                    values = 0.3 * values + (first if bool((tensor == first).all()) else 0.0)
                else:
                    # Embeddings too are read by rows of this width: they may be tied to the output projection.
                    transposed = isinstance(module, Conv1D) or getattr(module, "is_transposed", False)
                    values = values * tensor.shape[-2 if transposed else -1] ** -0.5
                tensor.copy_(values)


def save(variant: Variant, folder: Path) -> None:
    """Write the variant as transformers does, then take away the optional parts it should lack, and add what files hold
    but transformers does not compute."""
    build(variant).save_pretrained(folder)
    saved = read_tensors(folder)
    described, config = from_hf(variant.hf), variant.config
    spelling = spelling_of(described, saved)
    whole, wanted = (
        tensor_map(described.declaration, transformer, spelling) for transformer in (described.transformer, config)
    )
    tensors = {name: array for name, array in saved.items() if name in wanted or name not in whole}
    rng, shapes = np.random.default_rng(variant.number), slots_of(config)
    for name in sorted(carried_tensors(variant) & wanted.keys()):
        shape = wanted[name].shape([shapes[part] for part in wanted[name].parts])
        tensors[name] = rng.standard_normal(shape, np.float32)
    if tensors.keys() != saved.keys():
        write_tensors(folder, tensors)
    assert len({array.tobytes() for array in tensors.values()}) == len(tensors), "two tensors are alike"
    assert all(array.std() > 0 for array in tensors.values()), "a tensor is constant"


def carried_tensors(variant: Variant) -> set[str]:
    """Names, in all spellings, of tensors that neither the native model nor transformers computes with."""
    declaration = architecture(variant.model_type)
    return {
        name
        for spelling in spellings(declaration)
        for name, stored in tensor_map(declaration, variant.config, spelling).items()
        if all(is_carried(part) for part in stored.parts)
    }


def load_reference(folder: Path, variant: Variant) -> Any:
    """The folder through transformers, complete: nothing missing, left over or of another shape."""
    import torch
    import transformers

    # A part that a file may lack is an argument of the bare class; the declaration's switch bears the same name.
    extra = {_ARGUMENTS[switch]: False for switch in variant.off if switch in _ARGUMENTS}
    model, info = getattr(transformers, variant.hf_class).from_pretrained(
        folder,
        dtype=torch.float32,
        attn_implementation=architecture(variant.model_type).reference_attention,
        output_loading_info=True,
        **extra,
    )
    problems = {key: set(map(str, info[key])) for key in ("missing_keys", "unexpected_keys", "mismatched_keys")}
    problems["unexpected_keys"] -= carried_tensors(variant)
    assert not any(problems.values()), problems
    return model.eval()


_ARGUMENTS = {"add_pooler": "add_pooling_layer"}
"""Optional part -> argument of the transformers class that leaves it out."""


def make_batches(config: TransformerConfig) -> list[TypedBatch]:
    """Three rows with segments, of which one is padded on the left and one on the right; and three given bare."""
    rng = np.random.default_rng(0)
    shape = (3, LENGTH)
    pad = config.pad_token_id if config.pad_token_id is not None else 0
    tokens = [token for token in range(config.vocab_size) if token != pad]
    plain, padded = (rng.choice(tokens, shape).astype(np.int32) for _ in range(2))
    mask = np.ones(shape, np.int32)
    mask[1, :9], mask[2, -7:] = 0, 0
    padded[mask == 0] = pad
    kinds = rng.integers(0, config.num_token_types, shape, dtype=np.int32) if config.num_token_types else None
    return [TypedBatch("padded", padded, mask, kinds), TypedBatch("bare", plain, np.ones(shape, np.int32), bare=True)]


def run_torch(network: Any, batch: TypedBatch) -> Mapping[str, np.ndarray]:
    """Outputs of the transformers model by name."""
    import torch

    with torch.no_grad():
        output = network(**{name: torch.from_numpy(array).long() for name, array in batch.inputs.items()})
    return arrays_of(output)


def run_native(network: Any, batch: TypedBatch) -> Mapping[str, np.ndarray]:
    """Outputs of the native network by name."""
    import mindspore as ms

    output = network(**{name: ms.Tensor(array) for name, array in batch.inputs.items()})
    named = {name: getattr(output, name) for name in ("logits", "last_hidden_state", "pooler_output")}
    return {name: value.asnumpy() for name, value in named.items() if value is not None}


def to_slots(config: TransformerConfig, parameters: Arrays) -> Arrays:
    """The slots that the parameters of the native target hold."""
    shapes = slots_of(config)
    return {
        slot: np.ascontiguousarray(array)
        for name, stored in NATIVE.parameters(config).items()
        for slot, array in zip(
            stored.parts, stored.split(parameters[name], [shapes[part] for part in stored.parts]), strict=True
        )
    }


def to_parameters(config: TransformerConfig, slots: Arrays) -> Arrays:
    """The parameters of the native target, from its slots."""
    return {
        name: stored.join([slots[part] for part in stored.parts]) for name, stored in NATIVE.parameters(config).items()
    }


def computed(config: TransformerConfig, slots: Arrays) -> Arrays:
    """Those of the parameters that the native network has."""
    return {name: array for name, array in to_parameters(config, slots).items() if not is_carried(name)}


def read_tensors(folder: Path) -> Arrays:
    """All tensors of a folder's safetensors file, in the file's order."""
    return {name: read(entry) for name, entry in safetensors.read_header(folder / safetensors.SINGLE_FILE).items()}


def write_tensors(folder: Path, tensors: Arrays) -> None:
    """The file as transformers would write it: by the safetensors package, with its mark."""
    import torch
    from safetensors.torch import save_file

    def tensor(array: np.ndarray) -> Any:
        array = np.array(array, order="C")
        if array.dtype.name == "bfloat16":
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)

    save_file(
        {name: tensor(a) for name, a in tensors.items()}, folder / safetensors.SINGLE_FILE, metadata={"format": "pt"}
    )


def read_config(folder: Path) -> dict[str, Any]:
    return read_json_object(folder / "config.json")


def write_config(folder: Path, config: Mapping[str, Any]) -> None:
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
