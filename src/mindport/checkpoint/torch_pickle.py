"""What the names in torch's pickles stand for: tensors as ranges of storages, and things of no interest.

The functions that rebuild a tensor, and their arguments, are those of torch/_utils.py and torch/_tensor.py from 1.0 to
2.13; persistent ids are those of torch/serialization.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mindport.checkpoint.dtypes import ITEM_SIZE, NAMES
from mindport.checkpoint.pickle_program import OPAQUE, Function

CODES = {name: code for code, name in NAMES.items()}
"""torch's name of a dtype -> safetensors code, for those that are supported."""

_OTHER_SIZES = {
    "complex32": 4, "complex64": 8, "complex128": 16, "qint8": 1, "quint8": 1, "qint32": 4, "quint4x2": 1,
    "quint2x4": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1, "float4_e2m1fn_x2": 1,
}  # fmt: skip
"""torch's dtypes that are recognised and not supported -> bytes of an element."""

_SIZES = {name: ITEM_SIZE[code] for name, code in CODES.items()} | _OTHER_SIZES

_STORAGES = {
    "torch.DoubleStorage": "float64", "torch.FloatStorage": "float32", "torch.HalfStorage": "float16",
    "torch.BFloat16Storage": "bfloat16", "torch.LongStorage": "int64", "torch.IntStorage": "int32",
    "torch.ShortStorage": "int16", "torch.CharStorage": "int8", "torch.ByteStorage": "uint8",
    "torch.BoolStorage": "bool", "torch.ComplexFloatStorage": "complex64", "torch.ComplexDoubleStorage": "complex128",
    "torch.QInt8Storage": "qint8", "torch.QUInt8Storage": "quint8", "torch.QInt32Storage": "qint32",
    "torch.QUInt4x2Storage": "quint4x2", "torch.QUInt2x4Storage": "quint2x4",
    "torch.storage.UntypedStorage": "uint8",
}  # fmt: skip
"""Storage class -> dtype of its elements; an untyped one counts bytes."""

_MOST_AXES = 64
"""The limit of torch."""


@dataclass(frozen=True, slots=True)
class Dtype:
    """A dtype, by torch's name."""

    name: str


@dataclass(frozen=True, slots=True)
class _StorageClass:
    dtype: str


@dataclass(frozen=True, slots=True)
class Storage:
    """A run of elements that are saved under a key.

    Args:
        key: of the whole storage.
        dtype: torch's name.
        start, count: in elements of the whole storage.
    """

    key: str
    dtype: str
    start: int
    count: int


@dataclass(frozen=True, slots=True)
class Tensor:
    """A view of a storage: dtype by torch's name; offset and strides in elements of it. Extents are not yet checked."""

    storage: Storage
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Special:
    """A tensor that is not a plain array, or a storage in a tensor's place, and which kind it is."""

    kind: str


class Storages:
    """Makes storages of persistent ids, and remembers them.

    `whole` holds each whole storage by its key: (dtype, number of elements).
    """

    def __init__(self) -> None:
        self.whole: dict[str, tuple[str, int]] = {}
        self._views: dict[str, Storage] = {}

    def __call__(self, persistent: Any) -> Storage:
        """The storage of a persistent id.

        Args:
            persistent: ("storage", class, key, device, elements) and, in legacy files, None or (key of a view, first
                element, elements).

        Raises:
            ValueError: anything else, or a storage that was described otherwise before.
        """
        kind, cls, key, _, count, view = persistent if len(persistent) == 6 else (*persistent, None)
        if kind != "storage" or not isinstance(cls, _StorageClass) or not isinstance(key, str):
            raise ValueError("not a storage")
        whole = (cls.dtype, _count(count))
        if self.whole.setdefault(key, whole) != whole:
            raise ValueError("one storage, two descriptions")
        if view is None:
            return Storage(key, cls.dtype, 0, whole[1])
        view_key, start, length = view
        storage = Storage(key, cls.dtype, _count(start), _count(length))
        if storage.start + storage.count > whole[1] or not isinstance(view_key, str):
            raise ValueError("a view outside its storage")
        if self._views.setdefault(view_key, storage) != storage:
            raise ValueError("one view, two descriptions")
        return storage


def item_size(dtype: str) -> int:
    """Bytes of an element of one of torch's dtypes."""
    return _SIZES[dtype]


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= sys.maxsize:
        raise ValueError("not a count")
    return value


def _counts(value: Any) -> tuple[int, ...]:
    if not isinstance(value, tuple) or len(value) > _MOST_AXES:
        raise ValueError("not a shape")
    return tuple(_count(item) for item in value)


def _view(storage: Any, dtype: str | None, offset: Any, shape: Any, strides: Any, metadata: Any) -> Tensor | Special:
    if not isinstance(storage, Storage):
        raise ValueError("not a storage")
    if isinstance(metadata, dict) and any(metadata.values()):
        return Special("negated or conjugated")
    tensor = Tensor(storage, dtype or storage.dtype, _count(offset), _counts(shape), _counts(strides))
    if len(tensor.shape) != len(tensor.strides):
        raise ValueError("a stride for each axis")
    return tensor


def _tensor(arguments: tuple[Any, ...]) -> Tensor | Special:
    """_rebuild_tensor(storage, offset, shape, strides), and _v2 with (requires_grad, hooks, metadata) after it."""
    storage, offset, shape, strides = arguments[:4]
    return _view(storage, None, offset, shape, strides, arguments[6] if len(arguments) > 6 else None)


def _tensor_of_dtype(arguments: tuple[Any, ...]) -> Tensor | Special:
    """_rebuild_tensor_v3(storage, offset, shape, strides, requires_grad, hooks, dtype, metadata)."""
    storage, offset, shape, strides, _, _, dtype = arguments[:7]
    if not isinstance(dtype, Dtype):
        raise ValueError("not a dtype")
    return _view(storage, dtype.name, offset, shape, strides, arguments[7] if len(arguments) > 7 else None)


def _parameter(arguments: tuple[Any, ...]) -> Tensor | Special:
    """_rebuild_parameter(tensor, requires_grad, hooks) and _rebuild_parameter_with_state(..., state)."""
    if not isinstance(arguments[0], Tensor | Special):
        raise ValueError("not a tensor")
    return arguments[0]


def _tensor_with_attributes(arguments: tuple[Any, ...]) -> Any:
    """_rebuild_from_type_v2(function, class, arguments, state), for a tensor with Python attributes."""
    function, _, inner, _ = arguments
    if not isinstance(function, Function) or function not in _REBUILDING or not isinstance(inner, tuple):
        raise ValueError("not a function that rebuilds")
    return function.build(inner)


def _special(kind: str) -> Function:
    return Function(lambda _: Special(kind))


def _dict(arguments: tuple[Any, ...]) -> dict[Any, Any]:
    """An OrderedDict: empty, to be filled, or from a list of pairs as Python 2 wrote it."""
    pairs = arguments[0] if arguments else ()
    result = {}
    for key, item in pairs:
        if not isinstance(key, str) or key in result:
            raise ValueError("a key that is no name, or one twice")
        result[key] = item
    return result


def _default_dict(arguments: tuple[Any, ...]) -> dict[Any, Any]:
    return _dict(arguments[1:])


def _size(arguments: tuple[Any, ...]) -> tuple[int, ...]:
    (shape,) = arguments
    return _counts(shape)


def _opaque(_: tuple[Any, ...]) -> Any:
    return OPAQUE


_UTILS = "torch._utils._rebuild_"

_FUNCTIONS: dict[str, Callable[[tuple[Any, ...]], Any]] = {
    _UTILS + "tensor": _tensor,
    _UTILS + "tensor_v2": _tensor,
    _UTILS + "tensor_v3": _tensor_of_dtype,
    _UTILS + "parameter": _parameter,
    _UTILS + "parameter_with_state": _parameter,
    "collections.OrderedDict": _dict,
    "collections.defaultdict": _default_dict,
    "torch.Size": _size,
}

_SPECIAL = {
    _UTILS + "qtensor": "quantized",
    _UTILS + "sparse_tensor": "sparse",
    _UTILS + "sparse_csr_tensor": "sparse",
    _UTILS + "meta_tensor_no_storage": "meta",
    _UTILS + "nested_tensor": "nested",
}

_REBUILT = {name: Function(build) for name, build in _FUNCTIONS.items()} | {
    name: _special(kind) for name, kind in _SPECIAL.items()
}

_REBUILDING = {function for name, function in _REBUILT.items() if name.startswith(_UTILS)}

_WITH_ATTRIBUTES = {
    f"torch._tensor.{name}": Function(_tensor_with_attributes)
    for name in ("_rebuild_from_type_v2", "_rebuild_from_type")
}

_PATHS = ("Path", "PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath")

_HARMLESS: dict[str, tuple[str, ...]] = {
    "argparse": ("Namespace",),
    "builtins": (
        "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "object", "range", "set", "slice",
        "str", "tuple",
    ),
    "_codecs": ("encode",),
    "collections": ("Counter", "deque"),
    "copyreg": ("_reconstructor",),
    "datetime": ("date", "datetime", "time", "timedelta", "timezone"),
    "decimal": ("Decimal",),
    "deepspeed.runtime.fp16.loss_scaler": ("DynamicLossScaler", "LossScaler"),
    "deepspeed.runtime.zero.config": ("ZeroStageEnum",),
    "deepspeed.utils.tensor_fragment": ("fragment_address",),
    "fractions": ("Fraction",),
    "io": ("BytesIO",),
    "_io": ("BytesIO",),
    "megatron.core.enums": ("ModelType",),
    "megatron.core.transformer.enums": ("AttnBackend", "AttnMaskType", "AttnType", "LayerType"),
    "megatron.model": ("ModelType",),
    "megatron.model.enums": ("ModelType",),
    "numpy": ("bool_", "dtype", "float16", "float32", "float64", "int32", "int64", "ndarray"),
    "numpy.core.multiarray": ("_reconstruct", "scalar"),
    "numpy._core.multiarray": ("_reconstruct", "scalar"),
    "numpy.core.numeric": ("_frombuffer",),
    "numpy._core.numeric": ("_frombuffer",),
    "numpy.random": ("__RandomState_ctor",),
    "numpy.random._mt19937": ("MT19937",),
    "numpy.random._pickle": ("__bit_generator_ctor", "__randomstate_ctor"),
    "numpy.random.mtrand": ("RandomState",),
    "pathlib": _PATHS,
    "pathlib._local": _PATHS,
    "torch": ("device",),
    "torch.distributed.fsdp.api": ("ShardingStrategy", "StateDictType"),
    "torch.serialization": ("_get_layout",),
    "types": ("SimpleNamespace",),
    "uuid": ("UUID",),
}  # fmt: skip
"""Module -> classes and functions of what lies beside the weights: whatever they make is opaque."""

_MARKS = (
    "torch.Tensor", "torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer", "torch.per_tensor_affine",
    "torch.per_tensor_symmetric", "torch.per_channel_affine", "torch.per_channel_symmetric",
    "torch.per_channel_affine_float_qparams",
)  # fmt: skip
"""Named among the arguments of others, never called."""

TORCH_NAMES: dict[str, Any] = {
    **{f"{module}.{name}": Function(_opaque) for module, names in _HARMLESS.items() for name in names},
    **dict.fromkeys(_MARKS, OPAQUE),
    **_REBUILT,
    **_WITH_ATTRIBUTES,
    **{name: _StorageClass(dtype) for name, dtype in _STORAGES.items()},
    **{name.replace("torch.", "torch.cuda.", 1): _StorageClass(dtype) for name, dtype in _STORAGES.items()},
    **{f"torch.{name}": Dtype(name) for name in (*CODES, *_OTHER_SIZES)},
}
"""Everything that a pickle may ask for -> what stands for it."""
