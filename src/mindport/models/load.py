"""Weights -> network: exact, complete, and checked afterwards."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import mindspore as ms
import ml_dtypes
import numpy as np
from mindspore import Parameter, Tensor, nn

from mindport.errors import MindportError
from mindport.i18n import tr


def load_parameters(network: nn.Cell, arrays: Iterable[tuple[str, np.ndarray]], *, cast: bool = False) -> None:
    """Put every array into the parameter of exactly its name.

    `mindspore.load_param_into_net` is not used: it strips prefixes and casts dtypes without saying so.

    Args:
        arrays: (slot name, array) pairs; consumed one by one, so they may be read from disk as they go.
        cast: convert to the parameter's dtype where it differs. Without it a difference is an error.

    Raises:
        MindportError: names, shapes or dtypes differ, with all differences in one message; or the network
            does not hold the given values afterwards. The network is then in an undefined state.
    """
    parameters: dict[str, Parameter] = dict(network.parameters_and_names())
    checksums: dict[str, int] = {}
    problems: list[str] = []
    for name, array in arrays:
        problem = _problem(name, array, parameters, seen=name in checksums, cast=cast)
        if problem:
            problems.append(problem)
            checksums.setdefault(name, 0)
            continue
        values = array.astype(_numpy_dtype(parameters[name]), copy=False)
        parameters[name].set_data(Tensor(values))
        checksums[name] = _checksum(values)
    problems += [tr("{name}: no array for this parameter", name=name) for name in parameters if name not in checksums]
    if not problems:
        problems = [
            tr("{name}: the network does not hold the values it was given", name=name)
            for name, checksum in checksums.items()
            if _checksum(parameters[name].asnumpy()) != checksum
        ]
    if problems:
        raise MindportError(
            tr("{count} weights do not fit the network:\n{list}", count=len(problems), list=_listed(problems))
        )


def _problem(name: str, array: np.ndarray, parameters: dict[str, Parameter], *, seen: bool, cast: bool) -> str | None:
    if seen:
        return tr("{name}: given twice", name=name)
    if name not in parameters:
        return tr("{name}: the network has no such parameter", name=name)
    shape = tuple(parameters[name].shape)
    if array.shape != shape:
        return tr("{name}: shape {given}, the network needs {needed}", name=name, given=array.shape, needed=shape)
    dtype = _numpy_dtype(parameters[name])
    if array.dtype != dtype and not cast:
        return tr("{name}: dtype {given}, the network needs {needed}", name=name, given=array.dtype, needed=dtype)
    return None


def _numpy_dtype(parameter: Parameter) -> np.dtype:
    if parameter.dtype == ms.bfloat16:
        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(str(parameter.dtype).lower())


def _checksum(values: np.ndarray) -> int:
    # As bytes: the buffer protocol does not know bfloat16.
    return zlib.crc32(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)


def _listed(problems: list[str], most: int = 40) -> str:
    lines = [f"  {problem}" for problem in problems[:most]]
    if len(problems) > most:
        lines.append("  " + tr("... and {count} more", count=len(problems) - most))
    return "\n".join(lines)
