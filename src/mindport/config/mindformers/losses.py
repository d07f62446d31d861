"""Silent losses as findings of `validate`: an entry of its list `checks`."""

from __future__ import annotations

from collections.abc import Iterator

from mindport.config.mindformers.findings import ERROR, WARNING, ConfigFinding
from mindport.config.mindformers.lint import lint
from mindport.config.mindformers.yaml_case import YamlCase
from mindport.errors import MindportError
from mindport.i18n import tr

JUDGED = ("MF050", "MF051", "MF052", "MF053", "MF057", "MF058")
"""Losses that other rules of `validate` see, with the values that would work."""


def losses(case: YamlCase) -> Iterator[ConfigFinding]:
    """What MindFormers would lose of a file in silence; nothing of a file without a model."""
    try:
        found = lint(case.values, case.version.name)
    except MindportError:
        return
    for loss in found:
        if loss.code in JUDGED:
            continue
        said = tr("{key} = {value}", key=loss.place, value=loss.value) if loss.value else ""
        message = said or tr("{key} is missing", key=loss.place)
        level = ERROR if loss.value else WARNING  # a default that decides may be the value that is meant
        yield case.find(loss.code, level, loss.place, f"{message}.", loss.consequence, loss.fix)
