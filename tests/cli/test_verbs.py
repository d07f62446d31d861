"""The command line as a user meets it: what is printed, how it ends, and what is left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindport.checkpoint.safetensors import make_header
from mindport.schema import TransformerConfig
from mindport.version import __version__

from .running import run_main

SRC = Path(__file__).parents[2] / "src"
FRAMEWORKS = ("torch", "transformers", "mindspore", "jinja2", "matplotlib")
VERBS = ("inspect", "diff", "convert", "verify", "migrate", "validate", "upgrade", "list")

GPT2 = {"model_type": "gpt2", "n_embd": 4, "n_layer": 1, "n_head": 2, "vocab_size": 5, "n_positions": 6, "n_inner": 4}


@dataclass
class Ended:
    """A finished command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The one error, said in one line on standard error and nowhere else."""
        assert self.code == 1
        assert self.out == ""
        assert self.err.startswith("error: ")
        assert self.err.count("\n") == 1
        assert "Traceback" not in self.err
        return self.err.removeprefix("error: ").rstrip("\n")


Run = Callable[..., Ended]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("inspect", path)` in this process, through the entry point of the installed command."""
    monkeypatch.setenv("MINDPORT_LANG", "en")

    def command(*args: object) -> Ended:
        return Ended(*run_main(monkeypatch, capsys, *args))

    return command


def fresh(*args: object, prelude: str = "", **variables: str) -> Ended:
    """The same in an interpreter of its own, after some preparation."""
    code = f"{prelude}\nfrom mindport.cli.app import main\nmain()"
    environment = {**os.environ, "PYTHONPATH": str(SRC), "MINDPORT_LANG": "en", **variables}
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, args)], env=environment, capture_output=True, timeout=300, check=False
    )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


def tensors(hidden: int = 4, inner: int = 4, vocab: int = 5, positions: int = 6) -> dict[str, tuple[int, ...]]:
    """Tensors of a GPT-2 of one layer, written out by hand: name -> shape."""
    shapes: dict[str, tuple[int, ...]] = {"wte.weight": (vocab, hidden), "wpe.weight": (positions, hidden)}
    for norm in ("h.0.ln_1", "h.0.ln_2", "ln_f"):
        shapes |= {f"{norm}.weight": (hidden,), f"{norm}.bias": (hidden,)}
    for name, into, out in (
        ("attn.c_attn", hidden, 3 * hidden),
        ("attn.c_proj", hidden, hidden),
        ("mlp.c_fc", hidden, inner),
        ("mlp.c_proj", inner, hidden),
    ):
        shapes |= {f"h.0.{name}.weight": (into, out), f"h.0.{name}.bias": (out,)}
    return {f"transformer.{name}": shape for name, shape in shapes.items()} | {"transformer.h.0.attn.bias": (1,)}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A GPT-2 folder of zeros."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(GPT2))
    head, _ = make_header([(name, "F32", shape) for name, shape in tensors().items()], {"format": "pt"})
    elements = sum(prod(shape) for shape in tensors().values())
    (folder / "model.safetensors").write_bytes(head + bytes(4 * elements))
    return folder


@pytest.fixture(autouse=True)
def tidy(tmp_path: Path) -> Iterator[None]:
    """Whatever happens, no half-written folder stays."""
    yield
    assert not [path.name for path in tmp_path.rglob("*") if path.name.endswith((".partial", ".old"))]


# --- help, version, usage ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
def test_help(run: Run, verb: str) -> None:
    ended = run(verb, "--help")
    assert ended.code == 0
    assert "--json" in ended.out
    assert f"mindport {verb}" in ended.out


def test_help_of_the_program_lists_the_verbs(run: Run) -> None:
    ended = run("--help")
    assert ended.code == 0
    assert all(verb in ended.out for verb in VERBS)


def test_version(run: Run) -> None:
    assert run("--version") == Ended(0, f"{__version__}\n", "")


def test_version_of_the_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mindport", "--version"],
        env={**os.environ, "PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == f"{__version__}\n"


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["nonsense"],
        ["inspect"],
        ["diff", "x"],
        ["convert", "x"],
        ["verify", "x"],
        ["list", "x"],
        ["inspect", "x", "--nonsense"],
        ["convert", "x", "-o", "y", "--to", "nowhere"],
        ["convert", "x", "-o", "y", "--format", "pickle"],
        ["migrate", "x", "-o", "y", "--steps", "1"],
        ["migrate", "x", "-o", "y", "--steps", "many"],
        ["verify", "x", "y", "--gate", "lax"],
        ["validate"],
        ["validate", "x", "--devices", "0"],
        ["upgrade", "x"],
    ],
)
def test_wrong_usage_ends_with_two(run: Run, args: list[str]) -> None:
    ended = run(*args)
    assert ended.code == 2
    assert "Usage" in ended.out + ended.err
    assert "Traceback" not in ended.out + ended.err


# --- list and inspect --------------------------------------------------------------------------------------------


def test_list(run: Run) -> None:
    ended = run("list")
    assert (ended.code, ended.err) == (0, "")
    assert "LlamaForCausalLM" in ended.out
    assert "native" in ended.out


def test_list_as_json(run: Run) -> None:
    content = run("list", "--json").json
    assert list(content) == ["architectures", "targets"]
    assert all(list(entry) == ["model_type", "title", "classes", "source"] for entry in content["architectures"])
    assert all(list(entry) == ["name", "title"] for entry in content["targets"])


def test_inspect(run: Run, model: Path) -> None:
    ended = run("inspect", model)
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0] == "GPT2LMHeadModel (gpt2), 188 parameters"
    assert lines[1].split() == ["key", "value", "layer", "origin", "status", "MindSpore", "field"]
    assert any(line.split()[:5] == ["n_embd", "4", "structure", "file", "mapped"] for line in lines)
    assert lines[-1] == "0 unhandled keys: -"


def test_inspect_as_json(run: Run, model: Path) -> None:
    content = run("inspect", model, "--json").json
    assert list(content) == [
        *("model_type", "hf_class", "part", "left_out", "parameters", "fields", "unhandled", "transformer", "tokenizer")
    ]
    assert (content["part"], content["left_out"]) == (None, [])
    assert content["parameters"] == 188
    assert set(content["transformer"]) == set(TransformerConfig.describe())
    for row in content["fields"]:
        assert list(row) == ["key", "value", "layer", "origin", "status", "to", "note"]
    assert {row["status"] for row in content["fields"]} <= {"mapped", "derived", "ignored", "unhandled"}


LLAVA = {
    "model_type": "llava",
    "projector_hidden_act": "gelu",
    "text_config": {"model_type": "gpt2", "n_embd": 4, "n_head": 2},
    "vision_config": {"model_type": "clip_vision_model"},
}


def test_inspect_a_composite(run: Run, model: Path) -> None:
    (model / "config.json").write_text(json.dumps(LLAVA))
    lines = run("inspect", model).out.splitlines()
    assert lines[0].startswith("GPT2LMHeadModel (gpt2), ")
    assert lines[1] == "Only the text model, text_config, is read. Left out: vision_config, projector_hidden_act"
    content = run("inspect", model, "--json").json
    assert (content["part"], content["left_out"]) == ("text_config", ["vision_config", "projector_hidden_act"])


def test_convert_the_config_of_a_composite(run: Run, model: Path, tmp_path: Path) -> None:
    (model / "config.json").write_text(json.dumps(LLAVA))
    assert "is a composite model; only the config" in run("convert", model, "-o", tmp_path / "out").error
    assert not (tmp_path / "out").exists()
    ended = run("convert", model / "config.json", "-o", tmp_path / "out")
    assert ended.code == 0
    assert ended.err == "Only the text model, text_config, is read. Left out: vision_config, projector_hidden_act\n"
    written = json.loads((tmp_path / "out" / "ms_config.json").read_text())
    assert (written["model_type"], written["source"]["config"]) == ("gpt2", LLAVA)
    content = run("convert", model / "config.json", "-o", tmp_path / "other", "--json").json
    assert content["left_out"] == ["vision_config", "projector_hidden_act"]


def test_what_is_not_supported_as_json(run: Run, model: Path) -> None:
    (model / "config.json").write_text('{"model_type": "t5"}')
    ended = run("inspect", model, "--json")
    assert (ended.code, ended.err) == (1, "")
    assert list(ended.json["error"]) == ["message", "fix", "reason", "nearest", "left_out"]
    assert ended.json["error"]["nearest"] == "bert"


def test_unhandled_keys_do_not_stop_the_work_unless_asked(run: Run, model: Path) -> None:
    (model / "config.json").write_text(json.dumps({**GPT2, "mystery": 1, "riddle": 2}))
    assert run("inspect", model).out.endswith("2 unhandled keys: mystery, riddle\n")
    ended = run("inspect", model, "--strict")
    assert ended.code == 1
    assert ended.err == (
        "error: Unhandled config keys: mystery, riddle. "
        "Remove them from config.json if they mean nothing, or run without --strict.\n"
    )
    ended = run("inspect", model, "--json")
    assert (ended.code, ended.json["unhandled"]) == (0, ["mystery", "riddle"])
    ended = run("inspect", model, "--strict", "--json")
    assert (ended.code, ended.err) == (1, "")
    assert ended.json["unhandled"] == ["mystery", "riddle"]
    assert ended.json["error"]["message"] == "Unhandled config keys: mystery, riddle."


def test_a_hostile_config_cannot_write_to_the_terminal(run: Run, model: Path) -> None:
    hostile = {"\x1b[2J": 1, "a\nerror: b": "\x9b2J", "\u202e": "\x1b]0;x\x07"}
    (model / "config.json").write_text(json.dumps({**GPT2, **hostile}))
    for ended in (run("inspect", model), run("inspect", model, "--strict")):
        for char in "\x1b\x9b\u202e\x07":
            assert char not in ended.out + ended.err
        assert "\nerror: b" not in ended.out


def test_numbers_that_json_has_no_word_for(run: Run, model: Path) -> None:
    (model / "config.json").write_text(json.dumps({**GPT2, "mystery": [float("nan"), float("-inf")]}))
    ended = run("inspect", model, "--json")
    content = json.loads(ended.out, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    (row,) = [row for row in content["fields"] if row["key"] == "mystery"]
    assert row["value"] == ["NaN", "-Infinity"]


# --- the tokenizer -----------------------------------------------------------------------------------------------


@pytest.fixture
def tokenizer(model: Path) -> Path:
    """Of the model of five rows: four tokens."""
    vocab = {"a": 0, "b": 1, "c": 2, "<end>": 3}
    (model / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocab}}))
    (model / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<end>", "pad_token": "a"}))
    return model


def test_inspect_looks_at_the_tokenizer(run: Run, tokenizer: Path) -> None:
    lines = run("inspect", tokenizer, "--strict").out.splitlines()
    start = lines.index("tokenizer: 4 tokens, largest id 3; vocab_size 5, 1 rows without a token")
    assert " ".join(lines[start + 1].split()) == "special token text id in the tokenizer id in the config verdict"
    assert ["eos", '"<end>"', "3", "50256", "different"] in [line.split() for line in lines]
    assert lines[-3:] == [
        "padding side: not said; chat template: none",
        "vocab_size padded for tensor parallel: 2: 6, 4: 8, 8: 8, 16: 16",
        "warning: eos_token '<end>' has id 3 in the tokenizer, but the config says 50256.",
    ]
    found = run("inspect", tokenizer, "--json").json["tokenizer"]
    assert (found["tokens"], found["padded_vocab"]["16"]) == (4, 16)
    assert run("inspect", tokenizer / "config.json", "--json").json["tokenizer"] is None


def test_a_tokenizer_that_does_not_fit_is_an_error_where_asked(run: Run, tokenizer: Path) -> None:
    (tokenizer / "tokenizer.json").write_text('{"model": {"vocab": {"a": 0, "b": 9}}}')
    assert run("inspect", tokenizer).code == 0
    ended = run("inspect", tokenizer, "--strict", "--json")
    assert ended.code == 1
    assert ended.json["error"]["message"].startswith("The tokenizer does not fit the model: The tokenizer has 3 tokens")
    (tokenizer / "config.json").write_text(json.dumps({**GPT2, "mystery": 1}))
    message = run("inspect", tokenizer, "--strict", "--json").json["error"]["message"]
    assert message.startswith("Unhandled config keys: mystery. The tokenizer does not fit the model: ")
    (tokenizer / "config.json").write_text(json.dumps(GPT2))
    (tokenizer / "tokenizer.json").write_text("{")
    ended = run("inspect", tokenizer, "--strict")
    assert "tokenizer: not counted; vocab_size 5" in ended.out
    assert "tokenizer.json is not valid JSON" in ended.err


# --- diff --------------------------------------------------------------------------------------------------------


def test_diff_of_what_is_the_same(run: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text(json.dumps({**GPT2, "torch_dtype": "float32", "use_cache": True}))
    ended = run("diff", model, tmp_path / "other.json")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines()[-2:] == [
        "1 keys differ in spelling or bookkeeping only; --raw shows them.",
        "No difference in meaning.",
    ]
    raw = run("diff", model, tmp_path / "other.json", "--raw")
    assert any(line.split()[:5] == ["torch_dtype", "added", "-", '"float32"', "same"] for line in raw.out.splitlines())
    ended = run("diff", model, tmp_path / "other.json", "--json")
    assert (ended.code, ended.json["equal"], ended.json["fields"]) == (0, True, [])


def test_diff_of_what_differs(run: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text(json.dumps({**GPT2, "vocab_size": 7, "resid_pdrop": 0.3}))
    ended = run("diff", model, tmp_path / "other.json")
    assert (ended.code, ended.err) == (1, "")
    lines = ended.out.splitlines()
    assert any(line.split() == ["vocab_size", "5", "7", "weight", "shapes"] for line in lines)
    assert any(line.split() == ["resid_pdrop", "added", "-", "0.3", "training", "hidden_dropout"] for line in lines)
    assert lines[-2:] == [
        "weights: 0 added, 0 removed, 1 of another shape",
        "2 fields differ: weight shapes 1, training 1",
    ]
    ended = run("diff", model, tmp_path / "other.json", "--json")
    assert (ended.code, ended.err) == (1, "")
    assert ended.json["equal"] is False
    assert "error" not in ended.json


def test_diff_of_hostile_configs_cannot_write_to_the_terminal(run: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text(json.dumps({**GPT2, "\x1b[2J": {"\u202e": "\x9b2J"}}))
    ended = run("diff", model, tmp_path / "other.json", "--raw")
    assert ended.code == 1
    assert not any(char in ended.out for char in "\x1b\x9b\u202e")


# --- convert -----------------------------------------------------------------------------------------------------


def test_convert(run: Run, model: Path, tmp_path: Path) -> None:
    ended = run("convert", model, "-o", tmp_path / "out")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0] == str(tmp_path / "out" / "ms_config.json")
    assert lines[1].startswith(f"{tmp_path / 'out' / 'model.safetensors'}: 20 tensors, 0.0 MB in ")
    assert lines[2] == "skipped transformer.h.0.attn.bias: causal mask, recomputed"
    names = ["mindport_manifest.json", "model.safetensors", "ms_config.json"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names


@pytest.mark.parametrize("weights", ["safetensors", "ckpt"])
def test_convert_as_json(run: Run, model: Path, tmp_path: Path, weights: str) -> None:
    content = run("convert", model, "--output", tmp_path / "out", "--format", weights, "--json").json
    assert 0 <= content.pop("seconds") < 60
    assert content == {
        "folder": str(tmp_path / "out"),
        "target": "native",
        "config": str(tmp_path / "out" / "ms_config.json"),
        "yaml": [],
        "weights": [str(tmp_path / "out" / f"model.{weights}")],
        "tensors_in": 17,
        "tensors_out": 20,
        "nbytes": 752,
        "skipped": {"transformer.h.0.attn.bias": "causal mask, recomputed"},
        "tied_copies": [],
        "unhandled": [],
        "left_out": [],
    }


def test_convert_of_a_config_alone(run: Run, model: Path, tmp_path: Path) -> None:
    content = run("convert", model / "config.json", "-o", tmp_path / "out", "--json").json
    assert (content["weights"], content["tensors_in"], content["nbytes"]) == ([], 0, 0)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["ms_config.json"]


def test_an_existing_folder(run: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("precious")
    assert run("convert", model, "-o", tmp_path / "out").error == (
        f"{tmp_path / 'out'} already exists. Choose another folder, or pass --overwrite."
    )
    assert "not written by Mindport" in run("convert", model, "-o", tmp_path / "out", "--overwrite").error
    assert (tmp_path / "out" / "mine").read_text() == "precious"
    (tmp_path / "out" / "ms_config.json").write_text("{}")
    assert run("convert", model, "-o", tmp_path / "out", "--overwrite").code == 0
    assert not (tmp_path / "out" / "mine").exists()


def test_the_source_is_never_overwritten(run: Run, model: Path) -> None:
    assert "holds the source" in run("convert", model, "-o", model, "--overwrite").error
    assert (model / "model.safetensors").exists()


# --- what goes wrong ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "is not valid JSON: Expecting property name enclosed in double quotes: line 1 column 2"),
        (b"[]", "does not hold a JSON object. Restore or re-download the file."),
        (b"{}", "The config names no model_type; it has none of the keys of a Transformer's config. `mindport list`"),
        (
            b'{"type_vocab_size": 2}',
            "The config names no model_type; its keys are like those of BERT. Nearest supported model_type: bert.",
        ),
        (
            b'{"model_type": "gtp2"}',
            "model_type 'gtp2' is not known; it has none of the keys of a Transformer's config. Nearest supported",
        ),
        (
            b'{"model_type": "gpt2", "architectures": ["GPT2DoubleHeadsModel"]}',
            "Model class 'GPT2DoubleHeadsModel' of gpt2 is not supported. Supported classes: GPT2LMHeadModel, GPT2M",
        ),
        (
            b'{"model_type": "gpt2", "n_embd": "768"}',
            "n_embd must be an integer, not '768'. Correct it in config.json.",
        ),
        (
            b'{"model_type": "gpt2", "quantization_config": {"bits": 4}}',
            "quantization_config: the weights are quantised, and it does not say how. Dequantise the model first, or",
        ),
    ],
)
@pytest.mark.parametrize("verb", ["inspect", "convert", "config"])
def test_a_config_that_is_wrong(run: Run, model: Path, tmp_path: Path, verb: str, content: bytes, message: str) -> None:
    (model / "config.json").write_bytes(content)
    args = {
        "inspect": ["inspect", model],
        "convert": ["convert", model, "-o", tmp_path / "out"],
        "config": ["convert", model / "config.json", "-o", tmp_path / "out"],
    }[verb]
    assert message in run(*args).error
    assert list(tmp_path.iterdir()) == [model]
    ended = run(*args, "--json")
    assert (ended.code, ended.err) == (1, "")
    assert list(ended.json) == ["error"]
    assert list(ended.json["error"])[:2] == ["message", "fix"]
    assert message in "{message} {fix}".format(**ended.json["error"])


@pytest.mark.parametrize("args", [["inspect"], ["convert", "-o", "out"], ["verify", "other"], ["migrate", "-o", "out"]])
def test_a_path_that_does_not_exist(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str]) -> None:
    if args[0] == "migrate" and not all(map(find_spec, FRAMEWORKS)):
        pytest.skip("needs the frameworks")
    monkeypatch.chdir(tmp_path)
    assert run(args[0], "nowhere", *args[1:]).error == (
        "nowhere does not exist. Give a Hugging Face model folder or its config.json."
    )
    assert list(tmp_path.iterdir()) == []


def test_verify_of_a_folder_that_was_not_converted(run: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    assert run("verify", model, tmp_path / "other").error == (
        f"{tmp_path / 'other'}/ms_config.json does not exist. Give a folder that `mindport convert` wrote."
    )


def test_a_folder_without_weights(run: Run, model: Path, tmp_path: Path) -> None:
    (model / "model.safetensors").unlink()
    message = run("convert", model, "-o", tmp_path / "out").error
    assert "holds no weights, such as model.safetensors or model.safetensors.index.json" in message
    assert "safe_serialization=True" in message


@pytest.mark.parametrize("size", [0, 7, 8, 100, -1])
def test_a_truncated_file(run: Run, model: Path, tmp_path: Path, size: int) -> None:
    path = model / "model.safetensors"
    path.write_bytes(path.read_bytes()[:size])
    assert run("convert", model, "-o", tmp_path / "out").error == (
        f"{path} is broken: it is truncated. Download or save the file again."
    )
    assert list(tmp_path.iterdir()) == [model]


def test_weights_that_do_not_fit(run: Run, model: Path, tmp_path: Path) -> None:
    (model / "config.json").write_text(json.dumps({**GPT2, "n_layer": 3}))
    ended = run("convert", model, "-o", tmp_path / "out")
    assert ended.code == 1
    lines = ended.err.splitlines()
    assert lines[0] == f"error: {model}: config and checkpoint do not fit."
    assert "  transformer.h.{1..2}.ln_1.weight: missing from the checkpoint" in lines
    assert len(lines) < 16
    assert "The tensors imply n_layer = 1 (config.json: 3)." in lines[-1]
    assert list(tmp_path.iterdir()) == [model]


def test_a_tensor_name_cannot_write_to_the_terminal(run: Run, model: Path, tmp_path: Path) -> None:
    head, _ = make_header([("\x1b[2J\nerror: all is well", "U8", (1,))], {})
    (model / "model.safetensors").write_bytes(head + b"\0")
    ended = run("convert", model, "-o", tmp_path / "out")
    assert "\x1b" not in ended.err
    assert ended.err.count("error: all is well") == 1
    assert "\nerror: all is well" not in ended.err


@pytest.mark.parametrize("output", ["/proc/mindport/out", "file/out"])
def test_an_output_that_cannot_be_written(run: Run, model: Path, tmp_path: Path, output: str) -> None:
    (tmp_path / "file").write_text("x")
    message = run("convert", model, "-o", tmp_path / output).error
    assert "could not be written" in message
    assert "choose another folder" in message.lower()


def test_an_error_of_the_operating_system(run: Run, monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("mindport.cli.inspect.read_hf_config", refuse)
    assert run("inspect", model).error == f"{model}: Permission denied"


def test_a_name_that_the_terminal_cannot_show(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9\xff"))
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**GPT2, "_name_or_path": "\u4e2d"}))
    for encoding in ("utf-8:strict", "ascii:strict"):
        ended = fresh("convert", folder / "config.json", "-o", folder / encoding, PYTHONIOENCODING=encoding)
        assert (ended.code, ended.err) == (0, "")
        assert "Traceback" not in ended.err
        ended = fresh("inspect", folder, PYTHONIOENCODING=encoding)
        assert (ended.code, ended.err) == (0, "")


def test_a_reader_that_goes_away(model: Path) -> None:
    pipe = "from mindport.cli.app import main; main()"
    command = [sys.executable, "-c", pipe, "inspect", str(model), "--json"]
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, env=environment, stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(writer)
    assert done.returncode == 1
    assert done.stderr == b""


# --- missing frameworks ------------------------------------------------------------------------------------------

WITHOUT = """
import importlib.machinery
found = importlib.machinery.PathFinder.find_spec
importlib.machinery.PathFinder.find_spec = classmethod(
    lambda cls, name, path=None, target=None: None if name.split(".")[0] in {blocked} else found(name, path, target)
)
"""


@pytest.mark.parametrize(
    ("blocked", "fix"),
    [
        (("mindspore",), "Run: pip install 'mindport[mindspore]'."),
        (("torch",), "Run: pip install 'mindport[verify]'."),
        (("jinja2",), "Run: pip install 'mindport[report]'."),
        (("torch", "transformers", "mindspore"), "Run: pip install 'mindport[verify,mindspore]'."),
    ],
)
def test_a_missing_framework_is_one_sentence(
    run: Run, model: Path, tmp_path: Path, blocked: tuple[str, ...], fix: str
) -> None:
    prelude = WITHOUT.format(blocked=set(blocked))
    ended = fresh("migrate", model, "-o", tmp_path / "out", prelude=prelude)
    missing = ", ".join(name for name in FRAMEWORKS if name in blocked)
    assert ended.error == f"This needs {missing}, which is not installed. {fix}"
    assert list(tmp_path.iterdir()) == [model]


def test_verify_without_a_framework(run: Run, model: Path, tmp_path: Path) -> None:
    assert run("convert", model, "-o", tmp_path / "out").code == 0
    ended = fresh("verify", model, tmp_path / "out", "--json", prelude=WITHOUT.format(blocked={"mindspore"}))
    assert ended.code == 1
    assert ended.json["error"]["message"] == "This needs mindspore, which is not installed."


def test_a_framework_that_fails_to_import(run: Run, model: Path, tmp_path: Path) -> None:
    assert run("convert", model, "-o", tmp_path / "out").code == 0
    broken = tmp_path / "site" / "torch"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise OSError('libgomp.so.1: cannot open shared object file')")
    prelude = f"import sys; sys.path.insert(0, {str(broken.parent)!r})"
    ended = fresh("verify", model, tmp_path / "out", prelude=prelude)
    assert "torch is installed but cannot be imported: libgomp.so.1" in ended.error


@pytest.mark.parametrize("verb", ["list", "inspect", "convert"])
def test_verbs_on_files_need_no_framework(model: Path, tmp_path: Path, verb: str) -> None:
    blocked = {"torch", "transformers", "mindspore", "safetensors", "jinja2", "matplotlib"}
    args = {"list": ["list"], "inspect": ["inspect", model], "convert": ["convert", model, "-o", tmp_path / "out"]}
    ended = fresh(*args[verb], prelude=WITHOUT.format(blocked=blocked))
    assert (ended.code, ended.err) == (0, "")


# --- both sides at once ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_migrate_and_verify_as_json(tmp_path: Path) -> None:
    if not all(map(find_spec, FRAMEWORKS)):
        pytest.skip("needs the frameworks")
    folder = tmp_path / "model"
    folder.mkdir()
    config = {**GPT2, "n_embd": 16, "n_inner": 32, "vocab_size": 64, "n_positions": 80, "eos_token_id": None}
    (folder / "config.json").write_text(json.dumps(config))
    generator, shapes = np.random.default_rng(0), tensors(hidden=16, inner=32, vocab=64, positions=80)
    weights = [generator.standard_normal(shape).astype(np.float32) / 4 for shape in shapes.values()]
    head, _ = make_header([(name, "F32", shape) for name, shape in shapes.items()], {"format": "pt"})
    (folder / "model.safetensors").write_bytes(head + b"".join(array.tobytes() for array in weights))
    migrated = fresh("migrate", folder, "-o", tmp_path / "out", "--steps", 2, "--json")
    assert migrated.code == 0
    assert list(migrated.json) == [
        *("folder", "report", "passed", "source", "target", "model_type", "hf_class", "parameters", "fields"),
        *("weights", "gate", "parity", "text", "embeddings", "alignment", "stages", "versions", "remarks"),
    ]
    assert migrated.json["passed"] is True
    assert {stage["name"] for stage in migrated.json["stages"]} == {
        *("inspect", "weights", "load check", "forward parity (graph)", "forward parity (pynative)"),
        *("greedy text", "training steps"),
    }
    assert len(migrated.json["alignment"]["losses"]) == 2
    verified = fresh("verify", folder, tmp_path / "out", "--json")
    assert verified.code == 0
    assert verified.json["passed"] is True
    assert set(verified.json["parity"]) == {"graph", "pynative"}
    # Outputs that are a little off: the gate has to notice, and say so with the exit code.
    off = (
        "import mindport.verify.forward as f; right = f.mindspore_outputs; "
        "f.mindspore_outputs = lambda *a: {name: value + 1e-3 for name, value in right(*a).items()}"
    )
    lines = fresh("verify", folder, tmp_path / "out", prelude=off)
    assert lines.code == 1
    assert "FAIL" in lines.out
    assert "error: The outputs differ by more than the strict gate allows." in lines.err
    again = fresh("verify", folder, tmp_path / "out", "--json", prelude=off)
    assert (again.code, again.json["passed"]) == (1, False)
    assert "strict" in again.json["error"]["message"]
    failed = fresh("migrate", folder, "-o", tmp_path / "other", "--steps", 2, prelude=off)
    assert failed.code == 1
    assert not (tmp_path / "other").exists()
    assert {path.name for path in (tmp_path / "other-failed").iterdir()} == {
        *("report.html", "MIGRATION.md", "migration.json"),
    }
    # One bit of a weight changed: no longer what the source converts to.
    path = tmp_path / "out" / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(bytes(content))
    assert (
        "model.safetensors differs from the source in final_norm.bias." in fresh("verify", folder, tmp_path / "out").err
    )


def test_being_ended_leaves_nothing(model: Path, tmp_path: Path) -> None:
    prelude = (
        "import os, signal, time, mindport.checkpoint.copies as c; "
        "c.check_copies = lambda plan: (os.kill(os.getpid(), signal.SIGTERM), time.sleep(9))"
    )
    assert fresh("convert", model, "-o", tmp_path / "out", prelude=prelude).code == 143
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


# --- in Chinese --------------------------------------------------------------------------------------------------


def test_errors_in_chinese(run: Run, monkeypatch: pytest.MonkeyPatch, model: Path, tmp_path: Path) -> None:
    monkeypatch.setenv("MINDPORT_LANG", "zh_CN")
    assert run("inspect", "nowhere").err == (
        "错误: nowhere 不存在。 请给出 Hugging Face 模型文件夹或其中的 config.json。\n"
    )
    (model / "config.json").write_text(json.dumps({**GPT2, "add_cross_attention": True}))
    content = run("convert", model, "-o", tmp_path / "out", "--json").json
    assert content["error"]["message"] == "不支持 add_cross_attention = True：不支持交叉注意力。"
    (model / "config.json").write_text(json.dumps({**GPT2, "n_layer": 2}))
    assert "transformer.h.1.ln_1.weight: 检查点中缺少该张量" in run("convert", model, "-o", tmp_path / "out").err


def test_inspect_in_chinese(run: Run, monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    english = run("inspect", model, "--json").json
    monkeypatch.setenv("MINDPORT_LANG", "zh_CN")
    lines = run("inspect", model).out.splitlines()
    assert lines[1].split() == ["配置项", "值", "层面", "来源", "状态", "MindSpore", "字段"]
    assert any(line.split()[:5] == ["n_embd", "4", "结构", "文件", "已映射"] for line in lines)
    assert run("inspect", model, "--json").json == english, "what machines read is the same in every language"


def test_columns_line_up_in_chinese(run: Run, monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    monkeypatch.setenv("MINDPORT_LANG", "zh_CN")
    lines = [line.encode("gbk") for line in run("inspect", model).out.splitlines()[1:-1]]
    start = lines[0].index("状态".encode("gbk"))
    assert {line[start - 2 : start] for line in lines} == {b"  "}


def test_help_in_chinese() -> None:
    ended = fresh("convert", "--help", MINDPORT_LANG="zh_CN")
    assert ended.code == 0
    assert "转换的目标" in ended.out
