"""Interpreters that are small scripts, and a tiny Llama converted for MindFormers."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from mindport.checkpoint.convert import convert
from mindport.checkpoint.goal import Goal
from mindport.checkpoint.options import PLAIN, Options
from mindport.checkpoint.safetensors import make_header
from mindport.verify.mindformers.interpreter import Interpreter

SUITABLE = {"python": "3.11.7", "mindformers": "1.9.0", "mindspore": "2.9.0", "numpy": "1.26.4"}
REFERENCE = {"python": "3.11.7", "torch": "2.13.0", "transformers": "5.0.0"}

_SCRIPT = """#!{python}
import json, os, sys, time
{first}
if sys.argv[1] == "-c":
    print("noise\\nmindport found " + json.dumps({versions!r}))
    sys.exit()
who, exchange = sys.argv[-2:]
{body}
"""


def interpreter(path: Path, versions: dict[str, str], body: str = "", first: str = "") -> Interpreter:
    """A Python that says it has these packages, and runs `body` in place of a side, with `who` and `exchange`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_SCRIPT.format(python=sys.executable, versions=versions, body=body, first=first))
    path.chmod(0o755)
    return Interpreter(path, versions)


def hugging_face(folder: Path, **changes: object) -> Path:
    """A Llama of two layers with random weights, as Hugging Face has it."""
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": 19,
        "hidden_size": 8,
        "intermediate_size": 12,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 16,
        "pad_token_id": 3,
        "rope_theta": 54321.0,
        **changes,
    }
    shapes = {"model.embed_tokens.weight": (19, 8), "model.norm.weight": (8,), "lm_head.weight": (19, 8)}
    for number in range(2):
        layer = f"model.layers.{number}."
        shapes |= {f"{layer}{norm}_layernorm.weight": (8,) for norm in ("input", "post_attention")}
        shapes |= {f"{layer}self_attn.{p}_proj.weight": (4 if p in "kv" else 8, 8) for p in "qkvo"}
        shapes |= {f"{layer}mlp.{p}_proj.weight": (8, 12) if p == "down" else (12, 8) for p in ("gate", "up", "down")}
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    head, _ = make_header([(name, "F32", shape) for name, shape in shapes.items()], {"format": "pt"})
    random = np.random.default_rng(5)
    content = b"".join(random.standard_normal(shape, np.float32).tobytes() for shape in shapes.values())
    (folder / "model.safetensors").write_bytes(head + content)
    return folder


def converted(model: Path, folder: Path, goal: Goal | None = None, options: Options = PLAIN) -> Path:
    """The model for MindFormers 1.9, or for a goal that names the folder, too."""
    convert(model, folder, options, goal or Goal("1.9", folder))
    return folder
