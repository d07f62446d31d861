"""The documentation says what the code does: verbs, options, JSON keys, gates, links; both languages say the same."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from mindport.architectures import architecture, model_types
from mindport.checkpoint.convert import convert
from mindport.checkpoint.load_report import LoadReport, Misfit
from mindport.checkpoint.recheck import FolderReport
from mindport.checkpoint.safetensors import make_header
from mindport.cli.app import app
from mindport.config.audit import Row
from mindport.config.diff import EFFECTS, Change, Side, Slots
from mindport.config.mindformers.findings import ConfigFinding
from mindport.config.mindformers.upgrade_work import UpgradeStep
from mindport.config.tokenizer_check import Finding, SpecialToken, TokenizerCheck
from mindport.plugin.families import FAMILIES
from mindport.records.migration import Migration, Stage, WeightsRecord
from mindport.verify.alignment import Alignment, Settings
from mindport.verify.compare import Difference
from mindport.verify.gates import GATES, Gate
from mindport.verify.mindformers.interpreter import VARIABLE
from mindport.verify.mindformers.overrides import Override
from mindport.verify.mindformers.proof import FirstStep, Process, Proof
from mindport.verify.text import Text

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
PAIRS = {
    "README": (ROOT / "README.md", ROOT / "README_CN.md"),
    "cli": (ROOT / "docs/cli.md", ROOT / "docs/cli_CN.md"),
    "transformer_config": (ROOT / "docs/transformer_config.md", ROOT / "docs/transformer_config_CN.md"),
    "weights": (ROOT / "docs/weights.md", ROOT / "docs/weights_CN.md"),
    "mindformers": (ROOT / "docs/mindformers.md", ROOT / "docs/mindformers_CN.md"),
    "ranks": (ROOT / "docs/ranks.md", ROOT / "docs/ranks_CN.md"),
    "parity": (ROOT / "docs/parity.md", ROOT / "docs/parity_CN.md"),
    "architecture": (
        ROOT / "docs/extending/architecture.md",
        ROOT / "docs/extending/architecture_CN.md",
    ),
    "own_architecture": (
        ROOT / "docs/extending/own_architecture.md",
        ROOT / "docs/extending/own_architecture_CN.md",
    ),
}
CLI_PAGES = PAIRS["cli"]
VERBS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
OBJECTS = (
    Row,
    Side,
    Change,
    Slots,
    TokenizerCheck,
    SpecialToken,
    Finding,
    ConfigFinding,
    UpgradeStep,
    Difference,
    Gate,
    Text,
    Proof,
    FirstStep,
    Override,
    Process,
    Alignment,
    Settings,
    WeightsRecord,
    FolderReport,
    LoadReport,
    Misfit,
    Stage,
)

OPTION, KEY, FIELD, BOUND = ("Option", "选项"), ("Key", "键"), ("Field", "字段"), ("Bound", "阈值")
"""What the first column of a table is called, in either language."""

each_cli_page = pytest.mark.parametrize("page", CLI_PAGES, ids=lambda page: page.name)
each_pair = pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
each_verb = pytest.mark.parametrize("verb", VERBS)


def code_blocks(text: str) -> list[str]:
    return re.findall(r"^```.*?^```$", text, flags=re.MULTILINE | re.DOTALL)


def prose(page: Path) -> str:
    """A page without its code blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def headings(page: Path) -> list[tuple[int, str]]:
    """(level, text) of every heading."""
    return [(len(marks), text) for marks, text in re.findall(r"^(#+) (.+)$", prose(page), flags=re.MULTILINE)]


def section(page: Path, heading: str) -> str:
    """What stands below a heading, up to the next of its level or above."""
    found = re.search(
        rf"^(#+) {re.escape(heading)}\n(.*?)(?=^#{{1,2}} |^\1 |\Z)", prose(page), re.MULTILINE | re.DOTALL
    )
    assert found, f"{page.name} has no section {heading!r}"
    return found[2]


def tables(text: str) -> Iterator[list[list[str]]]:
    """Every table: rows of cells, the head first. A `\\|` inside a cell is a pipe."""
    for block in re.findall(r"(?:^\|.*\|\n)+", text + "\n", flags=re.MULTILINE):
        rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in block.splitlines()]
        yield [[cell.replace("\\|", "|") for cell in row] for i, row in enumerate(rows) if i != 1]


def table(text: str, first_column: tuple[str, ...]) -> list[list[str]]:
    """The rows of the only table whose first column has one of these names."""
    (found,) = [rows[1:] for rows in tables(text) if rows[0][0] in first_column]
    return found


def codes(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def names(rows: list[list[str]]) -> list[str]:
    """The word in backticks that each row starts with."""
    return [codes(row[0])[0] for row in rows]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of one layer, written by hand."""
    folder = tmp_path_factory.mktemp("model")
    sizes = {"vocab_size": 11, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 1}
    sizes |= {"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 16}
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "made_up": 1, **sizes}))
    layer = "model.layers.0."
    shapes = {
        "lm_head.weight": (11, 8),
        "model.embed_tokens.weight": (11, 8),
        f"{layer}input_layernorm.weight": (8,),
        f"{layer}mlp.down_proj.weight": (8, 12),
        f"{layer}mlp.gate_proj.weight": (12, 8),
        f"{layer}mlp.up_proj.weight": (12, 8),
        f"{layer}post_attention_layernorm.weight": (8,),
        f"{layer}self_attn.k_proj.weight": (4, 8),
        f"{layer}self_attn.o_proj.weight": (8, 8),
        f"{layer}self_attn.q_proj.weight": (8, 8),
        f"{layer}self_attn.v_proj.weight": (4, 8),
        "model.norm.weight": (8,),
    }
    header, _ = make_header([(name, "F32", shape) for name, shape in shapes.items()], {})
    content = b"".join(np.zeros(shape, np.float32).tobytes() for shape in shapes.values())
    (folder / "model.safetensors").write_bytes(header + content)
    return folder


@each_cli_page
def test_every_verb_has_a_section(page: Path) -> None:
    sections = [text for _, text in headings(page) if text.startswith("`mindport ")]
    assert sorted(sections) == sorted(f"`mindport {verb}`" for verb in VERBS)


@dataclass(frozen=True)
class Parameter:
    """What a verb takes: its spellings, its default (`...`: required), and the values it may have, if they are few."""

    spellings: tuple[str, ...]
    default: Any
    choices: tuple[str, ...]


def parameters(verb: str) -> Iterator[Parameter]:
    """Of a verb, without `--help`."""
    for parameter in VERBS[verb].params:
        if parameter.name == "help":
            continue
        spellings = (parameter.metavar,) if parameter.param_type_name == "argument" else tuple(parameter.opts)
        default = ... if parameter.required else parameter.default
        if isinstance(default, Enum):
            yield Parameter(spellings, default.value, tuple(member.value for member in type(default)))
        else:
            yield Parameter(spellings, default, ())


@each_cli_page
@each_verb
def test_every_option_is_documented(page: Path, verb: str) -> None:
    rows = table(section(page, f"`mindport {verb}`"), OPTION)
    documented = [[code.split()[0] for code in codes(row[0])] for row in rows]
    assert sorted(documented) == sorted([*parameter.spellings] for parameter in parameters(verb))


@each_cli_page
@each_verb
def test_choices_and_defaults_are_documented(page: Path, verb: str) -> None:
    rows = {codes(row[0])[0].split()[0]: row for row in table(section(page, f"`mindport {verb}`"), OPTION)}
    for parameter in parameters(verb):
        name, default, _ = rows[parameter.spellings[0]]
        if parameter.choices:
            assert codes(name)[0] == f"{parameter.spellings[0]} {'|'.join(parameter.choices)}"
        if parameter.default is ...:
            assert default in ("required", "必需")
        elif parameter.default is None:
            assert default in ("none", "无")
        elif isinstance(parameter.default, bool):
            assert default in (("on", "开") if parameter.default else ("off", "关"))
        else:
            assert codes(default) == [str(parameter.default)]


def printed(*arguments: Path | str) -> dict[str, Any]:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


TRAINING = """\
run_mode: train
trainer: {type: CausalLanguageModelingTrainer}
optimizer: {type: AdamW, learning_rate: 0.1}
runner_wrapper: {type: MFTrainOneStepCell}
runner_config: {batch_size: 2}
train_dataset: {data_loader: {type: MindDataset}}
parallel_config: {data_parallel: 2}
model: {model_config: {type: LlamaConfig, num_layers: 2}}
"""
"""A MindFormers YAML with which nothing is wrong."""


@each_cli_page
@pytest.mark.parametrize("verb", ["list", "inspect", "diff", "convert", "export", "validate", "upgrade"])
def test_json_keys_are_those_that_are_printed(page: Path, verb: str, model: Path, tmp_path: Path) -> None:
    arguments: dict[str, list[Path | str]] = {
        "list": [],
        "inspect": [model],
        "diff": [model, model],
        "convert": [model, "--output", tmp_path / "out"],
        "export": [tmp_path / "out", "--output", tmp_path / "back"],
        "validate": [tmp_path / "run.yaml"],
        "upgrade": [tmp_path / "run.yaml", "--to", "1.9"],
    }
    (tmp_path / "run.yaml").write_text(TRAINING)
    if verb == "export":
        printed("convert", *arguments["convert"], "--json")
    found = printed(verb, *arguments[verb], "--json")
    rows = table(section(page, f"`mindport {verb}`"), KEY)
    assert names(rows) == list(found)
    english = table(section(CLI_PAGES[0], f"`mindport {verb}`"), KEY)
    for name, kind, _ in english:
        said = _json_type(found[codes(name)[0]])
        assert said in kind or (said == "object" and kind.startswith("[")), name


@each_cli_page
def test_keys_of_a_plan(page: Path, model: Path, tmp_path: Path) -> None:
    found = printed("convert", model, "--output", tmp_path / "out", "--dry-run", "--json")
    assert names(table(section(page, "Plan"), FIELD)) == list(found)
    assert not (tmp_path / "out").exists()


def _json_type(value: Any) -> str:
    """The word that the English page uses for the type."""
    for kind, word in ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (list, "array")):
        if isinstance(value, kind):
            return word
    return "null" if value is None else "object"


@each_cli_page
def test_json_keys_of_verify(page: Path) -> None:
    """Read from the source: running it takes two frameworks."""
    tree = ast.parse((ROOT / "src/mindport/cli/verify.py").read_text(encoding="utf-8"))
    (result,) = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "result"
    ]
    assert isinstance(result, ast.Dict)
    assert names(table(section(page, "`mindport verify`"), KEY)) == [
        key.value for key in result.keys if isinstance(key, ast.Constant)
    ]


@each_cli_page
def test_json_keys_of_migrate(page: Path) -> None:
    expected = ["folder", "report", "passed", *(field.name for field in fields(Migration))]
    assert names(table(section(page, "`mindport migrate`"), KEY)) == expected


@each_cli_page
@pytest.mark.parametrize("kind", OBJECTS, ids=lambda kind: kind.__name__)
def test_objects_have_the_documented_fields(page: Path, kind: type) -> None:
    assert names(table(section(page, kind.__name__), FIELD)) == [field.name for field in fields(kind)]


@each_cli_page
def test_keys_of_the_native_config(page: Path, model: Path, tmp_path: Path) -> None:
    convert(model, tmp_path / "out")
    written = json.loads((tmp_path / "out" / "ms_config.json").read_text(encoding="utf-8"))
    (folder,) = {"Output folder", "输出文件夹"} & {text for _, text in headings(page)}
    rows = table(section(page, folder), KEY)
    assert names(rows) == list(written)
    described = {codes(row[0])[0]: codes(row[2]) for row in rows}
    assert set(written["mindport"]) <= set(described["mindport"])
    assert set(written["source"]) <= set(described["source"])
    assert set(written["source"]["names"]) <= set(described["source"])


@each_cli_page
def test_effects_are_documented(page: Path) -> None:
    rows = table(section(page, "`mindport diff`"), ("Changes", "影响"))
    assert names(rows) == list(EFFECTS)


@pytest.mark.parametrize("page", [*PAIRS["README"], *CLI_PAGES], ids=lambda page: page.name)
def test_gates_are_the_documented_ones(page: Path) -> None:
    rows = table(prose(page), BOUND)
    (head,) = [rows[0] for rows in tables(prose(page)) if rows[0][0] in BOUND]
    for column, cell in enumerate(head[1:], 1):
        gate = GATES[codes(cell)[0]]
        documented = {codes(row[0])[0]: float(row[column]) for row in rows}
        assert documented == {name.name: getattr(gate, name.name) for name in fields(gate) if name.name != "name"}


@pytest.mark.parametrize("page", PAIRS["README"], ids=lambda page: page.name)
def test_the_readme_lists_what_is_declared(page: Path) -> None:
    rows = table(prose(page), ("Architecture", "架构"))
    documented = {codes(row[1])[0]: codes(row[2]) for row in rows}
    declared = {name: list(architecture(name).classes) for name in model_types()}
    assert {name: sorted(found) for name, found in documented.items()} == {
        name: sorted(classes) for name, classes in declared.items()
    }


@each_cli_page
def test_environment_variables_are_documented(page: Path) -> None:
    tree = ast.parse((ROOT / "src/mindport/verify/frameworks.py").read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    given = {ast.literal_eval(call.args[0]) for call in calls if ast.unparse(call.func) == "os.environ.setdefault"}
    rows = table(prose(page), ("Variable", "变量"))
    assert set(codes(rows[-1][0])) == given
    assert given
    assert names(rows[:-1]) == ["MINDPORT_LANG", "LC_ALL", VARIABLE, "XDG_CACHE_HOME"]


@each_pair
def test_both_languages_have_the_same_structure(pair: tuple[Path, Path]) -> None:
    english, chinese = pair
    assert [level for level, _ in headings(english)] == [level for level, _ in headings(chinese)]
    assert [len(rows) for rows in tables(prose(english))] == [len(rows) for rows in tables(prose(chinese))]
    one, other = (code_blocks(page.read_text(encoding="utf-8")) for page in pair)
    assert [(block.count("\n"), block.split("\n")[0]) for block in one] == [
        (block.count("\n"), block.split("\n")[0]) for block in other
    ]


def anchor(heading: str) -> str:
    """The address that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, fragment = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        there = target.is_relative_to(ROOT) and target.exists()
        if not there or (fragment and fragment not in {anchor(text) for _, text in headings(target)}):
            broken.append(link)
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_files_of_the_repository_exist(page: Path) -> None:
    """`src/...`, `tests/...`, `docs/...` in backticks."""
    named = re.findall(r"`((?:src|tests|docs|examples)/[\w./-]+)`", prose(page))
    assert not [name for name in named if not (ROOT / name).exists()]


@pytest.mark.parametrize("page", PAIRS["mindformers"], ids=lambda page: page.name)
def test_the_families_of_the_plugin_are_named(page: Path) -> None:
    part, _, _ = page.read_text(encoding="utf-8").partition("--register_path")
    assert not [family.model_type for family in FAMILIES if f"`{family.model_type}`" not in part]
