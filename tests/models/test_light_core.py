"""A converted folder needs MindSpore and the light core of Mindport, and nothing that the conversion came from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

ms = pytest.importorskip("mindspore")

from mindport.architectures.naming import spellings, tensor_map  # noqa: E402
from mindport.checkpoint.convert import convert  # noqa: E402
from mindport.checkpoint.safetensors import make_header  # noqa: E402
from mindport.config.hf import from_hf  # noqa: E402
from mindport.models.folder import load_folder  # noqa: E402
from mindport.schema import slots_of  # noqa: E402

SRC = Path(__file__).parents[2] / "src"

ABSENT = (
    "accelerate",
    "gguf",
    "huggingface_hub",
    "jinja2",
    "matplotlib",
    "mindformers",
    "rich",
    "sentencepiece",
    "tokenizers",
    "torch",
    "torch_npu",
    "transformers",
    "typer",
    "yaml",
)
"""What may be missing where a converted folder is used. Not safetensors, which MindSpore itself imports."""

PROGRAM = f"""\
import sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {ABSENT!r}:
            raise ModuleNotFoundError(f"{{name}} is not to be imported", name=name)

sys.meta_path.insert(0, Absent())
from pathlib import Path
import mindspore as ms
import numpy as np
from mindport.models.folder import load_folder

network = load_folder(Path(sys.argv[1])).network
ids = ms.Tensor(np.load(sys.argv[2]))
outputs = {{}}
for name, mode in (("graph", ms.GRAPH_MODE), ("pynative", ms.PYNATIVE_MODE)):
    ms.set_context(mode=mode)
    outputs[name] = network(input_ids=ids).logits.asnumpy()
np.savez(sys.argv[3], **outputs)
"""
"""Loads argv[1], runs it on the ids in argv[2] in both modes, and saves the logits in argv[3]."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A Llama of random weights in bfloat16, converted."""
    source = tmp_path / "source"
    source.mkdir()
    sizes = {"vocab_size": 23, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 16}
    hf = {"model_type": "llama", "torch_dtype": "bfloat16", "tie_word_embeddings": True, **sizes}
    (source / "config.json").write_text(json.dumps(hf))
    described = from_hf(hf)
    (spelling, *_) = spellings(described.declaration)
    names = tensor_map(described.declaration, described.transformer, spelling)
    slots = slots_of(described.transformer)
    shapes = {name: slots[stored.parts[0]] for name, stored in names.items()}
    header, _ = make_header([(name, "BF16", shape) for name, shape in shapes.items()], {})
    random = np.random.default_rng(0)
    values = [random.standard_normal(shape).astype(ml_dtypes.bfloat16).tobytes() for shape in shapes.values()]
    (source / "model.safetensors").write_bytes(header + b"".join(values))
    convert(source, tmp_path / "native")
    return tmp_path / "native"


def test_a_converted_folder_runs_without_what_it_came_from(folder: Path, tmp_path: Path) -> None:
    """As a process that cannot import the rest, with the outputs of this one, which can."""
    ids = np.arange(2 * 9, dtype=np.int32).reshape(2, 9) % 23
    np.save(tmp_path / "ids.npy", ids)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, (folder, tmp_path / "ids.npy", tmp_path / "logits.npz"))],
        env={**os.environ, "PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = np.load(tmp_path / "logits.npz")
    wanted = load_folder(folder).network(input_ids=ms.Tensor(ids)).logits.asnumpy()
    assert wanted.std() > 0.1
    for mode in ("graph", "pynative"):
        np.testing.assert_allclose(found[mode], wanted, rtol=0, atol=1e-6)
