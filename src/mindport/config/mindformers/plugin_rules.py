"""What Mindport's plug-in asks of a YAML: its version and generation, one of its families, a model that it computes.

The model's section is read as the plug-in itself reads it, by `plugin/families.py`: what passes here passes there.
"""

from __future__ import annotations

from collections.abc import Mapping

from mindport.config.mindformers.findings import ERROR, ConfigFinding
from mindport.config.mindformers.judge import Findings
from mindport.config.mindformers.yaml_case import YamlCase
from mindport.errors import brief
from mindport.i18n import tr
from mindport.plugin.families import FAMILIES, MISSING, MODULE, VERSION, Refusal, family_of, refusals
from mindport.targets.mindformers.plugin import AUTO_REGISTER, FOLDER, is_plugin, reference
from mindport.targets.mindformers.versions import Family

MODEL = "model.model_config"


def uses_plugin(case: YamlCase) -> bool:
    """Whether a YAML names the plug-in."""
    return is_plugin(case.at(f"{MODEL}.{AUTO_REGISTER}"))


def plugin(case: YamlCase) -> Findings:
    """What is wrong with a YAML that names the plug-in."""
    if not uses_plugin(case):
        return
    if case.version.name != VERSION:
        yield _error(
            case,
            "plugin-version",
            tr(
                "Mindport's plug-in is made for MindFormers {since}, not {version}.",
                since=VERSION,
                version=case.version.name,
            ),
            tr("other versions have its modules otherwise, or not at all"),
            f"MindFormers {VERSION}",
        )
        return
    if not case.mcore:
        yield _error(
            case,
            "plugin-generation",
            tr("Mindport's plug-in without use_legacy: False."),
            tr("its graphs are of the mcore generation"),
            "use_legacy: False",
        )
        return
    name, family = case.at(f"{MODEL}.model_type"), family_of(case.at(f"{MODEL}.model_type"))
    named = case.at(f"{MODEL}.{AUTO_REGISTER}")
    if family is None and name is None and case.at("pretrained_model_dir"):
        return  # config.json says which
    if family is None or named not in [f"{MODULE}.{known.config_class}" for known in FAMILIES]:
        yield _error(
            case,
            "plugin-family",
            tr("Mindport's plug-in has no {name} for model_type {kind}.", name=brief(named), kind=brief(name)),
            tr("it registers the classes of its own families"),
            ", ".join(f"{known.model_type}: {MODULE}.{known.config_class}" for known in FAMILIES),
        )
        return
    section = case.at(MODEL)
    assert isinstance(section, Mapping)
    beside = bool(case.at("pretrained_model_dir"))
    for refusal in refusals(family, section):
        # What config.json would say is not known here.
        if case.trains and not (beside and refusal.template == MISSING):
            yield _of_model(case, refusal)


def _of_model(case: YamlCase, refusal: Refusal) -> ConfigFinding:
    values = {key: brief(value) for key, value in refusal.values.items()}
    return case.find(
        "plugin-refuses",
        ERROR,
        f"{MODEL}.{refusal.key}",
        tr(refusal.template, **values),
        tr("Mindport's plug-in refuses it"),
    )


def _error(case: YamlCase, code: str, message: str, reason: str, fix: str) -> ConfigFinding:
    return case.find(code, ERROR, f"{MODEL}.{AUTO_REGISTER}", message, reason, fix)


def advice(family: Family) -> str:
    """How to train a family of the plug-in, in the words of a YAML."""
    return f"MindFormers {VERSION}, {FOLDER}, {AUTO_REGISTER}: {reference(family)}"
