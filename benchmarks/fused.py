"""The weight engine alone, on a target that no verb has yet: QKV fused per key/value group, gate and up row by row.

    python benchmarks/fused.py MODEL FOLDER [--ckpt]

Prints the seconds that the engine took, from the first header to the last flush.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from mindport.architectures.naming import spellings, tensor_map
from mindport.checkpoint.carry_out import Job, write_weights
from mindport.checkpoint.convert import CKPT, METADATA
from mindport.checkpoint.folder import find_weights
from mindport.checkpoint.plan import make_plan
from mindport.checkpoint.shards import ckpt_file, safetensors_files
from mindport.config.hf import read_hf_config
from mindport.layout import Fuse, Stored, TensorMap
from mindport.schema import TransformerConfig, slots_of


def target_of(config: TransformerConfig) -> TensorMap:
    """What the tensors of the target are made of."""
    target: TensorMap = {}
    for slot in slots_of(config):
        block, _, _ = slot.rpartition(".attention.q.")
        if block:
            parts = tuple(f"{block}.attention.{part}.weight" for part in "qkv")
            target[f"{block}.attention.qkv.weight"] = Stored(parts, (Fuse("num_query_groups").bind(config),))
        elif ".mlp.gate." in slot:
            fuse = Fuse("ffn_hidden_size", of=2).bind(config)
            target[slot.replace("gate", "gate_up")] = Stored((slot, slot.replace("gate", "up")), (fuse,))
        elif not any(part in slot for part in (".attention.k.", ".attention.v.", ".mlp.up.")):
            target[slot] = Stored((slot,))
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="Hugging Face folder")
    parser.add_argument("folder", type=Path, help="to be made")
    parser.add_argument("--ckpt", action="store_true", help="write MindSpore's .ckpt")
    options = parser.parse_args()
    started = time.perf_counter()
    described = read_hf_config(options.model)
    found = find_weights(options.model)
    config = described.transformer
    spelling = next(spellings(described.declaration))
    plan = make_plan(
        found.entries, tensor_map(described.declaration, config, spelling), target_of(config), slots_of(config)
    )
    assert not plan.problems, plan.problems
    files = (ckpt_file(plan.outputs, CKPT),) if options.ckpt else safetensors_files(plan.outputs, METADATA)
    options.folder.mkdir(parents=True)
    job = Job(plan, files, {}, found.stamps, finish=lambda folder: None)
    write_weights(job, options.folder, lambda count: None)
    print(time.perf_counter() - started)


if __name__ == "__main__":
    main()
