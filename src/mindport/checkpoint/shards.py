"""Which file each output goes to, and where in it: worked out before anything is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mindport.checkpoint import ckpt, safetensors
from mindport.checkpoint.plan import Output

NAME_MAP = "param_name_map.json"
"""MindSpore's and MindFormers' own index of sharded safetensors: parameter -> file."""


@dataclass(frozen=True)
class Placed:
    """An output in its file.

    Args:
        output: what is written.
        places: (first byte in the file, bytes), in the order of the output's bytes.
    """

    output: Output
    places: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class TargetFile:
    """A weights file to be written.

    Args:
        name: in its folder.
        nbytes: size.
        frames: (first byte, content) of everything that is not weights: header, lengths, names.
        outputs: the weights, in order.
    """

    name: str
    nbytes: int
    frames: tuple[tuple[int, bytes], ...]
    outputs: tuple[Placed, ...]


def safetensors_files(
    outputs: Sequence[Output], metadata: Mapping[str, str], shard_bytes: int | None = None
) -> tuple[TargetFile, ...]:
    """One file, or shards of at most `shard_bytes` of weights (a larger tensor has a shard of its own)."""
    shards = list(_shards(outputs, shard_bytes))
    names = [safetensors.SINGLE_FILE]
    if len(shards) > 1:
        names = [f"model-{number + 1:05}-of-{len(shards):05}.safetensors" for number in range(len(shards))]
    return tuple(_safetensors(name, shard, metadata) for name, shard in zip(names, shards, strict=True))


def _shards(outputs: Sequence[Output], limit: int | None) -> Iterator[list[Output]]:
    shard: list[Output] = []
    size = 0
    for output in outputs:
        if shard and limit is not None and size + output.nbytes > limit:
            yield shard
            shard, size = [], 0
        shard.append(output)
        size += output.nbytes
    yield shard


def _safetensors(name: str, outputs: Sequence[Output], metadata: Mapping[str, str]) -> TargetFile:
    head, offsets = safetensors.make_header([(o.name, o.dtype, o.shape) for o in outputs], metadata)
    placed = tuple(Placed(output, ((offsets[output.name], output.nbytes),)) for output in outputs)
    return TargetFile(name, len(head) + sum(output.nbytes for output in outputs), ((0, head),), placed)


def ckpt_file(outputs: Sequence[Output], name: str) -> TargetFile:
    """MindSpore's `.ckpt`, which is always one file."""
    frames: list[tuple[int, bytes]] = []
    placed: list[Placed] = []
    end = 0
    for output in outputs:
        places = []
        for head, _, length in ckpt.slices(output.name, output.dtype, output.shape):
            frames.append((end, head))
            places.append((end + len(head), length))
            end += len(head) + length
        placed.append(Placed(output, tuple(places)))
    return TargetFile(name, end, tuple(frames), tuple(placed))


def indices(files: Sequence[TargetFile], *, hugging_face: bool, always: bool = False) -> dict[str, dict[str, Any]]:
    """The index files of several shards: file name -> its JSON.

    Args:
        always: MindFormers' own index is written for a single file too.
    """
    if len(files) < 2 and not (always and files[0].name.endswith(".safetensors")):
        return {}
    weight_map = {placed.output.name: file.name for file in files for placed in file.outputs}
    total = sum(placed.output.nbytes for file in files for placed in file.outputs)
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    if hugging_face:
        return {safetensors.INDEX_FILE: index}
    return {**({safetensors.INDEX_FILE: index} if len(files) > 1 else {}), NAME_MAP: weight_map}
