"""What MindFormers asks of the sections of a YAML: that they are there, and hold keys it knows, where it knows them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from mindport.config.mindformers.findings import ERROR, NOTE, WARNING
from mindport.config.mindformers.judge import Findings
from mindport.config.mindformers.known import (
    COMPONENTS,
    TEMPLATE_SINCE,
    components,
    in_span,
    respelt,
    section_keys,
    strict_sections,
    versions_in,
)
from mindport.config.mindformers.losses_run import RECOMPUTE_BESIDE
from mindport.config.mindformers.misplaced import belongs_to, reason_for, strays
from mindport.config.mindformers.plugin_rules import advice, plugin
from mindport.config.mindformers.yaml_case import TRAINING, YamlCase
from mindport.errors import brief
from mindport.i18n import tr
from mindport.targets.mindformers.versions import family_named

RUN_MODES = {"train": "-", "finetune": "-", "eval": "-", "predict": "-", "predict_with_train_model": "1.8-"}

DEEPEST = 10
"""Mappings within mappings that MindFormers lets through."""

SECTIONS = (
    "trainer",
    "model",
    "runner_config",
    "runner_wrapper",
    "optimizer",
    "lr_schedule",
    "train_dataset",
    "train_dataset_task",
    "eval_dataset",
    "eval_dataset_task",
    "callbacks",
    "eval_callbacks",
    "metric",
    "processor",
    "context",
    "parallel",
    "parallel_config",
    "recompute_config",
    "swap_config",
    "moe_config",
    "monitor_config",
    "checkpoint",
    "generation_config",
    "grouped_lr_schedule",
)
"""Sections of the top level; what else stands there is a setting of its own."""

_LISTS = ("callbacks", "eval_callbacks")

_GENERAL = ("general", "GeneralTaskTrainer")
"""Names of the trainer that is handed its data by a program."""


def run_mode(case: YamlCase) -> Findings:
    mode = case.at("run_mode")
    known = [name for name, span in RUN_MODES.items() if in_span(case.version, span)]
    if mode not in known:
        yield case.find(
            "run-mode",
            ERROR,
            "run_mode",
            tr("There is no run_mode.") if mode is None else tr("There is no run_mode {mode}.", mode=brief(mode)),
            tr("it decides which sections are read"),
            ", ".join(known),
        )


def presence(case: YamlCase) -> Findings:
    """Sections and keys that MindFormers cannot do without, for what it is to do."""
    if case.mode not in RUN_MODES:
        return
    needed = ["trainer.type", "model.model_config"]
    if case.trains:
        needed += ["optimizer.type", "runner_wrapper.type"]
        needed += [] if case.at("trainer.type") in _GENERAL else ["train_dataset"]
    for path in needed:
        if case.at(path) is None and (not path.endswith(".type") or "." not in path or case.at(path.split(".")[0])):
            yield case.find(
                "missing",
                ERROR,
                path,
                tr("{key} is missing.", key=path),
                tr("run_mode {mode} needs it", mode=case.mode),
            )
    rates = ("lr_schedule", "grouped_lr_schedule", "optimizer.learning_rate")
    if case.trains and all(case.at(path) is None for path in rates):
        yield case.find(
            "missing",
            ERROR,
            "lr_schedule",
            tr("There is no learning rate."),
            tr("MindFormers takes no default for it"),
            "lr_schedule.learning_rate",
        )
    ways = ("model.model_config.model_type", "model.model_config.architectures", "pretrained_model_dir")
    if case.mcore and not any(map(case.at, ways)):
        yield case.find(
            "missing",
            ERROR,
            "model.model_config.model_type",
            tr("None of model_type, architectures and pretrained_model_dir is there."),
            tr("mcore finds its classes by one of them"),
        )


def shapes(case: YamlCase) -> Findings:
    """A section is a mapping; callbacks are a list of mappings."""
    for name in SECTIONS:
        value = case.values.get(name)
        if value is None or (isinstance(value, list) if name in _LISTS else isinstance(value, Mapping)):
            continue
        if name == "metric" and isinstance(value, list):
            continue
        kind = tr("a list") if name in _LISTS else tr("a mapping")
        yield case.find(
            "section-shape",
            ERROR,
            name,
            tr("{key} is not {kind}.", key=name, kind=kind),
            tr("its keys are read by name"),
        )


def keys(case: YamlCase) -> Findings:
    """Keys of sections that take no others; before there were templates, those that a constructor takes."""
    for section in strict_sections():
        content = case.values.get(section)
        if not isinstance(content, Mapping) or (section == "moe_config" and case.mcore):
            continue
        yield from _unknown(case, section, content, section_keys(section) or {})
    stable = case.at("monitor_config.stable_rank_config")
    if isinstance(stable, Mapping):
        yield from _unknown(case, "monitor_config.stable_rank_config", stable, section_keys("stable_rank_config") or {})


def _unknown(case: YamlCase, section: str, content: Mapping[Any, Any], spans: Mapping[str, str]) -> Findings:
    checked = case.since(TEMPLATE_SINCE) or section in ("parallel_config", "recompute_config", "moe_config")
    for key in content:
        span = spans.get(key)
        if span is not None and in_span(case.version, span):
            continue
        path = f"{section}.{key}"
        home, because = belongs_to(section, str(key)), reason_for(section, str(key))
        near = difflib.get_close_matches(str(key), [k for k, s in spans.items() if in_span(case.version, s)], 1)
        if home is not None:
            code, fix = "misplaced-key", home
        elif span is not None:
            code, fix = "key-of-another-version", f"MindFormers {versions_in(span)}"
        else:
            code, fix = "unknown-key", near[0] if near and not because else ""
        yield case.find(
            code,
            ERROR if checked else WARNING,
            path,
            tr(
                "{section} has no key {key} in MindFormers {version}.",
                section=section,
                key=brief(key),
                version=case.version.name,
            ),
            "; ".join(
                [
                    tr("MindFormers stops at a key it does not know here") if checked else tr("it has no effect"),
                    *([tr(because)] if because else []),
                ]
            ),
            fix,
        )


def top_level(case: YamlCase) -> Findings:
    general = section_keys("general_config") or {}
    for key in case.values:
        span = general.get(key)
        if key in SECTIONS or (span is not None and in_span(case.version, span)):
            continue
        if key == "base_config":
            yield case.find(
                "base-config",
                NOTE,
                key,
                tr("The file takes over keys from another one, base_config."),
                tr("only what stands in this file was checked"),
            )
            continue
        home = belongs_to("", str(key))
        if home is not None:
            yield case.find(
                "misplaced-key",
                WARNING,
                str(key),
                tr("{key} does not belong to the top level.", key=brief(key)),
                tr("it has no effect there"),
                home,
            )
            continue
        # A mapping, or an anchor to be used below, is how people keep things of their own.
        near = (
            []
            if isinstance(case.values[key], Mapping | list)
            else difflib.get_close_matches(str(key), [*general, *SECTIONS], 1, 0.85)
        )
        yield case.find(
            "unknown-key",
            WARNING if near and near[0] not in case.values else NOTE,
            str(key),
            tr("MindFormers {version} has no setting {key}.", version=case.version.name, key=brief(key)),
            tr("it has no effect"),
            f"MindFormers {versions_in(span)}" if span else "".join(near),
        )


def misplaced(case: YamlCase) -> Findings:
    """Keys in sections that let any key through, and have no use for these."""
    for section, key, home in strays(case.values):
        if case.mcore and section == "model.model_config" and key in RECOMPUTE_BESIDE and not case.since("1.7"):
            continue  # there 1.6 reads them, and nowhere else
        if section and section not in strict_sections():
            yield case.find(
                "misplaced-key",
                WARNING,
                f"{section}.{key}",
                tr("{key} does not belong to {section}.", key=brief(key), section=section),
                tr(reason_for(section, key) or "it has no effect there"),
                home,
            )


def names(case: YamlCase) -> Findings:
    """Classes that are named: those of another version, and those written almost right."""
    for section, kind in COMPONENTS.items():
        content = case.at(section)
        if case.mcore and section in ("model.arch", "model.model_config"):
            continue
        for place, part in _parts(section, content):
            if isinstance(part, Mapping) and "type" in part and not part.get("auto_register"):
                yield from _named(case, place, part["type"], components(kind), research=section.startswith("model."))


def _parts(section: str, content: Any) -> list[tuple[str, Any]]:
    if isinstance(content, list):
        return [(f"{section}[{number}].type", part) for number, part in enumerate(content)]
    return [(f"{section}.type", content)]


def _named(case: YamlCase, path: str, name: Any, spans: Mapping[str, str], *, research: bool) -> Findings:
    """A class by its name. The research folder registers models under any name, also under those of later versions."""
    if name is None:
        return
    if not isinstance(name, str):
        yield case.find(
            "component",
            ERROR,
            path,
            tr("{key} = {value} is no name.", key=path, value=brief(name)),
            tr("it names a class"),
        )
        return
    if name in spans and in_span(case.version, spans[name]):
        return
    here = [known for known, span in spans.items() if in_span(case.version, span)]
    near = [] if research else difflib.get_close_matches(name, here, 1, 0.8)
    gone = respelt(name, spans)
    if name in spans and not (research and spans[name].endswith("-")):
        yield case.find(
            "component-version",
            ERROR,
            path,
            tr("MindFormers {version} has no {name}.", version=case.version.name, name=name),
            tr("it is in {versions} only", versions=versions_in(spans[name])),
            near[0] if near else "",
        )
    elif near:
        yield case.find(
            "component-name",
            ERROR,
            path,
            tr("MindFormers has no {name}.", name=name),
            tr("nothing is registered under this name"),
            near[0],
        )
    elif gone:
        yield case.find(
            "component-name",
            ERROR,
            path,
            tr("MindFormers has no {name}.", name=name),
            tr("{name} is in {versions} only", name=gone, versions=versions_in(spans[gone])),
        )
    else:
        yield case.find(
            "component-unknown",
            NOTE,
            path,
            tr("{name} is none of MindFormers' own classes.", name=name),
            tr("code of yours, or of its research folder, has to register it"),
            "register_path",
        )


def families(case: YamlCase) -> Findings:
    """An mcore model of a version that has no training graph for it."""
    name = case.at("model.model_config.model_type")
    if not case.mcore or not isinstance(name, str) or case.at("model.model_config.auto_register"):
        return
    known = family_named(name, case.generation)
    trainable = ", ".join(f.name for f in case.version.families(case.generation) if not f.plugin)
    path = "model.model_config.model_type"
    if known is None or (known.plugin and known.inferred_since is None):
        yield case.find(
            "family-unknown",
            NOTE,
            path,
            tr("{name} is none of MindFormers' own mcore models.", name=brief(name)),
            tr("code of yours has to register it"),
            advice(known) if known and case.trains else trainable,
        )
    elif case.trains and (known.plugin or not known.trains(case.version)):
        since = tr("from {version}", version=known.trained_since) if known.trained_since else trainable
        yield case.find(
            "family-training",
            ERROR,
            path,
            tr(
                "MindFormers {version} has no training graph for {name} in mcore.", version=case.version.name, name=name
            ),
            tr("building it raises NotImplementedError"),
            advice(known) if known.plugin else since,
        )


def generations(case: YamlCase) -> Findings:
    if case.mcore and not case.since("1.6"):
        yield case.find(
            "generation",
            ERROR,
            "use_legacy",
            tr("MindFormers {version} has no mcore models (use_legacy: False).", version=case.version.name),
            tr("they came with 1.6"),
        )


def depth(case: YamlCase) -> Findings:
    deepest = max((sum(isinstance(part, str) for part in way), way) for way in case.file.lines)
    if deepest[0] > DEEPEST and case.since(TEMPLATE_SINCE):
        yield case.find(
            "depth",
            ERROR,
            ".".join(str(part) for part in deepest[1][:3]),
            tr("Mappings are nested {count} deep.", count=deepest[0]),
            tr("MindFormers refuses more than {most}", most=DEEPEST),
        )


def modes(case: YamlCase) -> Findings:
    """What only training can do."""
    stages = case.plan_case.plan.pipeline_model_parallel_size
    mode = case.mode
    if mode in ("eval", "predict") and stages > 1:
        yield case.find(
            "pipeline-inference",
            ERROR,
            "parallel_config.pipeline_stage",
            tr("run_mode {mode} with {stages} pipeline stages.", mode=mode, stages=stages),
            tr("only training has pipelines"),
            "pipeline_stage: 1",
        )
    if mode in TRAINING and case.at("model.model_config.use_past") is True:
        yield case.find(
            "use-past",
            NOTE,
            "model.model_config.use_past",
            tr("use_past is on in training."),
            tr("MindFormers turns it off"),
        )


SECTION_RULES = (
    generations,
    run_mode,
    presence,
    shapes,
    keys,
    top_level,
    misplaced,
    names,
    families,
    plugin,
    depth,
    modes,
)
