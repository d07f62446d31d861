"""Weights -> network: exact, complete, and checked afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from mindspore import Parameter, Tensor, nn

from mindport.checkpoint.cast import as_bytes, cast
from mindport.checkpoint.digest import digest_of
from mindport.checkpoint.load_report import LoadError, LoadReport, Misfit
from mindport.errors import MindportError, brief
from mindport.i18n import tr

_WIDENED = ("float16", "bfloat16")
"""Dtypes whose values are float32 values."""

_NAMES = {"float8e4m3fn": "float8_e4m3fn", "float8e5m2": "float8_e5m2"}
"""MindSpore's spelling of a dtype -> the usual one, where they differ."""


@dataclass(frozen=True)
class Given:
    """A tensor to load, not read yet.

    Args:
        name: must be that of a parameter, letter by letter.
        dtype: by its usual name, such as bfloat16.
        shape: in elements.
        nbytes: of its values.
        read: gives them.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    read: Callable[[], np.ndarray]


def load_parameters(network: nn.Cell, arrays: Iterable[tuple[str, np.ndarray]]) -> LoadReport:
    """Put every array into the parameter of exactly its name, shape and dtype.

    Args:
        arrays: (name, array) pairs.

    Raises:
        LoadError: something does not fit, with everything that does not; or the network does not hold the given values
            afterwards. It may then be half loaded.
    """
    given = [Given(name, str(a.dtype), a.shape, a.nbytes, lambda a=a: a) for name, a in arrays]  # type: ignore[misc]
    report = load(network, given)
    if report.count:
        raise LoadError(report)
    return report


def load(
    network: nn.Cell,
    given: Collection[Given],
    *,
    carried: Mapping[str, tuple[int, ...]] | None = None,
    widen: bool = False,
    progress: Callable[[int], None] = lambda nbytes: None,
) -> LoadReport:
    """Put tensors into the parameters of exactly their names, one at a time, and compare what is there afterwards.

    Nothing is read if names, shapes or dtypes do not fit. A parameter's name is what MindSpore's own checkpoints call
    it, `Parameter.name`. `mindspore.load_param_into_net` is not used: it strips prefixes and casts without saying so.

    Args:
        network: whose parameters are set.
        given: the tensors.
        carried: name -> shape of tensors that have to be there as well, without a place in the network.
        widen: turn float16 and bfloat16 into the float32 of the network, which loses nothing. All other differences of
            dtypes are reported in any case.
        progress: called with the number of bytes just loaded.
    """
    carried = carried or {}
    parameters = _parameters(network)
    report = _compare(parameters, given, carried, widen)
    if report.count:
        return report
    loaded = [tensor for tensor in given if tensor.name not in carried]
    digests = {}
    for tensor in loaded:
        digests[tensor.name] = _set(parameters[tensor.name][0], tensor, widen)
        progress(tensor.nbytes)
    held = _parameters(network)  # again, for code of the network may have run
    wrong = {name: None for name, digest in digests.items() if _digest(held.get(name)) != digest}
    right = [tensor for tensor in loaded if tensor.name not in wrong]
    dtypes = tuple(sorted({tensor.dtype for tensor in right}))
    return replace(
        report,
        tensors=len(right),
        nbytes=sum(tensor.nbytes for tensor in right),
        stored_dtypes=dtypes,
        widened=tuple(dtype for dtype in dtypes if widen and dtype in _WIDENED),
        values=tuple(wrong),
    )


def _compare(
    parameters: Mapping[str, list[Parameter]],
    given: Collection[Given],
    carried: Mapping[str, tuple[int, ...]],
    widen: bool,
) -> LoadReport:
    """Names, shapes and dtypes."""
    times = Counter(tensor.name for tensor in given)
    shapes, dtypes = [], []
    for tensor in given:
        if tensor.name in carried:
            shape, dtype = carried[tensor.name], tensor.dtype
        elif tensor.name in parameters:
            parameter = parameters[tensor.name][0]
            shape, dtype = tuple(parameter.shape), _dtype(parameter)
        else:
            continue
        if tensor.shape != shape:
            shapes.append(Misfit(tensor.name, tensor.shape, shape))
        if tensor.dtype != dtype and not (widen and tensor.dtype in _WIDENED and dtype == "float32"):
            dtypes.append(Misfit(tensor.name, tensor.dtype, dtype))
    repeated = {name: None for name, count in times.items() if count > 1}
    repeated |= {name: None for name, found in parameters.items() if len(found) > 1}
    return LoadReport(
        carried=sum(name in carried for name in times),
        not_loaded=tuple(name for name in (*parameters, *carried) if name not in times),
        extra=tuple(name for name in times if name not in parameters and name not in carried),
        shapes=tuple(shapes),
        dtypes=tuple(dtypes),
        repeated=tuple(repeated),
    )


def _parameters(network: nn.Cell) -> dict[str, list[Parameter]]:
    """Parameters by name. A tied one is there once; several of one name are a mistake of the network's."""
    found: dict[str, list[Parameter]] = {}
    for _, parameter in network.parameters_and_names():
        found.setdefault(parameter.name, []).append(parameter)
    return found


def _set(parameter: Parameter, tensor: Given, widen: bool) -> str:
    """Set a parameter, and return the checksum of what it was set to. Nothing is kept in memory."""
    values = tensor.read()
    if widen and tensor.dtype in _WIDENED:
        values = cast(values, "F32", tensor.name)
    digest = digest_of([as_bytes(values)])
    try:
        parameter.set_data(Tensor(values))
    except Exception as error:  # it may be a class of the user's, or a dtype that MindSpore cannot take
        raise MindportError(
            tr("Parameter {name} cannot be set: {error}", name=brief(tensor.name), error=brief(str(error)))
        ) from error
    return digest


def _digest(parameters: list[Parameter] | None) -> str | None:
    return digest_of([as_bytes(parameters[0].asnumpy())]) if parameters else None


def _dtype(parameter: Parameter) -> str:
    name = str(parameter.dtype).lower()
    return _NAMES.get(name, name)
