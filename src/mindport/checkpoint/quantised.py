"""Quantised checkpoints: block-scaled fp8 becomes values, everything else is refused by name.

The formula is that of DeepSeek-V3's published dequantisation: each block of a matrix, as float32, times its own scale
(`weight_scale_inv`, which in spite of its name is multiplied), rounded once to the model's dtype.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mindport.architectures.quantisation import KEY, block_size, refusal
from mindport.architectures.vocabulary import checked
from mindport.checkpoint.dtypes import FLOATS, NAMES, numpy_dtype
from mindport.checkpoint.files import Files
from mindport.checkpoint.source import BlockScales, Checkpoint, TensorEntry
from mindport.errors import MindportError, brief
from mindport.i18n import tr

if TYPE_CHECKING:
    import numpy as np

_SUFFIX = "_scale_inv"
"""What the scales of a tensor are called, after the tensor's own name."""

_STORED = "F8_E4M3"

_SCALES = ("F32", "BF16", "F16")
"""Dtypes that scales have in files: float32 in DeepSeek's, bfloat16 in Qwen3's."""

_VALUES = {NAMES[code]: code for code in FLOATS}

_DEFAULT = "bfloat16"
"""Of the values where the config names no dtype: what these models were trained in."""


def pair_scales(entries: Checkpoint, hf: Mapping[str, Any]) -> dict[str, TensorEntry]:
    """The tensors with each block-scaled fp8 matrix and its scales as one entry. Reads no file.

    Args:
        entries: of all files; the scales of a matrix may lie in another file than the matrix.
        hf: the config of the model.

    Returns:
        all other tensors as they are, in the order of `entries`.

    Raises:
        MindportError: fp8 elements without scales, scales without elements, or scales of another shape or dtype; or
            weights that are quantised otherwise, by what the config says or by what the tensors are.
    """
    block = block_size(hf)
    found = dict(entries) if block is None else _paired(entries, block, _dtype(hf))
    refuse_quantised(found)
    return found


def refuse_quantised(entries: Checkpoint) -> None:
    """Refuse tensors that are not weights but what a method of quantisation makes of them.

    Raises:
        MindportError: there are some; it names the method, the first tensor and what to do.
    """
    for name, entry in entries.items():
        method = _method(name, entries)
        if method:
            error = refusal(method)
            raise MindportError(
                tr("{tensor} belongs to weights that are quantised with {method}.", tensor=brief(name), method=method),
                error.fix,
            )
        if entry.dtype.startswith("F8") and not entry.scales:
            raise MindportError(
                tr(
                    "{tensor} has dtype {dtype}, and config.json does not say how it is scaled.",
                    tensor=brief(name),
                    dtype=NAMES[entry.dtype],
                ),
                tr("Take config.json from where the weights come from: its {key} says so.", key=KEY),
            )


def rows(
    files: Files, entry: TensorEntry, start: int, stop: int, left: int = 0, right: int | None = None
) -> np.ndarray:
    """The values of rows [start, stop) of a block-scaled matrix; of them, those in the columns [left, right).

    Only these values and the scales of the rows' blocks are in memory.

    Returns:
        (stop - start, right - left) in the dtype of the entry, rounded to nearest, ties to even.

    Raises:
        MindportError: a file is gone or has changed; or a value is beyond the largest float16.
    """
    import numpy as np

    scales = entry.scales
    assert scales is not None, "not a block-scaled tensor"
    (height, width), right = scales.block, entry.shape[1] if right is None else right
    stored = replace(entry, dtype=scales.stored_dtype, scales=None)
    values = files.box(stored, (start, left), (stop, right)).astype(np.float32)
    finite = np.isfinite(values)  # where the file itself has no infinity, there must be none afterwards
    first, last = start // height, -(-stop // height)
    factors = files.box(scales.factors, (first, 0), (last, scales.factors.shape[1])).astype(np.float32)
    for number, of_blocks in enumerate(factors, first):
        band = slice(max(number * height - start, 0), (number + 1) * height - start)
        wide = np.repeat(of_blocks, width)[left:right]
        with np.errstate(over="ignore", invalid="ignore"):
            values[band] *= wide
        finite[band] &= np.isfinite(wide)
    with np.errstate(over="ignore"):
        result = values.astype(numpy_dtype(entry.dtype), copy=False)
    if np.any(np.isinf(result) & finite):
        raise MindportError(
            tr("{tensor} has values that {dtype} cannot hold.", tensor=brief(entry.name), dtype=NAMES[entry.dtype]),
            tr("Set dtype (torch_dtype in older files) to bfloat16 in config.json."),
        )
    return result


def _paired(entries: Checkpoint, block: tuple[int, int], dtype: str) -> dict[str, TensorEntry]:
    found = {}
    for name, entry in entries.items():
        if entry.dtype == _STORED:
            factors = _factors(entry, entries.get(name + _SUFFIX), block)
            found[name] = replace(entry, dtype=dtype, scales=BlockScales(_STORED, factors, block))
        elif not name.endswith(_SUFFIX):
            found[name] = entry
        elif getattr(entries.get(name.removesuffix(_SUFFIX)), "dtype", None) != _STORED:
            raise MindportError(
                tr("{tensor} holds scales, and there is no fp8 tensor that they belong to.", tensor=brief(name)),
                tr("Download or save the checkpoint again."),
            )
    return found


def _factors(entry: TensorEntry, factors: TensorEntry | None, block: tuple[int, int]) -> TensorEntry:
    """The scales of a matrix, checked to be what the block size implies."""
    if len(entry.shape) != 2:
        raise MindportError(
            tr("{tensor} is fp8 and has shape {shape}.", tensor=brief(entry.name), shape=list(entry.shape)),
            tr("Only matrices are read; save each expert's matrices by themselves, as the original has them."),
        )
    if factors is None:
        raise MindportError(
            tr(
                "{tensor} is fp8, and its scales, {scales}, are missing.",
                tensor=brief(entry.name),
                scales=brief(entry.name + _SUFFIX),
            ),
            tr("Download or save the checkpoint again."),
        )
    shape = tuple(-(-size // step) for size, step in zip(entry.shape, block, strict=True))
    if factors.shape != shape or factors.dtype not in _SCALES:
        raise MindportError(
            tr(
                "{scales} has dtype {dtype} and shape {found}; blocks of {block} imply {wanted} in {dtypes}.",
                scales=brief(factors.name),
                dtype=factors.dtype,
                found=list(factors.shape),
                block=list(block),
                wanted=list(shape),
                dtypes=", ".join(_SCALES),
            ),
            tr("Correct weight_block_size in config.json, or take it from where the weights come from."),
        )
    return factors


def _dtype(hf: Mapping[str, Any]) -> str:
    """The safetensors code of the config's dtype."""
    named = next((hf[key] for key in ("dtype", "torch_dtype") if hf.get(key) is not None), _DEFAULT)
    return _VALUES[checked("dtype", named, tuple(_VALUES))]


def _method(name: str, entries: Checkpoint) -> str | None:
    """The method of quantisation that a tensor's name gives away, with those beside it; fp8 is told by its dtype."""
    if name.endswith(".qweight") and f"{name.removesuffix('qweight')}qzeros" in entries:
        return "gptq" if f"{name.removesuffix('qweight')}g_idx" in entries else "gptq or awq"
    if name.endswith((".absmax", ".SCB")) or ".quant_state." in name:
        return "bitsandbytes"
    if name.endswith("_blocks") and f"{name.removesuffix('_blocks')}_scales" in entries:
        return "mxfp4"
    return "compressed-tensors" if name.endswith(".weight_packed") else None
