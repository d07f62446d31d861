"""Ways in which a checkpoint is converted without Mindport, each as a whole process.

python benchmarks/usual.py script MODEL OUTPUT        torch.load of .bin, float32, mindspore.save_checkpoint
python benchmarks/usual.py mindformers MODEL OUTPUT   MindFormers' converter for Llama, in an environment that has it
python benchmarks/usual.py mergekit MODEL OUTPUT      mergekit's copy (passthrough), in an environment that has it
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path


def script(model: Path, output: Path) -> None:
    """What tutorials show."""
    import mindspore
    import torch

    output.mkdir(parents=True)
    found = []
    for shard in sorted(model.glob("*.bin")):
        for name, tensor in torch.load(shard, map_location="cpu", weights_only=True).items():
            found.append({"name": name, "data": mindspore.Tensor(tensor.float().numpy())})
    mindspore.save_checkpoint(found, str(output / "model.ckpt"))


def mindformers(model: Path, output: Path) -> None:
    """`convert_weight.py` of MindFormers 1.9 for Llama calls this."""
    import mindspore
    from mindformers.models.llama.convert_weight import convert_pt_to_ms

    output.mkdir(parents=True)
    convert_pt_to_ms(str(model), str(output / "model.ckpt"), dtype=mindspore.bfloat16)
    assert any(output.iterdir())


def mergekit(model: Path, output: Path) -> None:
    """One model, unchanged."""
    with tempfile.TemporaryDirectory() as folder:
        recipe = Path(folder) / "recipe.yml"
        recipe.write_text(f"merge_method: passthrough\ndtype: bfloat16\nmodels:\n  - model: {model.absolute()}\n")
        command = ["mergekit.scripts.run_yaml", str(recipe), str(output), "--no-copy-tokenizer"]
        subprocess.run([sys.executable, "-m", *command], check=True)


if __name__ == "__main__":
    ways = {way.__name__: way for way in (script, mindformers, mergekit)}
    ways[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
