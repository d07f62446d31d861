"""Run by `test_plugin`, in a process of its own: a YAML in MindFormers' own Trainer, as run_mindformer.py does it.

Arguments: the YAML, and a JSON file to write: loss and gradient norm of each step, and which modules were loaded.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from mindspore.train import Callback

from mindport.verify.mindformers.stand_ins import single_process_step, stand_in


class Steps(Callback):
    """Keeps loss and gradient norm of each step."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[list[float]] = []

    def step_end(self, run_context: Any) -> None:
        loss, _, _, _, norm, *_ = run_context.original_args().net_outputs
        self.seen.append([float(loss.asnumpy().item()), float(norm.asnumpy().item())])


def main(yaml: str, output: str) -> None:
    register = importlib.import_module("mindformers.tools.register")
    config = register.MindFormerConfig(yaml)
    importlib.import_module("mindformers.utils.file_utils").set_output_path(config.output_dir)
    importlib.import_module("mindformers.core.context").build_context(config)
    stand_in()
    wrappers = register.MindFormerRegister.registry[register.MindFormerModuleType.WRAPPER]
    wrappers["MFTrainOneStepCell"] = single_process_step()
    steps = Steps()
    importlib.import_module("mindformers.trainer").Trainer(config, callbacks=[steps]).train()
    loaded = [name for name in sys.modules if name.endswith("mindport_graphs")]
    Path(output).write_text(json.dumps({"steps": steps.seen, "loaded": loaded}), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
