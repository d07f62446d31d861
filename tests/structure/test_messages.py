"""Every message exists in Chinese, with the same placeholders; and every message can be found.

Templates are found in two ways. `tr("...")` is read from the syntax tree. Where `tr` is given something else,
`INDIRECT` says, for that expression, every string it can be; an expression that is not listed fails the test.
"""

from __future__ import annotations

import ast
import json
import re
import string
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from mindport import i18n
from mindport.architectures import architecture, families, model_types, quantisation, vocabulary
from mindport.architectures.vocabulary import Ignored, Only, Repeats
from mindport.checkpoint import training_state
from mindport.config import audit, diff, tokenizer_check
from mindport.config.hf import from_hf
from mindport.config.mindformers import lint
from mindport.config.mindformers.findings import LEVELS
from mindport.config.mindformers.misplaced import REASONS
from mindport.config.mindformers.upgrade_work import ACTIONS
from mindport.plugin import families as plugin_families
from mindport.schema import TransformerConfig
from mindport.targets import TARGETS

PACKAGE = Path(__file__).parents[2] / "src" / "mindport"
TREES = {
    str(path.relative_to(PACKAGE)): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted(PACKAGE.rglob("*.py"))
}
CATALOGUE = PACKAGE / "locale" / "zh_CN.json"


def _calls(function: str, *files: str) -> Iterator[ast.Call]:
    """Calls of a function or method by its bare name."""
    for file in files or TREES:
        for node in ast.walk(TREES[file]):
            if isinstance(node, ast.Call):
                called = node.func
                if (called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")) == function:
                    yield node


def _text(node: ast.AST) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _constants(module: object, *names: str) -> set[str]:
    return {getattr(module, name) for name in names}


def rule_reasons() -> set[str]:
    """Why a config key is refused or ignored."""
    rules = [rule for name in model_types() for rule in architecture(name).rules]
    return {rule.reason for rule in rules if isinstance(rule, Only | Repeats | Ignored)}


def tensor_reasons() -> set[str]:
    """Why a tensor is left out."""
    declared = [architecture(name) for name in model_types()]
    listed = [a.unused for a in declared] + [c.unused for a in declared for c in a.classes.values()]
    return {reason for unused in listed for reason in unused.values()} | _constants(training_state, "OPTIMIZER", "RUN")


def verdict_reasons() -> set[str]:
    """Why no declaration reads a config."""
    table = families._table()
    return {entry["reason"] for entry in (*table["model_types"], *table["hints"])} | _constants(families, "NO_MODEL")


def table_headers() -> set[str]:
    """Headers of the tables that verbs print: a tuple written at the call."""
    found = set()
    for call in _calls("print_table"):
        headers = call.args[0]
        assert isinstance(headers, ast.Tuple), ast.unparse(call)
        texts = [_text(header) for header in headers.elts]
        assert all(texts), ast.unparse(headers)
        found |= {text for text in texts if text}
    return found


def stage_names() -> set[str]:
    """Stages of a migration: the first argument of `stages.done`, with the execution mode filled in."""
    found = set()
    for call in _calls("done", "records/migrate.py"):
        name = call.args[0]
        if isinstance(name, ast.JoinedStr):
            assert ast.unparse(name) == "f'forward parity ({mode})'"
            found |= {f"forward parity ({mode})" for mode in ("graph", "pynative")}
        else:
            text = _text(name)
            assert text, ast.unparse(call)
            found.add(text)
    return found


def in_html() -> dict[str, str]:
    """Templates of the report's HTML, where `tr` is called `_`."""
    found = {}
    for path in sorted((PACKAGE / "records" / "templates").glob("*.html")):
        text = re.sub(r"{#.*?#}", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        calls = re.findall(r"""\b_\((?:"([^"]*)"|'([^']*)')""", text)
        assert len(calls) == len(re.findall(r"\b_\(", text)), f"{path.name}: _ is given something other than a literal"
        found.update({one or other: path.name for one, other in calls})
    return found


LAYERS = _constants(vocabulary, "STRUCTURE", "TRAINING", "RUNTIME", "RECORD")
ORIGINS = {"file", "class default", "formula"}
STATUSES = _constants(audit, "MAPPED", "DERIVED", "IGNORED", "UNHANDLED")
SAID_ELSEWHERE: set[str] = set()
"""For text that is already in the user's language."""

CHANGES = _constants(diff, "ADDED", "REMOVED", "CHANGED")
VERDICTS = _constants(tokenizer_check, "EQUAL", "DIFFERENT", "NOT_COMPARED")

CHECK_UP = _constants(audit, "ONLY_VALUE", "REPEATS", "NAMES", "DEQUANTISED", "NOT_QUANTISED", "ASSUMED_CLASS")
DEQUANTISING = {*quantisation.FIXES.values(), *_constants(quantisation, "FP8", "UNKNOWN")}

INDIRECT: dict[str, set[str]] = {
    "change.change": CHANGES,
    "change.effect": set(diff.EFFECTS),
    "effect": set(diff.EFFECTS),
    "change.note": rule_reasons(),
    "refusal.template": set(plugin_families.TEMPLATES),
    "s.verdict": VERDICTS,
    "finding.level": set(LEVELS),
    "step.action": set(ACTIONS),
    "self.reason": rule_reasons(),
    "found.reason": verdict_reasons(),
    "row.note": rule_reasons() | CHECK_UP,
    "fix": DEQUANTISING,
    "reason": tensor_reasons() | rule_reasons(),
    "row.layer": LAYERS,
    "row.origin": ORIGINS,
    "row.status": STATUSES,
    "_TYPE_NAMES[kind]": set(vocabulary._TYPE_NAMES.values()),
    "f.metadata['doc']": {f.metadata["doc"] for f in fields(TransformerConfig)},
    "field.metadata['doc']": {f.metadata["doc"] for f in fields(TransformerConfig)},
    "check.consequence": {check.consequence for check in lint.CHECKS},
    "check.fix": {check.fix for check in lint.CHECKS},
    "because": REASONS,
    "nowhere": REASONS,
    "reason_for(section, key) or 'it has no effect there'": {*REASONS, "it has no effect there"},
    "t.title": {target.title for target in TARGETS.values()},
    "header": table_headers(),
    "name": stage_names(),
    "stage.name": stage_names(),
    "stage.summary": SAID_ELSEWHERE,
    "migration.remarks": SAID_ELSEWHERE,
}
"""What `tr` is given where it is not given a literal -> every string that can be."""


def templates() -> dict[str, str]:
    """Template -> where it is written."""
    found = in_html()
    for file, tree in TREES.items():
        mapped: set[int] = set()
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            if isinstance(node.func, ast.Name) and node.func.id == "map" and ast.unparse(node.args[0]) == "tr":
                mapped.add(id(node.args[0]))
                given: ast.expr = node.args[1]
            elif isinstance(node.func, ast.Name) and node.func.id == "tr":
                mapped.add(id(node.func))
                given = node.args[0]
            else:
                continue
            where, text = f"{file}:{node.lineno}", _text(given)
            if text is not None:
                found[text] = where
            else:
                assert ast.unparse(given) in INDIRECT, f"{where}: what can {ast.unparse(given)} be? Say so in INDIRECT."
                found.update(dict.fromkeys(INDIRECT[ast.unparse(given)], where))
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and ast.unparse(node) == "environment.globals['_'] = tr":
                mapped.add(id(node.value))
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id == "tr" and isinstance(node.ctx, ast.Load):
                assert id(node) in mapped, f"{file}:{node.lineno}: tr is passed on and cannot be followed"
    return found


def placeholders(template: str) -> set[tuple[str, str, str]]:
    """(name, format, conversion) of every placeholder."""
    return {
        (name, spec or "", conversion or "")
        for _, name, spec, conversion in string.Formatter().parse(template)
        if name is not None
    }


@pytest.fixture(scope="module")
def catalogue() -> dict[str, str]:
    """English template -> Chinese."""
    content: dict[str, str] = json.loads(CATALOGUE.read_text(encoding="utf-8"))
    return content


def test_every_message_has_a_translation(catalogue: dict[str, str]) -> None:
    missing = {text: where for text, where in templates().items() if not catalogue.get(text)}
    assert not missing


def test_no_translation_is_left_over(catalogue: dict[str, str]) -> None:
    assert not set(catalogue) - set(templates())


def test_translations_have_the_same_placeholders(catalogue: dict[str, str]) -> None:
    wrong = {text: to for text, to in catalogue.items() if placeholders(text) != placeholders(to)}
    assert not wrong


def test_translations_are_chinese(catalogue: dict[str, str]) -> None:
    # What stays as it is: names of things, which are the same in both languages.
    same = {text for text, to in catalogue.items() if not any("\u4e00" <= char <= "\u9fff" for char in to)}
    assert same <= {"Top-1", "top-1", "model_type"}


def test_the_catalogue_is_sorted_and_readable(catalogue: dict[str, str]) -> None:
    wanted = json.dumps(catalogue, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    assert CATALOGUE.read_text(encoding="utf-8") == wanted


@pytest.mark.parametrize("model_type", model_types())
def test_what_a_check_up_says_is_listed(model_type: str) -> None:
    """INDIRECT against the rows themselves, of a config that holds every key the declaration knows."""
    rules = architecture(model_type).rules
    config = {"model_type": model_type, "unknown": 1}
    config |= {key: rule.value for rule in rules if isinstance(rule, Only) for key in rule.keys}
    config |= {key: None for rule in rules if isinstance(rule, Ignored) for key in rule.keys if key not in config}
    rows = audit.audit(from_hf(config))
    for name in ("layer", "origin", "status", "note"):
        assert {getattr(row, name) for row in rows} <= INDIRECT[f"row.{name}"] | {""}


def test_errors_are_never_raised_in_one_language_only() -> None:
    """`MindportError("...")`, `Problem(name, "...")`: a bare literal would not be translated."""
    wrong = []
    for file in TREES:
        for function in ("MindportError", "Problem", "print_error"):
            for call in _calls(function, file):
                if any(_text(argument) for argument in call.args):
                    wrong.append(f"{file}:{call.lineno}")
    assert not wrong


@pytest.mark.parametrize(
    ("variables", "language"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh_CN"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "en_US.UTF-8"}, "en"),
        ({"LANG": "de_DE.UTF-8", "LC_MESSAGES": "zh_CN.UTF-8"}, "zh_CN"),
        ({"LANG": "en_US.UTF-8", "MINDPORT_LANG": "zh"}, "zh_CN"),
        ({"LANG": "zh_CN.UTF-8", "MINDPORT_LANG": "en"}, "en"),
        ({"LANG": "C.UTF-8"}, "en"),
    ],
)
def test_the_language_follows_the_environment(
    variables: dict[str, str], language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MINDPORT_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert i18n.language() == language


def test_an_unknown_template_is_said_in_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDPORT_LANG", "zh_CN")
    assert i18n.tr("no {thing} has this template", thing="catalogue") == "no catalogue has this template"
