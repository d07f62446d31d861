"""What one release of MindFormers makes of training YAMLs; run in the environment of that release.

    python probe.py ANSWERS.json FILE.yaml...

Every file goes the way that MindFormers' own trainer takes with it up to the first step: template, validators of the
context, network, learning rate, optimizer, wrapper, callbacks. For a machine with nothing but a CPU, two things are
changed once the template has passed: the device, and that processes join in a group. Nothing here is ours but the order
of the calls.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import mindformers
import mindspore
from mindformers.core import build_lr, build_optim
from mindformers.core.callback import build_callback
from mindformers.core.context.build_context import build_context, set_context
from mindformers.core.context.validators import execute_validator
from mindformers.core.parallel_config import build_parallel_config
from mindformers.models.build_config import get_model_config
from mindformers.models.build_model import build_network
from mindformers.parallel_core.transformer_config_utils import convert_to_transformer_config
from mindformers.tools.logger import logger
from mindformers.tools.register import MindFormerConfig, MindFormerModuleType, MindFormerRegister
from mindformers.trainer.optimizer_grouped_parameters import get_optimizer_grouped_parameters
from mindformers.wrapper import build_wrapper

STEPS = 50
"""Steps of the run, which a trainer finds from the data."""
RATED = 9
"""Steps, from the first, of which the learning rate is asked."""

Answer = dict[str, Any]


def ask(path: str, answer: Answer) -> None:
    """Send one file down the way, and note what is found on it.

    Args:
        answer: gets `stage`, the last one begun; `document`, the YAML as the template leaves it; `held`, the
            attributes of the model's configuration; `parameters`, name -> shape; `built`, what was made of components.
    """
    answer["stage"] = "template"
    config = MindFormerConfig(path)
    answer["document"] = plain(config)
    answer["stage"] = "context"
    make_context(config)
    build_parallel_config(config)
    answer["stage"] = "model"
    if not config.use_legacy:
        answer["held"] = attributes(converted(config))
    answer["stage"] = "components"
    answer["built"] = components(config)
    if not config.use_legacy and release() < (1, 7):
        return  # its layers cast parameters that have no values yet, at which MindSpore 2.7.2 ends the process
    answer["stage"] = "network"
    mindspore.set_auto_parallel_context(pipeline_stages=config.parallel_config.pipeline_stage)
    arguments = {"parallel_config": config.parallel_config, "moe_config": config.moe_config}
    network = build_network(config.model, default_args=arguments)
    answer["held"] = answer.get("held") or attributes(network.config)
    answer["parameters"] = {name: list(value.shape) for name, value in network.parameters_and_names()}
    answer["stage"] = "training"
    answer["built"].update(training(config, network))


def release() -> tuple[int, ...]:
    return tuple(int(part) for part in mindformers.__version__.split(".")[:2])


made: list[Any] = []
"""The context of the process."""


def make_context(config: Any) -> None:
    config.context.device_target = "CPU"
    config.use_parallel = False
    if made:
        execute_validator(MindFormerConfig(**config))
    else:
        made.append(build_context(config))
    set_context(run_mode=config.run_mode, use_legacy=config.use_legacy)  # which MindFormers looks up when needed


def converted(config: Any) -> Any:
    """The model's section as the training graphs convert it, which refuses a key it does not know."""
    section = get_model_config(config.model, default_args={"parallel_config": config.parallel_config})
    return convert_to_transformer_config(section, is_mla_model=hasattr(section, "kv_lora_rank"))


def components(config: Any) -> Answer:
    """What a run finds by name and makes before it has a model."""
    for kind, name in (
        (MindFormerModuleType.TRAINER, config.trainer.type),
        (MindFormerModuleType.DATASET, config.train_dataset_task.type),
        (MindFormerModuleType.DATASET_LOADER, config.train_dataset.data_loader.type),
    ):
        MindFormerRegister.get_cls(kind, name)
    if config.lr_schedule.total_steps == -1:
        config.lr_schedule.total_steps = STEPS
    rate = build_lr(config.lr_schedule)
    callbacks = build_callback(config.callbacks, default_args={"origin_epochs": 1, "dataset_size": STEPS})
    steps = (mindspore.Tensor(step, mindspore.int32) for step in range(RATED))
    return {
        "rates": [float(rate(step).asnumpy()) for step in steps],
        "callbacks": [type(callback).__name__ for callback in callbacks],
    }


def training(config: Any, network: Any) -> Answer:
    """The optimizer and the cell of a training step."""
    groups = get_optimizer_grouped_parameters(network, config.optimizer.weight_decay, None)
    optimizer = build_optim(config.optimizer, default_args={"params": groups, "learning_rate": 1e-3})
    arguments = {"network": network, "optimizer": optimizer, "parallel_config": config.parallel_config}
    wrapper = build_wrapper(config.runner_wrapper, default_args=arguments)
    return {"optimizer": type(optimizer).__name__, "wrapper": type(wrapper).__name__}


def attributes(config: Any) -> Answer:
    return {name: plain(value) for name, value in vars(config).items()}


def plain(value: Any) -> Any:
    """As JSON can say it; anything else by its name."""
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def main(target: Path, paths: list[str]) -> None:
    answers: dict[str, Answer] = {}
    for path in paths:
        answer = answers[path] = {"release": list(release()), "refused": None, "warnings": []}
        logger.warning = lambda text, *values, into=answer["warnings"]: into.append(
            str(text % values if values else text)
        )
        try:
            ask(path, answer)
        except Exception as refusal:
            answer["refused"] = f"{type(refusal).__name__}: {refusal}"
        target.write_text(json.dumps(answers), encoding="utf-8")  # each time: a crash shows at which file it came


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
