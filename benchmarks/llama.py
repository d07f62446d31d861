"""A Llama-shaped bfloat16 checkpoint of a wanted size, of random bytes, as transformers would lay it out."""

from __future__ import annotations

import json
import os
import pickle
import sys
import zipfile
from collections.abc import Iterator
from math import prod
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

HIDDEN, HEADS, GROUPS, FFN, VOCAB = 2048, 32, 4, 5632, 32000
SHARDS = 3
CHUNK = 1 << 20

Shapes = dict[str, tuple[int, ...]]


def layers_of(gigabytes: float) -> int:
    """The number of layers with which the weights come nearest to a size."""
    outside = sum(map(prod, shapes_of(0).values()))
    return max(1, round((gigabytes * 1e9 / 2 - outside) / (sum(map(prod, shapes_of(1).values())) - outside)))


def shapes_of(layers: int) -> Shapes:
    """Tensor name -> shape."""
    shapes: Shapes = {"model.embed_tokens.weight": (VOCAB, HIDDEN)}
    for layer in range(layers):
        block = f"model.layers.{layer}"
        shapes |= {
            f"{block}.self_attn.q_proj.weight": (HIDDEN, HIDDEN),
            f"{block}.self_attn.k_proj.weight": (HIDDEN // HEADS * GROUPS, HIDDEN),
            f"{block}.self_attn.v_proj.weight": (HIDDEN // HEADS * GROUPS, HIDDEN),
            f"{block}.self_attn.o_proj.weight": (HIDDEN, HIDDEN),
            f"{block}.mlp.gate_proj.weight": (FFN, HIDDEN),
            f"{block}.mlp.up_proj.weight": (FFN, HIDDEN),
            f"{block}.mlp.down_proj.weight": (HIDDEN, FFN),
            f"{block}.input_layernorm.weight": (HIDDEN,),
            f"{block}.post_attention_layernorm.weight": (HIDDEN,),
        }
    return shapes | {"model.norm.weight": (HIDDEN,), "lm_head.weight": (VOCAB, HIDDEN)}


def make(folder: Path, gigabytes: float, *, torch_zip: bool = False) -> None:
    """Write a model folder: config.json, three shards and their index.

    Args:
        folder: is made.
        gigabytes: of weights, about.
        torch_zip: shards as torch.save writes them (torch is not needed), in place of safetensors.
    """
    folder.mkdir(parents=True)
    layers = layers_of(gigabytes)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "intermediate_size": FFN,
        "num_hidden_layers": layers,
        "num_attention_heads": HEADS,
        "num_key_value_heads": GROUPS,
        "vocab_size": VOCAB,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    stem, suffix = ("pytorch_model", "bin") if torch_zip else ("model", "safetensors")
    weight_map = {}
    for number, shapes in enumerate(_shards(shapes_of(layers)), 1):
        name = f"{stem}-{number:05}-of-{SHARDS:05}.{suffix}"
        with (folder / name).open("wb") as file:
            (_write_torch_zip if torch_zip else _write_safetensors)(file, shapes)
            file.flush()
            os.fsync(file.fileno())
        weight_map |= dict.fromkeys(shapes, name)
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / f"{stem}.{suffix}.index.json").write_text(json.dumps(index), encoding="utf-8")


def _shards(shapes: Shapes) -> list[Shapes]:
    shards: list[Shapes] = [{} for _ in range(SHARDS)]
    whole, before = sum(map(prod, shapes.values())), 0
    for name, shape in shapes.items():
        shards[before * SHARDS // whole][name] = shape
        before += prod(shape)
    return shards


def _random(count: int) -> Iterator[bytes]:
    for start in range(0, count, CHUNK):
        yield os.urandom(min(CHUNK, count - start))


def _write_safetensors(file: BinaryIO, shapes: Shapes) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end := end + 2 * prod(shape)]}
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    file.write(len(head).to_bytes(8, "little") + head)
    for chunk in _random(end):
        file.write(chunk)


def _write_torch_zip(file: BinaryIO, shapes: Shapes) -> None:
    """A zip of a pickle and of one member for each tensor. The pickle names functions of torch; stand-ins do."""
    torch, utils = ModuleType("torch"), ModuleType("torch._utils")
    storage = type("BFloat16Storage", (), {"__module__": "torch"})

    def _rebuild_tensor_v2() -> None: ...

    _rebuild_tensor_v2.__module__, _rebuild_tensor_v2.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
    vars(torch)["BFloat16Storage"], vars(utils)["_rebuild_tensor_v2"] = storage, _rebuild_tensor_v2

    class Tensor:
        def __init__(self, key: int, shape: tuple[int, ...]) -> None:
            self.key, self.shape = key, shape

        def __reduce__(self) -> tuple[Any, ...]:
            strides = tuple(prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))
            return _rebuild_tensor_v2, (Stored(self.key, prod(self.shape)), 0, self.shape, strides, False, {})

    class Stored:
        def __init__(self, key: int, count: int) -> None:
            self.id = ("storage", storage, str(key), "cpu", count)

    class Pickler(pickle._Pickler):
        def persistent_id(self, obj: object) -> Any:
            return obj.id if isinstance(obj, Stored) else None

    with zipfile.ZipFile(file, "w") as archive:
        hidden = {name: sys.modules.pop(name) for name in ("torch", "torch._utils") if name in sys.modules}
        sys.modules |= {"torch": torch, "torch._utils": utils}
        try:
            with archive.open("archive/data.pkl", "w") as member:
                tensors = {name: Tensor(key, shape) for key, (name, shape) in enumerate(shapes.items())}
                Pickler(member, protocol=2).dump(tensors)
        finally:
            del sys.modules["torch"], sys.modules["torch._utils"]
            sys.modules |= hidden
        archive.writestr("archive/version", b"3\n")
        for key, shape in enumerate(shapes.values()):
            with archive.open(f"archive/data/{key}", "w", force_zip64=True) as member:
                for chunk in _random(2 * prod(shape)):
                    member.write(chunk)
