"""Which room may know which: imports point one way, and frameworks stay where they belong."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mindport.architectures import model_types

SRC = Path(__file__).parents[2] / "src"
PACKAGE = SRC / "mindport"

ROOMS = (
    "plugin",
    "layout",
    "schema",
    "architectures",
    "targets",
    "config",
    "checkpoint",
    "models",
    "train",
    "parallel",
    "verify",
    "diagnose",
    "records",
    "cli",
)
"""From the ground up: a room imports itself, rooms before it, and the modules below all rooms."""

BELOW_ALL = ("errors", "i18n", "version")

FRAMEWORKS = {
    "mindspore": {"models", "plugin", "train", "verify"},
    "mindformers": {"plugin"},
    "torch": {"verify", "diagnose"},
    "transformers": {"verify", "diagnose"},
}
"""Framework -> rooms that may import it."""

ONLY_WHEN_CALLED = ("torch", "transformers")
"""Never imported at module level, wherever they are allowed."""

FILES = sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    """The room of a file; for a module directly in the package, its own name."""
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else path.stem


def imports(path: Path) -> Iterator[tuple[str, bool, bool]]:
    """(module, at module level, for type checkers only) of every import in a file, those inside functions included."""
    tree = ast.parse(path.read_text(encoding="utf-8"))

    def walk(node: ast.AST, top: bool, typing: bool) -> Iterator[tuple[str, bool, bool]]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, top, typing
        elif isinstance(node, ast.ImportFrom):
            travels = room_of(path) == "plugin" and node.level == 1  # under whatever name its folder has by then
            assert node.level == 0 or travels, f"{path}: relative imports hide which room they reach"
            if travels:
                return
            yield node.module or "", top, typing
            # `from mindport import i18n` reaches the module, not only the package.
            for alias in node.names:
                yield f"{node.module}.{alias.name}", top, typing
        for child in ast.iter_child_nodes(node):
            inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            guarded = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            yield from walk(child, top and not inside, typing or guarded)

    yield from walk(tree, True, False)


def test_every_folder_is_a_room() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and list(path.rglob("*.py"))}
    modules = {path.stem for path in PACKAGE.glob("*.py")}
    assert folders <= set(ROOMS)
    assert modules == {*BELOW_ALL, "__init__", "__main__"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path: Path) -> None:
    room = room_of(path)
    if room == "__main__":
        allowed = {"cli"}
    elif room in ROOMS:
        allowed = {*BELOW_ALL, *ROOMS[: ROOMS.index(room) + 1]}
    else:
        allowed = {*BELOW_ALL}
    reached = {module.split(".")[1] for module, _, _ in imports(path) if module.startswith("mindport.")}
    wrong = {module for module in reached - allowed if module in ROOMS or module in BELOW_ALL}
    assert not wrong, f"{room} may not import {sorted(wrong)}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_frameworks_stay_in_their_rooms(path: Path) -> None:
    for module, top, typing in imports(path):
        framework = module.split(".")[0]
        if framework in FRAMEWORKS and not typing:
            assert room_of(path) in FRAMEWORKS[framework], f"{module} is imported in {room_of(path)}"
            assert not (top and framework in ONLY_WHEN_CALLED), f"{module} is imported at module level"


def test_the_plugin_stands_alone() -> None:
    """It is copied to machines where there is MindFormers, and no Mindport."""
    alone = {*sys.stdlib_module_names, "mindformers", "mindspore", "numpy"}
    for path in FILES:
        if room_of(path) == "plugin":
            assert {module.split(".")[0] for module, _, _ in imports(path)} <= alone, path


HEAVY = (
    "torch",
    "mindspore",
    "transformers",
    "safetensors",
    "numpy",
    "ml_dtypes",
    "rich",
    "ruamel",
    "yaml",
    "jinja2",
    "pydantic",
)


def loaded_after(code: str, *args: str, ends_with: int = 0) -> set[str]:
    """Which heavy modules a fresh interpreter holds after running `code`, which ends with this status."""
    report = (
        "import json, sys\n"
        "try:\n"
        f"    exec({code!r})\n"
        "except SystemExit as end:\n"
        f"    assert (end.code or 0) == {ends_with}, end.code\n"
        f"print('\\n' + json.dumps([name for name in {HEAVY!r} if name in sys.modules]))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    done = subprocess.run(
        [sys.executable, "-c", report, *args], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded_after("import mindport") == set()


def test_the_command_line_starts_without_the_tables_of_mindformers() -> None:
    loaded_after("import mindport.cli.app, sys; assert 'mindport.targets.mindformers' not in sys.modules")


CONFIGS = {
    "text": '{"model_type": "llama"}',
    "composite": '{"model_type": "llava", "text_config": {"model_type": "llama"}, "vision_config": {}}',
    "refused": '{"model_type": "t5"}',
}


@pytest.mark.parametrize("verb", ["list", "inspect", "diff", "convert"])
@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("kind", CONFIGS)
def test_verbs_on_files_load_nothing_heavy(verb: str, as_json: bool, kind: str, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(CONFIGS[kind])
    (tmp_path / "tokenizer.json").write_text('{"model": {"vocab": {"a": 0}}}')
    arguments = {
        "list": ["list"],
        "inspect": ["inspect", str(tmp_path)],
        "diff": ["diff", str(config), str(config)],
        "convert": ["convert", str(config), "--output", str(tmp_path / "out")],
    }[verb]
    code = "from mindport.cli.app import main; main()"
    ends_with = 1 if kind == "refused" and verb != "list" else 0
    assert loaded_after(code, *arguments, *(["--json"] if as_json else []), ends_with=ends_with) == set()


def test_emitting_for_mindformers_loads_nothing_heavy() -> None:
    code = (
        "from mindport.config.hf import from_hf\n"
        "from mindport.config.mindformers.emit import emit\n"
        "emit(from_hf({'model_type': 'llama'}), '1.9')"
    )
    assert loaded_after(code) == set()


@pytest.mark.parametrize("verb", ["validate", "upgrade"])
def test_verbs_on_yaml_load_its_parser_alone(verb: str, tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(
        "run_mode: train\nparallel_config: {data_parallel: 2}\nmodel: {model_config: {type: LlamaConfig}}\n"
    )
    arguments = {"validate": ["validate", str(file)], "upgrade": ["upgrade", str(file), "--to", "1.9"]}[verb]
    code = "from mindport.cli.app import main; main()"
    assert loaded_after(code, *arguments, ends_with=1) == {"ruamel"}


def _comparands(node: ast.Compare) -> Iterator[ast.expr]:
    for operand in (node.left, *node.comparators):
        yield operand
        if isinstance(operand, ast.Tuple | ast.List | ast.Set):
            yield from operand.elts


def branches_on_model_type(tree: ast.AST) -> list[int]:
    """Lines that compare a model_type, or anything with the name of a declared one."""
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            texts = [ast.unparse(operand) for operand in _comparands(node)]
            values = [o.value for o in _comparands(node) if isinstance(o, ast.Constant)]
            if any("model_type" in text for text in texts) or set(values) & set(model_types()):
                lines.append(node.lineno)
        elif isinstance(node, ast.Match) and "model_type" in ast.unparse(node.subject):
            lines.append(node.lineno)
    return lines


@pytest.mark.parametrize(
    "code",
    [
        "if model.model_type == 'x': pass",
        "if 'llama' == kind: pass",
        "y = 1 if hf['model_type'] != 'x' else 2",
        "if kind in ('llama', 'x'): pass",
        "match c.model_type:\n    case 'x': pass",
    ],
)
def test_a_branch_on_the_model_type_is_seen(code: str) -> None:
    assert branches_on_model_type(ast.parse(code))


def test_no_branch_on_the_model_type_outside_the_declarations() -> None:
    found = {
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in FILES
        if room_of(path) != "architectures"
        for line in branches_on_model_type(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert not found
