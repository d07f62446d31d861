"""Files of torch.save against torch itself, and against files made to break the reader."""

from __future__ import annotations

import argparse
import datetime
import io
import os
import pickle
import struct
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mindport.checkpoint import state_dict
from mindport.checkpoint.dtypes import ITEM_SIZE, NAMES
from mindport.checkpoint.files import read
from mindport.checkpoint.torch_file import read_torch
from mindport.errors import MindportError

from .hostile import bits_of, mutations, read_or_refused

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.filterwarnings("ignore:TypedStorage is deprecated"),
    pytest.mark.filterwarnings("ignore:Detected pickle protocol"),
]

FORMATS = [(zipped, protocol) for zipped in (True, False) for protocol in (2, 3, 4, 5)]

SCRATCH = settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)


def saved(value: Any, zipped: bool = True, protocol: int = 2) -> bytes:
    out = io.BytesIO()
    torch.save(value, out, _use_new_zipfile_serialization=zipped, pickle_protocol=protocol)
    return out.getvalue()


def bits(tensor: Any) -> bytes:
    """The values of a torch tensor in C order."""
    return bytes(
        tensor.detach().clone(memory_format=torch.contiguous_format).reshape(-1).view(torch.uint8).numpy().tobytes()
    )


def our_reading(path: Path, content: bytes) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    path.write_bytes(content)
    return {name: (NAMES[e.dtype], e.shape, bits_of(e)) for name, e in read_torch(path).items()}


def described(tensors: dict[str, Any]) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    return {name: (str(t.dtype).removeprefix("torch."), tuple(t.shape), bits(t)) for name, t in tensors.items()}


@st.composite
def state_dicts(draw: st.DrawFn) -> dict[str, Any]:
    """Tensors of any dtype; views with any strides, several of one storage, empty ones and scalars among them."""
    tensors: dict[str, Any] = {}
    for base in range(draw(st.integers(1, 3))):
        code = draw(st.sampled_from(sorted(ITEM_SIZE)))
        shape = draw(st.lists(st.integers(0 if draw(st.booleans()) else 1, 4), max_size=4))
        count = int(np.prod(shape, dtype=int))
        content = np.random.default_rng(base).integers(0, 2 if code == "BOOL" else 256, count * ITEM_SIZE[code])
        flat = torch.tensor(content.tolist(), dtype=torch.uint8).view(getattr(torch, NAMES[code]))
        whole = flat.reshape(shape)
        for number in range(draw(st.integers(1, 3))):
            view = whole
            for _ in range(draw(st.integers(0, 3))):
                kind = draw(st.sampled_from(["permute", "slice", "expand", "select", "parameter", "unsqueeze"]))
                if kind == "permute":
                    view = view.permute(tuple(draw(st.permutations(range(view.ndim)))))
                elif kind == "slice" and view.ndim:
                    axis = draw(st.integers(0, view.ndim - 1))
                    start, step = draw(st.integers(0, view.shape[axis])), draw(st.integers(1, 3))
                    view = view[(slice(None),) * axis + (slice(start, None, step),)]
                elif kind == "expand":
                    view = view.expand(draw(st.integers(1, 3)), *view.shape)
                elif kind == "select" and view.ndim and view.shape[0]:
                    view = view[draw(st.integers(0, view.shape[0] - 1))]
                elif kind == "unsqueeze":
                    view = view.unsqueeze(draw(st.integers(0, view.ndim)))
                elif kind == "parameter":
                    view = torch.nn.Parameter(view, requires_grad=False)
            tensors[f"层.{base}.{number}"] = view
    return tensors


@given(state_dicts(), st.sampled_from(FORMATS))
@SCRATCH
def test_any_tensor_is_read_bit_for_bit(tmp_path: Path, tensors: dict[str, Any], form: tuple[bool, int]) -> None:
    assert our_reading(tmp_path / "x.pt", saved(tensors, *form)) == described(tensors)


def test_contiguous_tensors_are_plain_byte_ranges(tmp_path: Path) -> None:
    base = torch.arange(24.0).reshape(4, 6)
    tensors = {"whole": base, "rows": base[1:3], "turned": base.t(), "one": base[:, :1].t(), "empty": base[:0].t()}
    for zipped in (True, False):
        (tmp_path / "x.pt").write_bytes(saved(tensors, zipped))
        entries = read_torch(tmp_path / "x.pt")
        assert [name for name, entry in entries.items() if not entry.plain] == ["turned", "one"]
        assert entries["turned"].strides == (1, 6)
        assert entries["rows"].offset == entries["whole"].offset + 24
        assert entries["turned"].offset == entries["whole"].offset


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    "wrap",
    [
        lambda sd: sd,
        lambda sd: {"state_dict": sd, "epoch": 3, "optimizer": {"state": {0: {"exp_avg": torch.ones(2)}}}},
        lambda sd: {"model": {"module": sd}, "lr_scheduler": {"last": [torch.ones(1)]}},
        lambda sd: {"module": sd, "ds_version": "0.1", "rng_states": [torch.ones(1)]},
        lambda sd: {"model_state_dict": sd, "loss": torch.tensor(1.0).item(), "ema": {"a": torch.ones(1)}},
    ],
)
def test_wrapped_checkpoints(tmp_path: Path, form: tuple[bool, int], wrap: Any) -> None:
    layers = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).state_dict()
    assert our_reading(tmp_path / "x.pt", saved(wrap(layers), *form)) == described(layers)


def test_nested_modules_are_joined_by_dots(tmp_path: Path) -> None:
    one, two, three = torch.ones(1), torch.ones(2), torch.ones(3)
    nested = {"model": {"language_model": {"embedding": {"weight": one}, "model": {"w": two}}, "head": {"w": three}}}
    wanted = {"language_model.embedding.weight": one, "language_model.model.w": two, "head.w": three}
    assert our_reading(tmp_path / "x.pt", saved(nested)) == described(wanted)
    prefixed = {"module.a": one, "module.b": two}
    assert our_reading(tmp_path / "x.pt", saved(prefixed)) == described(prefixed)


@pytest.mark.parametrize("form", FORMATS)
def test_what_lies_beside_the_weights_of_a_training_checkpoint(tmp_path: Path, form: tuple[bool, int]) -> None:
    weight = torch.arange(3.0)
    checkpoint = {
        "model": {"weight": weight, "extra": None, "_extra_state": io.BytesIO(b"abc")},
        "args": argparse.Namespace(lr=0.1, dtype=torch.bfloat16, path=Path("x"), device=torch.device("cpu")),
        "optimizer": torch.optim.AdamW([torch.nn.Parameter(weight)]).state_dict(),
        "rng_state": [{"np": np.random.RandomState(0).get_state(), "torch": torch.get_rng_state()}],
        "more": [np.float32(3), np.arange(3), np.dtype("int8"), {1, 2}, frozenset(), 3j, datetime.datetime.now()],
        "size": weight.shape,
        "dtypes": {"a": torch.complex64, "b": torch.quint8},
        "metadata": OrderedDict(a=1),
    }
    assert our_reading(tmp_path / "x.pt", saved(checkpoint, *form)) == described({"weight": weight})


def test_a_tensor_with_attributes_of_python(tmp_path: Path) -> None:
    tensor, parameter = torch.arange(3.0), torch.nn.Parameter(torch.ones(2))
    tensor.note = parameter.note = "x"
    tensors = {"a": tensor, "b": parameter}
    for form in FORMATS:
        assert our_reading(tmp_path / "x.pt", saved(tensors, *form)) == described(tensors)


def refusal(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(MindportError) as error:
        read_torch(path)
    assert error.value.fix
    assert len(str(error.value)) < 600 + len(str(path))
    return error.value.message


ONE = torch.ones(1)


def _with_itself() -> dict[str, Any]:
    value: dict[str, Any] = {"a": {"b": ONE}}
    value["a"]["c"] = value
    return value


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (ONE, "does not hold a state dict"),
        ([ONE], "does not hold a state dict"),
        ({}, "does not hold a state dict"),
        ({"epoch": 3}, "does not hold a state dict"),
        ({"model": {}}, "does not hold a state dict"),
        ({"model": {"w": ONE}, "teacher": {"w": ONE}}, "under 'model' and also under 'teacher'"),
        ({"model": {"w": ONE}, "state_dict": {"w": ONE}}, "under 'state_dict' and also under 'model'"),
        ({"a": {"b": ONE}, "a.b": ONE}, "two tensors have this name"),
        ({"a": [ONE]}, "a list of tensors"),
        ({"a": {3: ONE}}, "the key 3 is not text"),
        ({"a": ONE.untyped_storage()}, "a bare storage"),
        ({"w": torch.ones(2, dtype=torch.complex64)}, "'w' has dtype 'complex64'"),
        ({"w": torch.ones(2).to(torch.float8_e4m3fnuz)}, "'w' has dtype 'float8_e4m3fnuz'"),
        ({"w": torch.ones(2).to_sparse()}, "'w' is not a plain array: sparse"),
        ({"w": torch.ones(2, 2).to_sparse_csr()}, "'w' is not a plain array: sparse"),
        ({"w": torch.ones(2, device="meta")}, "'w' is not a plain array: meta"),
        ({"w": torch.ones(2, dtype=torch.complex64).conj().imag}, "'w' is not a plain array: negated"),
        ({"w": ONE.expand(1 << 28)}, "a shape that no array can have"),
        (_with_itself(), "nested too deeply"),
        (torch.nn.Linear(2, 2), "asks for 'torch.nn.modules.linear.Linear'"),
    ],
)
def test_what_is_no_state_dict_is_refused(tmp_path: Path, value: Any, reason: str) -> None:
    for zipped in (True, False):
        if zipped or not str(reason).endswith("meta"):
            assert reason in refusal(tmp_path / "x.pt", saved(value, zipped))


def test_quantised_tensors_are_refused_by_name(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tensor = torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8)
        for zipped in (True, False):
            assert "'w' is not a plain array: quantized" in refusal(tmp_path / "x.pt", saved({"w": tensor}, zipped))


# --- hostile files -----------------------------------------------------------------------------------------------


class Touch:
    """Pickled as a call that makes a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.mark}",)


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_is_run(tmp_path: Path, form: tuple[bool, int]) -> None:
    mark = tmp_path / "mark"
    for value in ({"w": ONE, "x": Touch(mark)}, {"state_dict": {"w": ONE}, "optimizer": [Touch(mark)]}, Touch(mark)):
        assert "asks for 'posix.system'" in refusal(tmp_path / "x.pt", saved(value, *form))
    assert not mark.exists()


def torch_zip(program: bytes, members: dict[str, bytes] | None = None, method: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as file:
        for name, content in {"x/data.pkl": program, "x/byteorder": b"little", **(members or {})}.items():
            file.writestr(name, content)
    return out.getvalue()


def program_of(
    *, cls: bytes = b"torch\nFloatStorage", key: str = "0", numel: int = 4, offset: int = 0,
    shape: tuple[Any, ...] = (2, 2), strides: tuple[Any, ...] = (2, 1),
) -> bytes:  # fmt: skip
    """A state dict with one tensor as torch pickles it, with these numbers in it."""

    def value(item: Any) -> bytes:
        return pickle.dumps(item, 2)[2:-1]

    storage = b"(" + value("storage") + b"c" + cls + b"\n" + value(key) + value("cpu") + value(numel) + b"tQ"
    hooks = b"ccollections\nOrderedDict\n)R"
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + value(offset) + value(shape) + value(strides)
    return b"\x80\x02}" + value("w") + tensor + b"\x89" + hooks + b"tRs."


DATA = {"x/data/0": np.arange(4, dtype=np.float32).tobytes()}


def test_the_made_up_file_is_read(tmp_path: Path) -> None:
    found = our_reading(tmp_path / "x.pt", torch_zip(program_of(), DATA))
    assert found == {"w": ("float32", (2, 2), DATA["x/data/0"])}


@pytest.mark.parametrize(
    ("numbers", "reason"),
    [
        ({"key": "1"}, "storage '1' is missing"),
        ({"key": "../0"}, "storage '../0' is missing"),
        ({"numel": 5}, "shorter than its tensors"),
        ({"numel": 2**62}, "shorter than its tensors"),
        ({"numel": 3}, "reaches beyond its storage"),
        ({"numel": -4}, "malformed"),
        ({"numel": 2**64}, "malformed"),
        ({"numel": "4"}, "malformed"),
        ({"numel": True}, "malformed"),
        ({"numel": 4.0}, "malformed"),
        ({"offset": 1}, "reaches beyond its storage"),
        ({"offset": -1}, "malformed"),
        ({"offset": 2**62}, "reaches beyond its storage"),
        ({"shape": (3, 2)}, "reaches beyond its storage"),
        ({"shape": (2**40, 2**40), "strides": (0, 0)}, "no array can have"),
        ({"shape": (8 << 30,), "strides": (0,)}, "no array can have"),
        ({"shape": (0, 2**62)}, "no array can have"),
        ({"shape": (-2, 2)}, "malformed"),
        ({"shape": [2, 2]}, "malformed"),
        ({"shape": (2, 2, 1)}, "malformed"),
        ({"shape": (1,) * 40, "strides": (1,) * 40}, "no array can have"),
        ({"shape": (1,) * 4000, "strides": (1,) * 4000}, "malformed"),
        ({"strides": (-2, 1)}, "malformed"),
        ({"strides": (2**62, 1)}, "reaches beyond its storage"),
        ({"strides": (2.0, 1)}, "malformed"),
        ({"cls": b"torch\nDoubleStorage"}, "shorter than its tensors"),
        ({"cls": b"torch\nfloat32"}, "malformed"),
        ({"cls": b"torch\nload"}, "asks for 'torch.load'"),
    ],
)
def test_extents_that_lie(tmp_path: Path, numbers: dict[str, Any], reason: str) -> None:
    assert reason in refusal(tmp_path / "x.pt", torch_zip(program_of(**numbers), DATA))


def test_one_storage_described_in_two_ways(tmp_path: Path) -> None:
    one, two = (
        program_of()[3:-2],
        program_of(cls=b"torch\nIntStorage")[3:-2].replace(b"\x01\x00\x00\x00w", b"\x01\x00\x00\x00v"),
    )
    assert "malformed" in refusal(tmp_path / "x.pt", torch_zip(b"\x80\x02}" + one + b"s" + two + b"s.", DATA))


def test_zip_files_that_torch_does_not_write(tmp_path: Path) -> None:
    path, program = tmp_path / "x.pt", program_of()
    assert "compressed" in refusal(path, torch_zip(program, DATA, zipfile.ZIP_DEFLATED))
    assert "compressed" in refusal(path, torch_zip(program, {"x/data/0": bytes(50 << 20)}, zipfile.ZIP_LZMA))
    assert "big-endian" in refusal(path, torch_zip(program, {**DATA, "x/byteorder": b"big"}))
    assert "TorchScript" in refusal(path, torch_zip(program, {**DATA, "x/code/a.py": b"1"}))
    assert "TorchScript" in refusal(path, torch_zip(program, {**DATA, "x/constants.pkl": b"1"}))
    assert "not a file of torch.save" in refusal(path, torch_zip(program).replace(b"data.pkl", b"data.pkx"))
    whole = torch_zip(program, DATA)
    assert "not UTF-8" in refusal(path, whole.replace(b"byteorder", b"\xff\xfeteorder"))
    assert "occurs twice" in refusal(path, torch_zip(program, {**DATA, "x/data/1": b""}).replace(b"data/1", b"data/0"))
    assert "does not fit" in refusal(path, whole.replace(b"x/data/0", b"x/data/1", 1))
    for size in range(4, len(whole)):
        refusal(path, whole[:size])


def directory_fields(content: bytes) -> list[int]:
    """Where the descriptions of the members begin in the central directory."""
    return [i for i in range(len(content)) if content.startswith(b"PK\x01\x02", i)]


@pytest.mark.parametrize("value", [0, 1, 4, 40, 2**31, 2**32 - 2, 2**32 - 1])
@pytest.mark.parametrize("field", [20, 24, 42])
@pytest.mark.parametrize("member", [0, 1, 2])
def test_directories_that_lie(tmp_path: Path, member: int, field: int, value: int) -> None:
    content = bytearray(torch_zip(program_of(), DATA))
    place = directory_fields(bytes(content))[member] + field
    if content[place : place + 4] == struct.pack("<I", value):
        pytest.skip("the right value")
    content[place : place + 4] = struct.pack("<I", value)
    refusal(tmp_path / "x.pt", bytes(content))
    if field == 24:  # both sizes alike
        content[place - 4 : place] = struct.pack("<I", value)
        found = read_or_refused(read_torch, tmp_path / "x.pt", bytes(content))
        assert found in (None, {"w": DATA["x/data/0"]})
        assert value < 2**31 or found is None


def test_a_storage_marked_as_a_folder(tmp_path: Path) -> None:
    content = bytearray(torch_zip(program_of(), DATA))
    content[directory_fields(bytes(content))[-1] + 38] |= 0x10
    assert "its directory is malformed" in refusal(tmp_path / "x.pt", bytes(content))


def test_members_that_overlap(tmp_path: Path) -> None:
    content = bytearray(torch_zip(program_of(), {**DATA, "x/data/1": bytes(4)}))
    *_, first, second = directory_fields(bytes(content))
    content[second + 42 : second + 46] = content[first + 42 : first + 46]
    assert "does not fit" in refusal(tmp_path / "x.pt", bytes(content))
    content[second + 46 : second + 54] = b"x/data/0"
    assert "overlaps" in refusal(tmp_path / "x.pt", bytes(content))


def test_zip64(tmp_path: Path) -> None:
    """As torch writes a file of more than 4 GB, which is sparse here."""
    path = tmp_path / "x.pt"
    count = (4 << 30) // 4 + 10
    last = np.arange(4, dtype=np.float32).tobytes()
    program = program_of(numel=count, offset=count - 4)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x/data.pkl", program)
        with file.open("x/data/0", "w", force_zip64=True) as member:
            for _ in range(4):
                member.write(bytes(1 << 20))
        file.writestr("x/version", b"3\n")
    small = path.read_bytes()
    assert "shorter than its tensors" in refusal(path, small)
    # The member made longer by hand: its content moved apart, and its sizes in the zip64 fields of the directory.
    header = small.index(b"x/data/0") - 30
    start = header + 30 + sum(struct.unpack_from("<HH", small, header + 26))
    long = count * 4
    rest = io.BytesIO()
    name = b"x/data/0"
    pkl = small.index(b"x/data.pkl") - 30
    version = small.index(b"x/version") - 30
    members = ((b"x/data.pkl", pkl, len(program)), (name, header, long), (b"x/version", version + long - (4 << 20), 2))
    for entry, offset, size in members:
        extra = struct.pack("<HHQQQ", 1, 24, size, size, offset)
        sizes = b"\xff" * 8 + struct.pack("<HHHHHI", len(entry), len(extra), 0, 0, 0, 0) + b"\xff" * 4
        head = b"PK\x01\x02" + struct.pack("<HHHHHHI", 45, 45, 0, 0, 0, 0, 0) + sizes
        rest.write(head + entry + extra)
    directory = rest.getvalue()
    tail = small[start + (4 << 20) : small.index(b"PK\x01\x02")]
    at = start + long + len(tail)
    end64 = struct.pack("<4sQHHIIQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, 3, 3, len(directory), at)
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, at + len(directory), 1)
    end = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, 2**32 - 1, 2**32 - 1, 0)
    with path.open("wb") as file:
        file.write(small[:start])
        file.seek(start + long - 16)
        file.write(last + tail + directory + end64 + locator + end)
    entry = read_torch(path)["w"]
    assert read(entry).tobytes() == last
    assert torch.equal(torch.load(path, mmap=True, weights_only=True)["w"], torch.arange(4.0).reshape(2, 2))


def test_legacy_files_that_lie(tmp_path: Path) -> None:
    path, tensors = tmp_path / "x.pt", {"w": torch.arange(4.0), "v": torch.arange(3)}
    whole = saved(tensors, zipped=False)
    assert our_reading(path, whole) == described(tensors)
    for size in range(len(whole)):
        refusal(path, whole[:size])
    assert "big-endian" in refusal(path, whole.replace(b"little_endianq\x02\x88", b"little_endianq\x02\x89"))
    for place in (len(whole) - 24 - 8, len(whole) - 24 - 8 - 16 - 8):
        for claim in (0, 1, 2**31, 8 << 30, 2**63 - 1, 2**63, 2**64 - 1):
            changed = whole[:place] + struct.pack("<Q", claim) + whole[place + 8 :]
            read_or_refused(read_torch, path, changed)
    assert "not a file of torch.save" in refusal(path, pickle.dumps({"w": [1.0]}, 2))
    magic = pickle.dumps(0x1950A86A20F9469CFC6C, 2)
    assert "malformed" in refusal(path, magic + pickle.dumps(1002, 2) + pickle.dumps({}, 2) * 3)
    assert "tar archive" in refusal(path, bytes(257) + b"ustar" + bytes(300))
    assert "not a file of torch.save" in refusal(path, b"")
    assert "not a file of torch.save" in refusal(path, b"\x93NUMPY" + bytes(100))


def test_views_of_storages_in_legacy_files(tmp_path: Path) -> None:
    """As torch wrote them before 0.4: part of a storage, under a key of its own."""
    tensor = torch.arange(10.0)
    whole = saved({"w": tensor[:4]}, zipped=False)
    key = next(k for k in [str(tensor.untyped_storage()._cdata)] if k.encode() in whole).encode()
    metadata = b"(X\x01\x00\x00\x00vK\x05K\x05t"
    place = whole.index(b"cpu", whole.index(key))
    end = whole.index(b"Nt", place)
    changed = whole[:end] + metadata + whole[end + 1 :]
    path = tmp_path / "x.pt"
    assert our_reading(path, changed)["w"][2] == tensor[5:9].numpy().tobytes()
    assert torch.equal(torch.load(io.BytesIO(changed), weights_only=True)["w"], tensor[5:9])
    for start, count in ((6, 5), (5, 6), (255, 0), (9, 2)):
        assert "malformed" in refusal(
            path, changed.replace(b"vK\x05K\x05t", b"vK" + bytes([start]) + b"K" + bytes([count]) + b"t")
        )
    assert "reaches beyond" in refusal(path, changed.replace(b"vK\x05K\x05t", b"vK\x05K\x03t"))


def test_dicts_that_double_with_each_level_end_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_dict, "_MOST_ITEMS", 1 << 14)
    value: Any = {"w": ONE}
    empty: Any = {}
    shared: Any = [[]] * 1000
    for _ in range(30):
        value, empty, shared = {"a": value, "b": value}, {"a": empty, "b": empty}, [shared, shared]
    path = tmp_path / "x.pt"
    assert "too many names" in refusal(path, saved(value))
    assert "too many names" in refusal(path, saved({"w": ONE, "x": empty}))
    assert our_reading(path, saved({"w": ONE, **{str(i): shared for i in range(1000)}})) == described({"w": ONE})
    monkeypatch.setattr(state_dict, "_MOST_TEXT", 1000)
    assert "too many names" in refusal(path, saved({"a" * 501: ONE, "b" * 500: ONE}))


SEED = {
    "state_dict": OrderedDict(
        a=torch.arange(6.0).reshape(2, 3).t(),
        b=torch.nn.Parameter(torch.ones(4, dtype=torch.bfloat16)),
        c=torch.tensor(3),
        d=torch.ones(2).to(torch.float8_e4m3fn),
    ),
    "epoch": 3,
    "args": argparse.Namespace(x=1),
}


def flat(prefix: str, value: dict[Any, Any]) -> Iterator[tuple[str, bytes]]:
    """Name -> bytes of the tensors in nested dicts."""
    for key, item in value.items():
        if isinstance(item, torch.Tensor):
            yield f"{prefix}{key}", bits(item)
        elif isinstance(item, dict):
            yield from flat(f"{prefix}{key}.", item)


def fuzz(path: Path, count: int, seed: int) -> int:
    """Mutated files of both formats; where torch reads one too, both read the same. Returns how many we read."""
    accepted = 0
    wholes = [saved(SEED, *form) for form in FORMATS]
    wholes += [torch_zip(program_of(), DATA)]
    for number, whole in enumerate(wholes):
        for content in mutations(whole, count // len(wholes) + 1, seed + number):
            found = read_or_refused(read_torch, path, content)
            if found is None:
                continue
            accepted += 1
            try:
                theirs = torch.load(io.BytesIO(content), weights_only=True)
            except Exception:
                continue
            assert dict(flat("", theirs.get("state_dict", theirs))) == found
    return accepted


def test_mutated_files_are_read_correctly_or_refused(tmp_path: Path) -> None:
    torch.serialization.add_safe_globals([argparse.Namespace])
    assert fuzz(tmp_path / "x.pt", 600, 0) > 50


@pytest.mark.slow
def test_many_mutated_files(tmp_path: Path) -> None:
    torch.serialization.add_safe_globals([argparse.Namespace])
    accepted = fuzz(tmp_path / "x.pt", 20_000, 1000)
    print(f"20000 files of torch tried, {accepted} read, the others refused")


@pytest.mark.parametrize(
    "beside",
    [
        {"best_acc1": torch.tensor(3.0)},
        {"step": torch.tensor(3), "epoch": 1},
        {"optimizer": {"state": {0: {"exp_avg": torch.ones(2)}}}, "rng_state": torch.ones(5, dtype=torch.uint8)},
    ],
)
@pytest.mark.parametrize("wrapper", ["state_dict", "model"])
def test_tensors_of_training_beside_the_weights(tmp_path: Path, wrapper: str, beside: dict[str, Any]) -> None:
    weights = {"w": ONE, "layer.0.bias": torch.arange(3.0)}
    assert our_reading(tmp_path / "x.pt", saved({wrapper: weights, **beside})) == described(weights)
