"""The pickle machine: what it computes is what Python's pickle computes, and it runs nothing."""

from __future__ import annotations

import io
import os
import pickle
import struct
import tracemalloc
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindport.checkpoint import pickle_program
from mindport.checkpoint.pickle_program import OPAQUE, Function, Source, run_program
from mindport.checkpoint.torch_pickle import TORCH_NAMES, Storages
from mindport.errors import MindportError

PROTOCOLS = (2, 3, 4, 5)


def run(content: bytes, names: dict[str, Any] | None = None) -> Any:
    source = Source(Path("x.pt"), io.BytesIO(content), len(content))
    return run_program(source, TORCH_NAMES if names is None else names, Storages())


def refusal(content: bytes) -> str:
    with pytest.raises(MindportError) as error:
        run(content)
    assert error.value.fix
    assert len(str(error.value)) < 600
    return error.value.message


keys = st.text(max_size=5) | st.integers(-(2**63), 2**63) | st.booleans() | st.none() | st.binary(max_size=5)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=300)
    | st.binary(max_size=300),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(keys | st.tuples(keys, keys), inner, max_size=4)
        | st.dictionaries(st.text(max_size=5), inner, max_size=4).map(OrderedDict)
    ),
    max_leaves=20,
)


@given(values, st.sampled_from(PROTOCOLS))
@settings(max_examples=300, deadline=None)
def test_plain_values_are_those_of_pickle(value: Any, protocol: int) -> None:
    content = pickle.dumps(value, protocol)
    if protocol == 2 and (b"_codecs" in content or b"bytes" in content):
        return  # written as calls, which are opaque
    assert repr(run(content)) == repr(_plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return type(value)(_plain(item) for item in value) if isinstance(value, list | tuple) else value


def test_shared_and_recursive_values_stay_shared() -> None:
    inner: list[Any] = []
    inner.append(inner)
    for protocol in PROTOCOLS:
        value = run(pickle.dumps([inner, inner], protocol))
        assert value[0] is value[1]
        assert value[0][0] is value[0]
        recursive: tuple[list[Any]] = ([],)
        recursive[0].append(recursive)
        found = run(pickle.dumps(recursive, protocol))
        assert found[0][0] is found


def test_long_text_and_bytes_are_passed_over() -> None:
    for protocol in (3, 4, 5):
        value = {"a": b"x" * 100_000, "b": "y" * 100_000, "c": 1}
        assert run(pickle.dumps(value, protocol)) == {"a": OPAQUE, "b": OPAQUE, "c": 1}


# --- pickles that want something run -----------------------------------------------------------------------------


class Evil:
    """Pickled as a call."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self.call


def evil(mark: Path) -> list[Evil]:
    """Calls that would each make a file."""
    import importlib
    import operator
    import shutil
    import subprocess

    code = f"open({str(mark)!r}, 'w')"
    return [
        Evil(os.system, f"touch {mark}"),
        Evil(os.mkdir, str(mark)),
        Evil(eval, code),
        Evil(exec, code),
        Evil(compile, code, "x", "eval"),
        Evil(open, str(mark), "w"),
        Evil(getattr, "os", "system"),
        Evil(subprocess.Popen, ["touch", str(mark)]),
        Evil(shutil.copy, __file__, str(mark)),
        Evil(importlib.import_module, "antigravity"),
        Evil(operator.attrgetter, "system"),
        Evil(pickle.loads, pickle.dumps(1)),
        Evil(__import__, "os"),
    ]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("number", range(13))
def test_nothing_is_run(tmp_path: Path, protocol: int, number: int) -> None:
    mark = tmp_path / "mark"
    bad = evil(mark)[number]
    for value in (bad, {"a": bad}, OrderedDict(a=[bad]), (1, (bad, 2))):
        message = refusal(pickle.dumps(value, protocol))
        assert f"{bad.call[0].__name__}'" in message
        assert "nothing was run" in message
    assert not mark.exists()


NAMES_ONE_MUST_NOT_HAVE = (
    "os system", "posix system", "builtins eval", "__builtin__ eval", "builtins getattr", "builtins __import__",
    "torch load", "torch.hub load", "torch.jit load", "torch.serialization load", "torch._utils _rebuild_tensor_v9",
    "torch._utils _rebuild_wrapper_subclass", "torch.storage _load_from_bytes", "numpy load", "pickle loads",
    "collections OrderedDict.__init__", "torch Tensor.__setstate__", "mindport.cli.app main",
    "runpy run_path", "sys exit",
    "functools partial", "codecs decode", "types FunctionType", "types CodeType", " ", "torch ",
)  # fmt: skip


@pytest.mark.parametrize("asked", NAMES_ONE_MUST_NOT_HAVE)
def test_names_are_refused_however_they_are_asked_for(asked: str) -> None:
    module, _, name = asked.partition(" ")
    in_lines = f"c{module}\n{name}\n".encode()

    def text(value: str) -> bytes:
        return b"X" + struct.pack("<I", len(value)) + value.encode()

    for way in (in_lines, text(module) + text(name) + b"\x93"):
        for rest in (b".", b")R.", b")\x81.", b")}\x92.", b")R}b.", b"0N."):
            assert "nothing was run" in refusal(b"\x80\x02" + way + rest)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80",
        b"\x80\x02",
        b".",
        b"\x80\x02.",
        b"N",
        b"0.",
        b"a.",
        b"u.",
        b"t.",
        b"h\x00.",
        b"Nq\x00j\x01\x00\x00\x00.",
        b"]N\x86R.",  # a call of something that is no function
        b"ccollections\nOrderedDict\nNR.",
        b"ccollections\nOrderedDict\n)b.",
        b"N}b.",
        b"]}b.",
        b"}(NNNu.",
        b"](NNu.",
        b"}(](Nlu.",
        b"(lp0\n.",  # protocol 0
        b"I1\n.",
        b"S'a'\n.",
        b"P1\n.",
        b"(ios\nsystem\n.",
        b"(cos\nsystem\no.",
        b"\x82\x01.",  # EXT1
        b"\x97.",  # NEXT_BUFFER
        b"NQ.",
        b"K\x01Q.",
        b"\x8a\xffx.",
        b"\x8b\xff\xff\xff\x7fx.",
        b"X\xff\xff\xff\xffx.",
        b"\x8d\xff\xff\xff\xff\xff\xff\xff\xffx.",
        b"\x8d" + struct.pack("<Q", 8 << 30) + b"x.",
        b"\x8e" + struct.pack("<Q", 2**63) + b"x.",
        b"\x96" + struct.pack("<Q", 2**64 - 1) + b"x.",
        b"\x95" + b"\xff" * 7,
        b"X\x02\x00\x00\x00\xff\xfe.",  # not UTF-8
        b"c\xff\n\xff\n.",
        b"c" + b"x" * 5000 + b"\nx\n.",
        b"cos",
        b"\x93.",
        b"NN\x93.",
    ],
)
def test_programs_that_make_no_sense(content: bytes) -> None:
    refusal(content)


def test_what_stands_for_a_name_cannot_be_reached_into() -> None:
    called: list[Any] = []
    names = {"a.b": Function(called.append)}
    assert run(b"ca\nb\n.", names) is names["a.b"]
    assert called == []
    with pytest.raises(MindportError):
        run(b"ca\nb\n}(X\x05\x00\x00\x00buildNub.", names)


@pytest.mark.parametrize(
    "key",
    [(1,) * 9, ((1, 2), 3), 2**64 * (2**61 - 1), (2**200,)],
)
def test_keys_that_are_slow_to_hash_are_refused(key: Any) -> None:
    assert "malformed" in refusal(pickle.dumps({key: 1}, 4))


def test_nested_shared_tuples_are_never_hashed() -> None:
    # t = (t, t) fifty times over: as a key it would take 2**50 steps.
    program = b"\x80\x02)q\x00" + b"".join(b"h\x00h\x00\x86q\x00" for _ in range(50))
    assert "malformed" in refusal(program + b"}h\x00Ns.")
    assert isinstance(run(program + b"."), tuple)


def test_a_key_twice_is_refused() -> None:
    assert "malformed" in refusal(b"}(K\x01NK\x01Nu.")


def test_memo_indices_cost_nothing() -> None:
    tracemalloc.start()
    try:
        assert run(b"Nr\xff\xff\xff\xffj\xff\xff\xff\xff.") is None
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_claims_cost_nothing(tmp_path: Path) -> None:
    """A sparse file of 8 GB, all of which a string claims."""
    path = tmp_path / "x"
    path.write_bytes(b"\x8d" + struct.pack("<Q", (8 << 30) - 9))
    os.truncate(path, 8 << 30)
    tracemalloc.start()
    try:
        with path.open("rb") as file, pytest.raises(MindportError, match="truncated"):
            run_program(Source(path, file, 8 << 30), TORCH_NAMES, Storages())
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_the_number_of_steps_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickle_program, "_MOST_STEPS", 1000)
    assert run(b"N0" * 499 + b"N.") is None
    assert "more objects" in refusal(b"N0" * 500 + b"N.")


def test_the_bytes_taken_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickle_program, "_MOST_BYTES", 1000)
    assert "more objects" in refusal((b"B\x64\x00\x00\x00" + b"x" * 100) * 10 + b".")


@pytest.mark.slow
@pytest.mark.parametrize("step", [b"}", b"(", b"}\x94"])
def test_memory_is_bounded_whatever_a_program_does(step: bytes) -> None:
    content = step * (pickle_program._MOST_STEPS // len(step) + 9)
    tracemalloc.start()
    try:
        assert "more objects" in refusal(content)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    print(f"{step!r}: {peak / 2**20:.0f} MiB")
    assert peak < 1 << 30
