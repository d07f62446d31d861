"""Options that say where a conversion goes, and what they become."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mindport.errors import MindportError, brief
from mindport.i18n import tr
from mindport.targets import NATIVE

if TYPE_CHECKING:
    from mindport.checkpoint.goal import Goal

MINDFORMERS = "mindformers"

To = Annotated[
    str,
    typer.Option("--to", metavar="TARGET", help=tr("Target of the conversion: native, or mindformers@VERSION.")),
]
Generation = Annotated[
    str | None,
    typer.Option(
        "--generation",
        metavar="NAME",
        help=tr("Of MindFormers: legacy, mcore or pynative; the first that computes the model, if not given."),
        show_default=False,
    ),
]
Graph = Annotated[
    str | None,
    typer.Option(
        "--graph",
        metavar="NAME",
        help=tr("The only training graph of MindFormers that will do, such as telechat3."),
        show_default=False,
    ),
]
Layout = Annotated[
    list[str] | None,
    typer.Option(
        "--layout",
        metavar="KEY=BOOL",
        help=tr("How weights lie: a switch of the model config, such as qkv_concat=true. Repeatable."),
        show_default=False,
    ),
]
Inference = Annotated[
    bool, typer.Option("--inference", help=tr("MindFormers' inference graph (mcore), in place of a training graph."))
]
SettingsFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--settings",
        metavar="FILE",
        help=tr("Run settings or a parallel plan, as YAML or JSON. Repeatable; what a later one says counts."),
        show_default=False,
    ),
]
Singles = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help=tr("A single run setting, such as parallel.tensor=4 or task=finetune. Repeatable."),
        show_default=False,
    ),
]


def goal_of(
    to: str,
    folder: Path,
    generation: str | None,
    graph: str | None,
    layout: list[str] | None,
    inference: bool,
    files: list[Path] | None,
    singles: list[str] | None,
) -> Goal | None:
    """MindFormers, if it is the target; None for the native one.

    Raises:
        typer.BadParameter: there is no such target, or an option means nothing to it.
        MindportError: there is no such version, or run settings or a layout cannot be read.
    """
    name, _, version = to.partition("@")
    if name == MINDFORMERS and version:
        from mindport.checkpoint.goal import Goal
        from mindport.config.mindformers.settings import FINETUNE, PRETRAIN, RunSettings
        from mindport.config.mindformers.settings_file import gathered
        from mindport.targets.mindformers import version_named

        given = gathered(files or (), singles or ())
        settings = RunSettings.from_mapping(given)
        tasks = (settings.task,) if "task" in given else (PRETRAIN, FINETUNE)
        switches = parse_layout(layout)
        if inference and (switches or given):
            raise MindportError(
                tr("The inference graph has neither switches of its layout nor a run."),
                tr("Leave --layout, --settings and --set out."),
            )
        return Goal(version_named(version).name, folder, generation, graph, switches, inference, settings, tasks)
    if to != NATIVE.name:
        from mindport.targets.mindformers import VERSIONS

        raise typer.BadParameter(
            tr(
                "{target} is no target: choose native, or mindformers@VERSION with one of {versions}.",
                target=brief(to),
                versions=", ".join(VERSIONS),
            )
        )
    options = {
        "--generation": generation,
        "--graph": graph,
        "--layout": layout,
        "--inference": inference,
        "--settings": files,
        "--set": singles,
    }
    idle = [option for option, value in options.items() if value]
    if idle:
        raise typer.BadParameter(tr("{options} means nothing to the native target.", options=", ".join(idle)))
    return None


def parse_layout(words: list[str] | None) -> dict[str, bool]:
    """Switches of a model config.

    Raises:
        MindportError: a word is none.
    """
    switches = {}
    for word in words or ():
        name, _, value = word.partition("=")
        if value.lower() not in ("true", "false"):
            raise MindportError(tr("{text} is no layout.", text=brief(word)), tr("Write qkv_concat=true, for example."))
        switches[name] = value.lower() == "true"
    return switches
