"""MindFormers' own Trainer on a CPU, with what each of its steps returned."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindspore.train import Callback

from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.verify.mindformers.stand_ins import stand_in, stand_in_step


@dataclass(frozen=True)
class TrainedStep:
    """What MindFormers' training step returned.

    Args:
        loss: before the update.
        learning_rate: of the update.
        gradient_norm: of all gradients together, before clipping.
    """

    loss: float
    learning_rate: float
    gradient_norm: float


def train(path: Path) -> list[TrainedStep]:
    """Train as MindFormers' run_mindformer.py does with the same YAML, with our stand-ins for Ascend's kernels.

    MindFormers sets its process up once: one call in each.

    Args:
        path: a YAML for one CPU, without sink mode.

    Returns:
        every step. Checkpoints and logs are where the YAML says.

    Raises:
        MindportError: there is no such file, or it is for another device, or for several.
    """
    if not path.is_file():
        raise MindportError(tr("{path} does not exist.", path=path), tr("Check the path."))
    register = importlib.import_module("mindformers.tools.register")
    config = register.MindFormerConfig(str(path))
    _check(path, config)
    importlib.import_module("mindformers.utils.file_utils").set_output_path(config.output_dir)
    importlib.import_module("mindformers.core.context").build_context(config)
    if not config.use_legacy:
        stand_in()
    stand_in_step()
    seen = _Steps()
    importlib.import_module("mindformers.trainer").Trainer(config, callbacks=[seen]).train()
    return seen.steps


class _Steps(Callback):
    """Keeps what the steps return, in full precision; MindFormers' own monitor rounds it."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[TrainedStep] = []

    def step_end(self, run_context: Any) -> None:
        loss, _, _, learning_rate, norm, *_ = run_context.original_args().net_outputs
        self.steps.append(TrainedStep(*(float(value.asnumpy().item()) for value in (loss, learning_rate, norm))))


def _check(path: Path, config: Any) -> None:
    """Refuse what a CPU would stop at, or do otherwise."""
    if config.context.device_target != "CPU" or config.use_parallel:
        raise MindportError(
            tr("{path} is not for one CPU: {setting}.", path=path, setting=_other_device(config)),
            tr("Write the YAML with device: CPU in the run settings."),
        )
    if config.runner_config.sink_mode:
        raise MindportError(
            tr("{path} has sink_mode on: on a CPU MindSpore would go through the data again and again.", path=path),
            tr("Write the YAML with device: CPU in the run settings."),
        )


def _other_device(config: Any) -> str:
    return "use_parallel: True" if config.use_parallel else f"device_target: {config.context.device_target}"
