"""`verify --weights` and `verify --load`: a folder by itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mindport.checkpoint.convert import convert
from mindport.checkpoint.export import export
from mindport.checkpoint.manifest import FILE_NAME
from mindport.checkpoint.options import Options
from mindport.checkpoint.policy import parse_policy
from mindport.checkpoint.recheck import FolderReport
from mindport.checkpoint.safetensors import INDEX_FILE, SINGLE_FILE, make_header

from .running import run_main

SRC = Path(__file__).parents[2] / "src"
CODES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "float64": "F64", "int32": "I32"}

Arrays = dict[str, np.ndarray]


def save(path: Path, arrays: Arrays) -> Path:
    """A safetensors file."""
    head, _ = make_header([(name, CODES[str(a.dtype)], a.shape) for name, a in arrays.items()], {})
    path.write_bytes(head + b"".join(a.tobytes() for a in arrays.values()))
    return path


def llama() -> Arrays:
    """Two layers, every value its own."""
    shapes = {"model.embed_tokens.weight": (11, 8), "model.norm.weight": (8,), "lm_head.weight": (11, 8)}
    for number in range(2):
        layer = f"model.layers.{number}."
        shapes |= {f"{layer}{norm}_layernorm.weight": (8,) for norm in ("input", "post_attention")}
        shapes |= {f"{layer}self_attn.{p}_proj.weight": (4 if p in "kv" else 8, 8) for p in "qkvo"}
        shapes |= {f"{layer}mlp.{p}_proj.weight": (8, 12) if p == "down" else (12, 8) for p in ("gate", "up", "down")}
    generator = np.random.default_rng(5)
    return {name: generator.standard_normal(shape, np.float32) for name, shape in shapes.items()}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Hugging Face folder."""
    folder = tmp_path_factory.mktemp("hf")
    sizes = {"vocab_size": 11, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 16}
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", **sizes}))
    (folder / "tokenizer_config.json").write_text('{"a": 1}')
    save(folder / SINGLE_FILE, llama())
    return folder


SHARDED = Options(shard_bytes=600)
KINDS = {
    "single": Options(),
    "sharded": SHARDED,
    "ckpt": Options("ckpt"),
    "bf16": Options(policy=parse_policy(["bf16"])),
    "mixed": Options(policy=parse_policy(["fp16", "norm=fp32"])),
    "resized": Options(vocab_size=16, vocab_rule="mean"),
}


@pytest.fixture
def folder(source: Path, tmp_path: Path) -> Path:
    """Converted, in shards."""
    convert(source, tmp_path / "ms", SHARDED)
    return tmp_path / "ms"


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """run(...) -> exit code, standard output, standard error; in this process."""
    monkeypatch.setenv("MINDPORT_LANG", "en")

    def command(*args: object) -> tuple[int, str, str]:
        code, out, err = run_main(monkeypatch, capsys, *args)
        assert "Traceback" not in out + err
        return code, out, err

    return command


# --- usage --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["x"], "Give MODEL and DIR; or DIR alone"),
        (["x", "y", "z"], "Give MODEL and DIR; or DIR alone"),
        (["x", "--network", "a:B"], "--network belongs to --load."),
        (["x", "y", "--load"], "--weights and --load take DIR alone."),
        (["x", "y", "--weights"], "--weights and --load take DIR alone."),
        (["x", "--weights", "--load"], "are two checks"),
        (["--load"], "Missing argument 'DIR'"),
    ],
)
def test_wrong_usage(run: Run, args: list[str], sentence: str) -> None:
    code, out, err = run("verify", *args)
    assert (code, out) == (2, "")
    assert "Usage" in err
    assert sentence in err


def test_the_help_says_that_code_is_run(run: Run) -> None:
    assert "its Python code is run" in " ".join(run("verify", "--help")[1].replace("│", " ").split())


# --- --weights ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_finished_folder_is_as_its_manifest_says(run: Run, source: Path, tmp_path: Path, kind: str) -> None:
    convert(source, tmp_path / "ms", KINDS[kind])
    code, out, err = run("verify", "--weights", tmp_path / "ms")
    assert (code, err) == (0, "")
    assert out.startswith("21 tensors, 0.0 MB, are as they were written; ")
    export(tmp_path / "ms", tmp_path / "back", SHARDED)
    content = json.loads(run("verify", "--weights", tmp_path / "back", "--json")[1])
    assert list(content) == ["passed", *(field.name for field in fields(FolderReport))]
    assert (content["passed"], content["tensors"], content["problems"]) == (True, 21, [])


@pytest.mark.parametrize("kind", ["single", "sharded", "ckpt"])
def test_every_flipped_bit_is_found(source: Path, tmp_path: Path, kind: str, run: Run) -> None:
    """Wherever it is: in a tensor, in a header, between the parameters of a checkpoint, in a file beside them."""
    convert(source, tmp_path / "ms", KINDS[kind])
    generator = np.random.default_rng(0)
    for path in sorted((tmp_path / "ms").iterdir()):
        if path.name == FILE_NAME:
            continue
        content = path.read_bytes()
        for _ in range(6):
            place = int(generator.integers(len(content)))
            flipped = bytearray(content)
            flipped[place] ^= 1 << int(generator.integers(8))
            path.write_bytes(flipped)
            code, out, err = run("verify", "--weights", tmp_path / "ms")
            assert code == 1, (path.name, place)
            assert "is not as its manifest says in" in err
            assert out.splitlines()[0].split() == ["tensor", "problem"]
        path.write_bytes(content)
    assert run("verify", "--weights", tmp_path / "ms")[0] == 0


def test_everything_that_is_off_is_said_at_once(run: Run, folder: Path) -> None:
    shards = sorted(folder.glob("*.safetensors"))
    shards[0].unlink()
    shards[1].write_bytes(shards[1].read_bytes()[:-1])
    content = bytearray(shards[2].read_bytes())
    content[-1] ^= 1
    shards[2].write_bytes(content)
    (folder / "tokenizer_config.json").write_text("{}")
    (folder / "README.md").write_text("Files that were added are not looked at.")
    code, out, err = run("verify", "--weights", folder)
    problems = {line.split()[0]: " ".join(line.split()[1:]) for line in out.splitlines()[1:-1]}
    assert code == 1
    assert problems[shards[0].name] == "is missing"
    assert problems[shards[1].name].startswith("has ")
    assert problems.pop("tokenizer_config.json") == "differs from the manifest"
    assert len(problems) == 3
    assert [what for name, what in problems.items() if "safetensors" not in name] == ["differs from the manifest"]
    assert "in 4 places" in err
    document = json.loads(run("verify", "--weights", folder, "--json")[1])
    assert (document["passed"], len(document["problems"])) == (False, 4)
    assert "4 places" in document["error"]["message"]
    assert document["tensors"] > 0


def test_weights_that_go_before_those_of_the_manifest_are_found(run: Run, folder: Path) -> None:
    """A single file goes before shards wherever weights are read."""
    save(folder / SINGLE_FILE, {"final_norm.weight": np.ones(8, np.float32)})
    code, out, _ = run("verify", "--weights", folder)
    assert code == 1
    assert "is not in model-00001-of-" in out


def test_a_tensor_that_is_too_many_is_found(run: Run, folder: Path) -> None:
    (shard, *_) = sorted(folder.glob("*.safetensors"))
    extra = save(folder / "model-extra.safetensors", {"extra": np.ones(3, np.float32)})
    index = json.loads((folder / INDEX_FILE).read_text())
    index["weight_map"]["extra"] = extra.name
    (folder / INDEX_FILE).write_text(json.dumps(index))
    out = run("verify", "--weights", folder)[1]
    assert "is not in the manifest" in out
    assert INDEX_FILE in out
    assert shard.name not in out


@pytest.mark.parametrize("content", ["{}", '{"mindport": {"format": 9}}', "[]", '{"weights": {"../x": 1}}', "nonsense"])
def test_a_manifest_that_is_none(run: Run, folder: Path, content: str) -> None:
    (folder / FILE_NAME).write_text(content)
    code, out, err = run("verify", "--weights", folder)
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_a_manifest_is_not_trusted(run: Run, folder: Path) -> None:
    manifest = json.loads((folder / FILE_NAME).read_text())
    weights = dict(manifest["weights"])
    for change in (
        {"files": {**manifest["files"], "../secret": "0"}},
        {"weights": {**weights, "/etc/passwd": next(iter(weights.values()))}},
        {"weights": {name: {**file, "nbytes": float("inf")} for name, file in weights.items()}},
    ):
        (folder / FILE_NAME).write_text(json.dumps({**manifest, **change}))
        assert "is not a manifest of this version" in run("verify", "--weights", folder)[2]


def test_a_folder_without_a_manifest(run: Run, source: Path) -> None:
    assert "Give a folder that `mindport convert` or `mindport export`" in run("verify", "--weights", source)[2]


def test_weights_need_no_framework(folder: Path) -> None:
    code = (
        "import sys\nfrom mindport.cli.app import main\ntry:\n    main()\nfinally:\n"
        "    loaded = {'mindspore', 'torch', 'transformers'} & set(sys.modules)\n    assert not loaded, loaded"
    )
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    command = [sys.executable, "-c", code, "verify", "--weights", str(folder)]
    assert subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False).returncode == 0


# --- --load -------------------------------------------------------------------------------------------------------


@pytest.fixture
def mindspore() -> Any:
    return pytest.importorskip("mindspore")


@pytest.mark.parametrize("kind", KINDS)
def test_a_converted_folder_loads(run: Run, mindspore: Any, source: Path, tmp_path: Path, kind: str) -> None:
    convert(source, tmp_path / "ms", KINDS[kind])
    code, out, err = run("verify", "--load", tmp_path / "ms")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "21 tensors, 0.0 MB: every name, shape, dtype and value as in the file"
    widened = {"bf16": ["bfloat16"], "mixed": ["float16"]}.get(kind, [])
    assert lines[1:] == [f"widened to float32, without loss: {dtype}" for dtype in widened]
    content = json.loads(run("verify", "--load", tmp_path / "ms", "--json")[1])
    assert (content["passed"], content["network"], content["widened"]) == (True, "native", widened)


def test_differences_of_a_folder(run: Run, mindspore: Any, source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "ms"
    convert(source, folder)
    arrays = read(folder)
    for number in range(2):
        arrays[f"layer.{number}.mlp.up.weights"] = arrays.pop(f"layer.{number}.mlp.up.weight")
    arrays["layer.1.attention.k.weight"] = arrays["layer.1.attention.k.weight"].T.copy()
    arrays["final_norm.weight"] = arrays["final_norm.weight"].astype(np.float64)
    save(folder / SINGLE_FILE, arrays)
    code, out, err = run("verify", "--load", folder)
    assert code == 1
    assert [line.split(maxsplit=1) for line in out.splitlines()] == [
        ["tensor", "problem"],
        ["layer.{0..1}.mlp.up.weight", "not loaded: there is no tensor of this name"],
        ["layer.{0..1}.mlp.up.weights", "extra: the network has no parameter of this name"],
        ["layer.1.attention.k.weight", "shape (8, 4), the network needs (4, 8)"],
        ["final_norm.weight", "dtype float64, the network needs float32"],
    ]
    assert err == "error: 6 weights do not fit the network.\n"
    content = json.loads(run("verify", "--load", folder, "--json")[1])
    assert list(content) == [
        *("passed", "network", "tensors", "nbytes", "stored_dtypes", "widened", "carried", "not_loaded", "extra"),
        *("shapes", "dtypes", "repeated", "values", "error"),
    ]
    assert (content["passed"], content["tensors"]) == (False, 0)
    assert content["not_loaded"] == ["layer.0.mlp.up.weight", "layer.1.mlp.up.weight"]
    assert content["shapes"] == [{"name": "layer.1.attention.k.weight", "given": [8, 4], "needed": [4, 8]}]
    assert content["dtypes"] == [{"name": "final_norm.weight", "given": "float64", "needed": "float32"}]


def read(folder: Path) -> Arrays:
    from mindport.checkpoint.files import read as read_entry
    from mindport.checkpoint.folder import find_weights

    return {name: read_entry(entry) for name, entry in find_weights(folder).entries.items()}


def test_a_changed_value_is_not_for_this_check(run: Run, mindspore: Any, folder: Path) -> None:
    """It compares the network with the file; the file with what was written is for --weights."""
    (shard, *_) = folder.glob("*.safetensors")
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(content)
    assert run("verify", "--load", folder)[0] == 0
    assert run("verify", "--weights", folder)[0] == 1


def test_shards_that_contradict_their_index(run: Run, mindspore: Any, folder: Path) -> None:
    (shard, *_) = sorted(folder.glob("*.safetensors"))
    shard.unlink()
    code, out, err = run("verify", "--load", folder)
    assert (code, out) == (1, "")
    assert "the weights are not as their index says:" in err
    assert f"  {shard.name}: " in err


def test_paths_that_are_no_converted_folder(run: Run, source: Path, tmp_path: Path) -> None:
    assert "ms_config.json does not exist. Give a folder that" in run("verify", "--load", source)[2]
    assert "is not a folder. Give the converted folder" in run("verify", "--load", source / SINGLE_FILE)[2]
    assert "does not exist." in run("verify", "--load", tmp_path / "no", "--network", "a:B")[2]


# --- --load --network ---------------------------------------------------------------------------------------------

OWN = """
print("the network's code runs")
import numpy as np
import mindspore as ms
from mindspore import nn, Parameter, Tensor

CALLS = []

class Net(nn.Cell):
    def __init__(self, dtype=ms.float32):
        super().__init__()
        self.fc = nn.Dense(3, 4)
        self.scale = Parameter(Tensor(np.zeros((2,)), dtype))

class Tied(nn.Cell):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(4, 3)
        self.head = nn.Dense(3, 4, has_bias=False)
        self.head.weight = self.embedding.embedding_table

class Sized(nn.Cell):
    def __init__(self, config):
        super().__init__()
        self.word = nn.Embedding(config.vocab_size, config.hidden_size)

class Casts(Net):
    def __init__(self):
        super().__init__()
        given, self.scale.set_data = self.scale.set_data, self.change
        self.set = given
    def change(self, data):
        return self.set(Tensor(np.round(data.asnumpy(), 1)))

class Renames(Casts):
    def change(self, data):
        self.scale.name = "other"
        return self.set(data)

class Twice(nn.Cell):
    def __init__(self):
        super().__init__()
        self.a = Parameter(Tensor(np.zeros((2,), np.float32)), name="scale")
        self.b = Parameter(Tensor(np.zeros((2,), np.float32)), name="scale")

class Half(Net):
    def __init__(self):
        super().__init__(ms.bfloat16)

class Fails(nn.Cell):
    def __init__(self):
        super().__init__()
        raise ValueError("no luck today")

def ends(): raise SystemExit(3)
def nothing(): return {"fc": 1}
def make(): return Net()
def two(a, b): return Net()
def keyword(*, config): return Sized(config)
made = Net()
number = 3
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mindspore: Any) -> Iterator[Path]:
    """A working folder with a module `ownnet`, forgotten afterwards."""
    where = tmp_path / "here"
    where.mkdir()
    (where / "ownnet.py").write_text(OWN)
    monkeypatch.chdir(where)
    before, modules = list(sys.path), set(sys.modules)
    yield where
    assert sys.path == before
    for name in set(sys.modules) - modules:
        if name.split(".")[0].startswith(("own", "bad")):
            del sys.modules[name]


def net(dtype: Any = np.float32) -> Arrays:
    """What fits `Net`."""
    generator = np.random.default_rng(1)
    arrays = {"scale": (2,), "fc.weight": (4, 3), "fc.bias": (4,)}
    found = {name: generator.standard_normal(shape, np.float32) for name, shape in arrays.items()}
    return {**found, "scale": found["scale"].astype(dtype)}


@pytest.mark.parametrize("name", ["Net", "make", "made", "Half"])
def test_a_network_of_ones_own(run: Run, here: Path, name: str) -> None:
    arrays = net(ml_dtypes.bfloat16 if name == "Half" else np.float32)
    path = save(here / "weights.safetensors", arrays)
    code, out, err = run("verify", "--load", path, "--network", f"ownnet:{name}")
    assert (code, out) == (0, "3 tensors, 0.0 MB: every name, shape, dtype and value as in the file\n")
    assert err == "the network's code runs\n"


def test_its_json_is_not_disturbed(run: Run, here: Path) -> None:
    path = save(here / "weights.safetensors", net())
    content = json.loads(run("verify", "--load", path, "--network", "ownnet:Net", "--json")[1])
    assert (content["passed"], content["network"], content["tensors"]) == (True, "ownnet:Net", 3)
    assert content["nbytes"] == sum(array.nbytes for array in net().values())


def test_a_checkpoint_of_mindspore(run: Run, here: Path, mindspore: Any) -> None:
    tensors = [{"name": name, "data": mindspore.Tensor(array)} for name, array in net().items()]
    mindspore.save_checkpoint(tensors, str(here / "net.ckpt"))
    assert run("verify", "--load", "net.ckpt", "--network", "ownnet:Net")[0] == 0


def test_shards_of_a_network_of_ones_own(run: Run, here: Path) -> None:
    weight_map = {}
    for number, (name, array) in enumerate(net().items()):
        weight_map[name] = save(here / f"part-{number}.safetensors", {name: array}).name
    (here / INDEX_FILE).write_text(json.dumps({"weight_map": weight_map}))
    for path in (here, here / INDEX_FILE):
        assert run("verify", "--load", path, "--network", "ownnet:Net")[0] == 0


def test_half_precision_is_not_cast_for_a_network_of_ones_own(run: Run, here: Path) -> None:
    for given, name, needed in ((ml_dtypes.bfloat16, "Net", "float32"), (np.float32, "Half", "bfloat16")):
        path = save(here / "weights.safetensors", net(given))
        code, out, _ = run("verify", "--load", path, "--network", f"ownnet:{name}")
        assert code == 1
        assert f"scale   dtype {np.dtype(given)}, the network needs {needed}" in out


def test_a_prefix_is_named_and_not_stripped(run: Run, here: Path) -> None:
    path = save(here / "weights.safetensors", {f"backbone.{name}": array for name, array in net().items()})
    code, out, err = run("verify", "--load", path, "--network", "ownnet:Net")
    assert code == 1
    assert out.count("not loaded") == out.count("extra") == 3
    assert err.endswith(
        "error: 6 weights do not fit the network. "
        "The names of the file would fit without their prefix 'backbone.'; rename them.\n"
    )


def test_a_tied_parameter_is_there_once(run: Run, here: Path) -> None:
    table = {"embedding.embedding_table": np.ones((4, 3), np.float32)}
    path = save(here / "weights.safetensors", table)
    assert run("verify", "--load", path, "--network", "ownnet:Tied")[0] == 0
    save(path, {**table, "head.weight": np.ones((4, 3), np.float32)})
    code, out, _ = run("verify", "--load", path, "--network", "ownnet:Tied")
    assert code == 1
    assert out.splitlines()[1:] == ["head.weight  extra: the network has no parameter of this name"]


@pytest.mark.parametrize("name", ["Casts", "Renames"])
def test_a_network_that_changes_what_is_loaded(run: Run, here: Path, name: str) -> None:
    path = save(here / "weights.safetensors", net())
    code, out, _ = run("verify", "--load", path, "--network", f"ownnet:{name}")
    assert code == 1
    assert out.splitlines()[1:] == ["scale   the network does not hold the values it was given"]


def test_two_parameters_of_one_name(run: Run, here: Path) -> None:
    path = save(here / "weights.safetensors", {"scale": np.ones(2, np.float32)})
    assert "scale   more than one has this name" in run("verify", "--load", path, "--network", "ownnet:Twice")[1]


@pytest.mark.parametrize("name", ["Sized", "keyword"])
def test_a_network_that_takes_the_config(run: Run, here: Path, folder: Path, name: str) -> None:
    """Of the converted folder it asks, and gets one with another size than the default."""
    code, out, err = run("verify", "--load", folder, "--network", f"ownnet:{name}")
    assert code == 1
    assert "word.embedding_table  " in out
    assert "dtype" not in out
    alone = here / "alone"
    alone.mkdir()
    shutil.copy(folder / "ms_config.json", alone)
    save(alone / SINGLE_FILE, {"word.embedding_table": np.ones((11, 8), np.float32)})
    assert run("verify", "--load", alone, "--network", f"ownnet:{name}")[0] == 0
    (alone / "ms_config.json").unlink()
    code, out, err = run("verify", "--load", alone, "--network", f"ownnet:{name}")
    assert (code, out) == (1, "")
    assert f"ownnet:{name} takes a configuration, and {alone} has no ms_config.json." in err


@pytest.mark.parametrize(
    ("network", "sentence"),
    [
        ("ownnet", "'ownnet' does not name a network. Write it as module:Class."),
        ("", "'' does not name a network."),
        ("ownnet:", "does not name a network."),
        ("own-net:Net", "does not name a network."),
        ("ownnet:Net()", "does not name a network."),
        ("a:b:c", "does not name a network."),
        ("ownmissing:Net", "There is no module ownmissing. Run the command in the folder that holds it, or install"),
        ("ownnet.sub:Net", "There is no module ownnet.sub."),
        ("ownnet:Missing", "Module ownnet has no Missing."),
        ("ownnet:Net.missing", "Module ownnet has no Net.missing."),
        ("ownnet:number", "ownnet:number is a int, not a mindspore.nn.Cell."),
        ("ownnet:nothing", "ownnet:nothing makes a dict, not a mindspore.nn.Cell."),
        ("ownnet:two", "ownnet:two has to be given 2 arguments: a, b. Write a function without parameters"),
        ("ownnet:ends", "ownnet:ends could not be built: SystemExit: 3 ("),
        ("ownnet:Fails", "ownnet:Fails could not be built: ValueError: no luck today ({here}/ownnet.py:"),
        ("badsyntax:Net", "Module badsyntax could not be imported: SyntaxError: "),
        ("badimport:Net", "Module badimport could not be imported: ModuleNotFoundError: No module named 'nowhere' ("),
    ],
)
def test_what_is_no_network(run: Run, here: Path, network: str, sentence: str) -> None:
    (here / "badsyntax.py").write_text("class Net(:\n")
    (here / "badimport.py").write_text("import nowhere\n")
    path = save(here / "weights.safetensors", net())
    code, out, err = run("verify", "--load", path, "--network", network)
    assert (code, out) == (1, "")
    assert f"error: {sentence}".format(here=here) in err or sentence.format(here=here) in err
    assert err.replace("the network's code runs\n", "").count("\n") == 1


def test_without_the_framework(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "This needs mindspore, which is not installed." in run("verify", "--load", folder)[2]


def test_in_chinese(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDPORT_LANG", "zh_CN")
    path = save(here / "weights.safetensors", {**net(), "extra": np.ones(1, np.float32)})
    _, out, err = run("verify", "--load", path, "--network", "ownnet:Net")
    assert "网络中没有" in out
    assert "有 1 个权重与网络不匹配。" in err
