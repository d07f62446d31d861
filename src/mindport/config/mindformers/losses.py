"""Silent losses as findings of `validate`: an entry of its list `checks`."""

from __future__ import annotations

from collections.abc import Iterator

from mindport.config.mindformers.findings import ConfigFinding
from mindport.config.mindformers.lint import lint
from mindport.config.mindformers.yaml_case import YamlCase
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.targets.mindformers.versions import PYNATIVE

SAID_ALREADY = {
    "MF051": "micro-batch-reset",
    "MF052": "accumulation-reset",
    "MF053": "vocab-tp",
    "MF058": "misplaced-key",
}
"""Code -> that of the rule of `validate` that says the same of static graphs, with the values that would work."""


def losses(case: YamlCase) -> Iterator[ConfigFinding]:
    """What MindFormers would lose of a file in silence; nothing of a file without a model."""
    try:
        found = lint(case.values, case.version.name)
    except MindportError:
        return
    for loss in found:
        if loss.code in SAID_ALREADY and case.generation != PYNATIVE:
            continue
        said = tr("{key} = {value}", key=loss.place, value=loss.value) if loss.value else ""
        message = said or tr("{key} is missing", key=loss.place)
        yield case.find(loss.code, loss.level, loss.place, f"{message}.", loss.consequence, loss.fix)
