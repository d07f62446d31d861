"""MindFormers as the goal of a conversion: which of its graphs, how weights lie there, and the YAML beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mindport.checkpoint.shards import TargetFile
from mindport.config.hf import ModelConfig
from mindport.config.mindformers.choice import chosen_graph, model_within
from mindport.config.mindformers.emit import emit
from mindport.config.mindformers.findings import ERROR
from mindport.config.mindformers.settings import FINETUNE, PRETRAIN, RunSettings
from mindport.config.mindformers.validate import validate_file
from mindport.config.native import NativeConfig
from mindport.config.yaml_file import parse_yaml
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.targets.mindformers import (
    MCORE,
    PYNATIVE,
    Destination,
    InferenceLayout,
    Layout,
    default_layout,
    family_named,
    layout_of,
    version_named,
)
from mindport.targets.mindformers.plugin import plugin_files


@dataclass(frozen=True)
class Goal:
    """What is wanted of MindFormers.

    Args:
        version: such as "1.9".
        folder: the one that will be written, which the YAML names as the place of the weights.
        generation: "legacy", "mcore" or "pynative"; None: the first of the version's that computes the model.
        graph: MindFormers' name of the only graph that will do; None: any.
        layout: settings of the model config that decide how weights lie.
        inference: the inference graph is meant, which has no such settings and no YAML.
        settings: of the run.
        tasks: PRETRAIN, FINETUNE: for each a YAML.
        known: the destination, where it was decided before.
    """

    version: str
    folder: Path
    generation: str | None = None
    graph: str | None = None
    layout: Mapping[str, bool] = field(default_factory=dict)
    inference: bool = False
    settings: RunSettings = field(default_factory=RunSettings)
    tasks: tuple[str, ...] = (PRETRAIN, FINETUNE)
    known: Destination | None = None

    @staticmethod
    def again(destination: Destination) -> Goal:
        """The goal of a conversion that was done before, for its weights alone."""
        return Goal(destination.version.name, Path(), tasks=(), known=destination)

    def destination(self, model: ModelConfig, *, weights: bool) -> Destination:
        """The graph for a model, and the layout.

        Args:
            weights: they will be written too, and not a YAML alone.

        Raises:
            MindportError: there is none, with the reasons and with what would do; or there are no such settings.
        """
        if self.known:
            return self.known
        version = version_named(self.version)
        if self.inference:
            return self._inference(model)
        length = self.settings.length(model.transformer.max_position_embeddings)
        graph = chosen_graph(model_within(model, length), version, self.generation, self.graph, weights=weights)
        family = family_named(graph.name, graph.generation)
        assert family is not None  # `chosen_graph` takes it from there
        return Destination(version, family, self._layout(graph.generation))

    def _layout(self, generation: str) -> Layout | None:
        known = default_layout(generation).settings() if generation != PYNATIVE else {}
        unknown = [name for name in self.layout if name not in known]
        if unknown:
            raise MindportError(
                tr(
                    "{name} is no layout of MindFormers' {generation} generation.",
                    name=unknown[0],
                    generation=generation,
                ),
                tr("Choose one of {names}.", names=", ".join(known)) if known else tr("Leave it out."),
            )
        return None if generation == PYNATIVE else layout_of(generation, self.layout)

    def _inference(self, model: ModelConfig) -> Destination:
        version, name = version_named(self.version), self.graph or model.model_type
        family = family_named(name, MCORE)
        if self.generation not in (None, MCORE):
            raise MindportError(
                tr("The inference graphs are those of the {generation} generation.", generation=MCORE),
                tr("Leave --generation out."),
            )
        if family is None or not family.infers(version):
            raise MindportError(
                tr("MindFormers {version} has no inference graph {name} (mcore).", version=version.name, name=name),
                tr(
                    "Those that it has: {names}.",
                    names=", ".join(known.name for known in version.families(MCORE, training=False)),
                ),
            )
        return Destination(version, family, InferenceLayout())

    def weights_format(self, asked: str | None) -> str:
        """The format of the weights: the one that was asked for, or the usual one of the version.

        Raises:
            MindportError: the version cannot load it.
        """
        version = version_named(self.version)
        if asked == "safetensors" and not version.loads_safetensors:
            raise MindportError(
                tr("MindFormers {version} loads .ckpt alone.", version=version.name), tr("Choose --format ckpt.")
            )
        return asked or ("safetensors" if version.loads_safetensors else "ckpt")

    @property
    def yaml_files(self) -> dict[str, str]:
        """Names of the YAML files -> their tasks: none for the inference graph."""
        return {} if self.inference else {f"{task}.yaml": task for task in self.tasks}

    def beside(self, config: NativeConfig, files: Sequence[TargetFile]) -> dict[str, str]:
        """The YAML files, and the plug-in where the graph is one of its: name -> text.

        Args:
            config: of what will be written.
            files: its weights; none: a YAML alone.

        Raises:
            MindportError: MindFormers would refuse the run, or change it in silence.
        """
        destination = config.destination
        assert destination is not None
        texts = {name: self._yaml(name, config, destination, files) for name in self.yaml_files}
        return {**texts, **plugin_files()} if texts and destination.family.plugin else texts

    def _yaml(self, name: str, config: NativeConfig, destination: Destination, files: Sequence[TargetFile]) -> str:
        settings = replace(self.settings, task=self.yaml_files[name])
        if files:
            place = self.folder.absolute()
            single = place / files[0].name if files[0].name.endswith(".ckpt") else place
            settings = replace(settings, load_checkpoint=settings.load_checkpoint or str(single))
        family = destination.family
        text = emit(
            config.model, destination.version.name, family.generation, settings, family.name, destination.layout
        )
        found = validate_file(parse_yaml(text, Path(name)), destination.version).findings
        errors = [finding for finding in found if finding.level == ERROR]
        if errors:
            raise MindportError(
                tr(
                    "MindFormers {version} would not train as meant: {findings}",
                    version=destination.version.name,
                    findings=" ".join(f"{finding.code}: {finding.message}" for finding in errors),
                ),
                " ".join(finding.fix for finding in errors if finding.fix) or tr("Correct it in the run settings."),
            )
        return text
