"""Declarations from elsewhere: a user's folder, an installed package; and what is refused in one sentence."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mindport.architectures import (
    architecture,
    class_defaults,
    model_types,
    register_classes,
    registry,
    source_of,
    use_declarations,
)
from mindport.architectures.check import mistakes
from mindport.architectures.sources import EntryPoints
from mindport.checkpoint.convert import convert
from mindport.cli.app import app
from mindport.config.hf import from_hf
from mindport.config.native import read_native_config
from mindport.errors import MindportError

EXAMPLE = Path(__file__).parents[2] / "examples" / "declarations"

MODULE = """
from dataclasses import replace
from .tidal import ARCHITECTURE as TIDAL
ARCHITECTURE = replace(TIDAL, model_type="{name}")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the example."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "declarations", ignore=shutil.ignore_patterns("__pycache__")))


def declare(folder: Path, model_type: str, text: str = MODULE, table: Any = None) -> None:
    (folder / f"{model_type.replace('-', '_')}.py").write_text(text.format(name=model_type), encoding="utf-8")
    (folder / "defaults" / f"{model_type}.json").write_text(
        (folder / "defaults" / "tidal.json").read_text() if table is None else table, encoding="utf-8"
    )


def refusal(folder: Path, model_type: str) -> MindportError:
    """The error of asking for an architecture of a folder."""
    with use_declarations(folder), pytest.raises(MindportError) as error:
        architecture(model_type), class_defaults(model_type)
    assert error.value.fix
    assert "\n" not in str(error.value)
    return error.value


# --- a folder --------------------------------------------------------------------------------------------------------


def test_a_folder_is_in_use_until_it_is_closed(folder: Path) -> None:
    before = model_types()
    with use_declarations(folder):
        assert set(model_types()) - set(before) == {"tidal"}
        assert architecture("tidal").title == "Tidal"
        assert class_defaults("tidal")["dim"] == 64
        assert source_of("tidal").owner("tidal") == str(folder)  # type: ignore[union-attr]
        assert from_hf({"model_type": "tidal", "n_heads": 8}).transformer.kv_channels == 8
        assert architecture("llama").title == "Llama"
    assert model_types() == before
    with pytest.raises(MindportError, match="'tidal' is not supported"):
        architecture("tidal")
    assert not [name for name in sys.modules if name.startswith("mindport_declarations")]


def test_a_folder_stays_in_use_without_a_block(folder: Path) -> None:
    end = use_declarations(folder)
    assert architecture("tidal")
    end.close()
    assert source_of("tidal") is None


def test_modules_of_a_folder_see_each_other_and_names_may_have_dashes(folder: Path) -> None:
    declare(folder, "tidal-2")
    with use_declarations(folder):
        assert architecture("tidal-2").classes == architecture("tidal").classes


def test_two_folders(folder: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(folder, tmp_path / "other"))
    declare(other, "ebb")
    (other / "defaults" / "tidal.json").unlink()
    with use_declarations(folder), use_declarations(other):
        assert {"tidal", "ebb"} <= set(model_types())
        assert architecture("ebb").model_type == "ebb"
    with use_declarations(folder), pytest.raises(MindportError, match="declares what is declared already: tidal"):
        use_declarations(folder)


def test_nothing_is_run_before_it_is_asked_for(folder: Path) -> None:
    declare(folder, "trap", "raise SystemError('run')")
    with use_declarations(folder):
        assert "trap" in model_types()
        assert architecture("llama")
        assert architecture("tidal")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\ndef f(:\n", "late.py, line 2: invalid syntax."),
        ("x = 1\n\nimport no_such_module\n", "late.py, line 3: ModuleNotFoundError: No module named 'no_such_module'."),
        ("x = 1\nprint(x.y)\n", "late.py, line 2: AttributeError: 'int' object has no attribute 'y'."),
        ("raise ValueError('one\\ntwo')", "late.py, line 1: ValueError: one."),
        ("x = 1", "late.py does not define ARCHITECTURE."),
        ("ARCHITECTURE = {{}}", "late.py does not define ARCHITECTURE."),
        (
            "from .tidal import ARCHITECTURE",
            "late.py declares model_type 'tidal', but is listed as 'late'.",
        ),
        (
            "from dataclasses import replace; from .tidal import ARCHITECTURE as T\n"
            "ARCHITECTURE = replace(T, model_type='late', constants={{'normalisation': 'x'}})",
            "late.py is not a valid declaration: TransformerConfig has no fields 'normalisation'.",
        ),
        (
            "from dataclasses import replace; from .tidal import ARCHITECTURE as T\n"
            "ARCHITECTURE = replace(T, model_type='late', tensors={{'a': 'embedding.wrod.weight'}}, tied={{'b': 'c'}})",
            "late.py is not a valid declaration: there are no slots 'c', 'embedding.wrod.weight'.",
        ),
        (
            "from dataclasses import replace; from .tidal import ARCHITECTURE as T\n"
            "ARCHITECTURE = replace(T, model_type='late', classes={{}})",
            "late.py is not a valid declaration: it declares no class.",
        ),
        ("\x00", "late.py, line 1: "),
    ],
)
def test_a_module_that_is_no_declaration(folder: Path, text: str, message: str) -> None:
    declare(folder, "late", text)
    assert message in refusal(folder, "late").message
    with use_declarations(folder):
        assert architecture("tidal"), "the others can still be used"


@pytest.mark.parametrize("table", ["{", "[]", "\ud800".encode("utf-8", "surrogatepass")])
def test_a_table_that_is_none(folder: Path, table: str | bytes) -> None:
    declare(folder, "late", table="")
    (folder / "defaults" / "late.json").write_bytes(table if isinstance(table, bytes) else table.encode())
    assert "late.json" in refusal(folder, "late").message


def test_a_module_without_a_table(folder: Path) -> None:
    declare(folder, "late")
    (folder / "defaults" / "late.json").unlink()
    error = refusal(folder, "late")
    assert error.message == f"{folder} has no table of class defaults for 'late'."
    assert str(folder / "defaults" / "late.json") in error.fix


def test_a_table_without_a_module(folder: Path) -> None:
    declare(folder, "late")
    (folder / "late.py").unlink()
    assert refusal(folder, "late").message == f"{folder / 'late.py'} does not exist."


@pytest.mark.parametrize("model_type", ["../../tidal", "x" * 10_000, "a\0b", "__init__", ""])
def test_a_model_type_cannot_lead_out_of_the_folder(folder: Path, model_type: str) -> None:
    assert "is not supported" in refusal(folder, model_type).message


def test_folders_that_are_refused(folder: Path, tmp_path: Path) -> None:
    for wrong, message in (
        (tmp_path / "nowhere", "is not a folder"),
        (folder / "tidal.py", "is not a folder"),
        (tmp_path, "holds no declarations"),
    ):
        with pytest.raises(MindportError, match=message):
            use_declarations(wrong)
    declare(folder, "llama")
    with pytest.raises(MindportError, match="declares what is declared already: llama") as error:
        use_declarations(folder)
    assert "model_type of its own" in error.value.fix


def test_a_model_folder_is_never_a_source_of_code(folder: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    inside = Path(shutil.copytree(folder, model / "code"))
    link = tmp_path / "link"
    link.symlink_to(inside)
    for given, models in ((inside, [model]), (link, [model]), (inside, [model / "config.json"]), (inside, [inside])):
        with pytest.raises(MindportError, match="code from a model folder is never run"):
            use_declarations(given, apart_from=models)
    (inside / "config.json").write_text("{}")
    with pytest.raises(MindportError, match="code from a model folder is never run"):
        use_declarations(inside)
    with use_declarations(folder, apart_from=[model, tmp_path / "x.json"]):
        assert architecture("tidal")


def test_all_declarations_are_without_mistakes() -> None:
    assert not [problem for name in model_types() for problem in mistakes(architecture(name))]


def test_register_is_called_and_may_fail(folder: Path) -> None:
    declare(folder, "late", MODULE + "\nseen = []\ndef register():\n    seen.append(1)\n    1 / len(seen[1:])\n")
    with use_declarations(folder):
        with pytest.raises(MindportError, match=r"late\.py, line \d+: ZeroDivisionError: division by zero\."):
            register_classes("late")
        register_classes("late")
    register_classes("llama")


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ('computed={**TIDAL.computed, "softmax_scale": lambda hf: 1 / 0}', "ZeroDivisionError"),
        ('computed={**TIDAL.computed, "softmax_scale": lambda hf: hf["nowhere"]}', "KeyError"),
        ('constants={**TIDAL.constants, "norm_placement": "pre", "nonsense": 1}', "no fields 'nonsense'"),
    ],
)
def test_code_that_fails_when_a_config_is_read(folder: Path, more: str, error: str) -> None:
    text = MODULE.replace(
        'model_type="{name}")', f'model_type="{{name}}",\n    {more.replace("{", "{{").replace("}", "}}")})'
    )
    declare(folder, "late", text)
    with use_declarations(folder), pytest.raises(MindportError, match=error) as raised:
        from_hf({"model_type": "late"})
    assert "late" in raised.value.message


def test_a_module_that_ends_the_process(folder: Path) -> None:
    declare(folder, "late", "import sys\nsys.exit(3)\n")
    assert "SystemExit" in refusal(folder, "late").message


# --- on the command line ---------------------------------------------------------------------------------------------


def invoke(*args: object) -> Any:
    done = CliRunner().invoke(app, [str(arg) for arg in args])
    if isinstance(done.exception, MindportError):
        return done.exception
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_every_verb_on_files(folder: Path, tmp_path: Path) -> None:
    config = tmp_path / "model" / "config.json"
    config.parent.mkdir()
    config.write_text(json.dumps({"model_type": "tidal", "n_kv_heads": 2}))
    own = ("--declarations", folder, "--json")
    listed = {entry["model_type"]: entry["source"] for entry in invoke("list", *own)["architectures"]}
    assert listed["tidal"] == {"kind": "folder", "name": str(folder)}
    assert listed["llama"] == {"kind": "package", "name": "mindport"}
    assert invoke("inspect", config, *own)["hf_class"] == "TidalForCausalLM"
    out = tmp_path / "out"
    assert invoke("convert", config, "-o", out, *own)["folder"] == str(out)
    assert invoke("diff", config, out, *own)["equal"] is True
    assert source_of("tidal") is None, "in use only while the verb runs"
    assert "'tidal' is not " in str(invoke("inspect", config, "--json"))
    again = invoke("diff", out, out, "--json")
    assert again.message == f"{out / 'ms_config.json'} was converted with a declaration of its own, which is not here."
    assert "--declarations DIR" in again.fix


@pytest.mark.parametrize("verb", ["inspect", "convert", "verify", "migrate", "diff"])
def test_no_verb_takes_code_from_the_model(folder: Path, verb: str) -> None:
    (folder / "config.json").write_text('{"model_type": "tidal"}')
    inside = Path(shutil.copytree(EXAMPLE, folder / "code"))
    more = {"convert": ["-o", folder / "o"], "migrate": ["-o", folder / "o"], "verify": [folder], "diff": [folder]}
    for given in (folder, inside):
        found = invoke(verb, folder, *more.get(verb, []), "--declarations", given)
        assert "code from a model folder is never run" in found.message


def test_a_converted_folder_needs_its_declaration_again(folder: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "tidal"}')
    with use_declarations(folder):
        convert(config, tmp_path / "out")
        assert read_native_config(tmp_path / "out").model.model_type == "tidal"
    with pytest.raises(MindportError, match="with a declaration of its own, which is not here"):
        read_native_config(tmp_path / "out")


# --- an installed package --------------------------------------------------------------------------------------------


def install(site: Path, package: str, entries: dict[str, str]) -> None:
    """A distribution as pip leaves it: the example as a package, and metadata that points to it."""
    shutil.copytree(EXAMPLE, site / package, ignore=shutil.ignore_patterns("__pycache__"))
    (site / package / "__init__.py").touch()
    info = site / f"{package}-1.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.5\n")
    lines = [f"{name} = {value}" for name, value in entries.items()]
    (info / "entry_points.txt").write_text("\n".join(["[mindport.architectures]", *lines]) + "\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for packages, on the path; everything read anew, before and after."""
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setattr(registry, "_installed", EntryPoints())
    before = set(sys.modules)
    registry._forget()
    yield tmp_path / "site"
    registry._forget()
    for name in [name for name in set(sys.modules) - before if name.startswith("tides")]:
        del sys.modules[name]


def test_an_installed_package_declares(site: Path) -> None:
    install(site, "tides_one", {"tidal": "tides_one.tidal"})
    assert "tidal" in model_types()
    assert from_hf({"model_type": "tidal"}).transformer.hidden_size == 64
    listed = {entry["model_type"]: entry["source"] for entry in invoke("list", "--json")["architectures"]}
    assert listed["tidal"] == {"kind": "entry point", "name": "tides_one 1.5"}


def test_a_folder_precedes_an_installed_package(site: Path, folder: Path) -> None:
    install(site, "tides_two", {"tidal": "tides_two.tidal"})
    with use_declarations(folder):
        assert source_of("tidal").kind == "folder"  # type: ignore[union-attr]
    assert source_of("tidal").kind == "entry point"  # type: ignore[union-attr]


def test_two_packages_that_declare_the_same(site: Path) -> None:
    install(site, "tides_three", {"tidal": "tides_three.tidal"})
    install(site, "tides_four", {"tidal": "tides_four.tidal"})
    with pytest.raises(MindportError, match=r"tides_\w+ 1.5 and tides_\w+ 1.5 both declare model_type 'tidal'"):
        architecture("tidal")
    assert architecture("llama")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("tides_five.nowhere", "The declaration of 'tidal' by tides_five 1.5 cannot be loaded: No module named"),
        ("tides_five.modeling", "cannot be loaded: No module named"),
        ("json", "does not define ARCHITECTURE"),
    ],
)
def test_an_installed_package_that_is_broken(site: Path, value: str, message: str) -> None:
    install(site, "tides_five", {"tidal": value})
    with pytest.raises(MindportError, match=message):
        architecture("tidal")
    assert architecture("llama")


def test_installed_packages_are_not_asked_without_need(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    class Trap:
        def model_types(self) -> tuple[str, ...]:
            raise AssertionError("asked")

    monkeypatch.setattr(registry, "_installed", Trap())
    registry._forget()
    assert architecture("llama")
    assert class_defaults("llama")
    with use_declarations(folder):
        assert architecture("tidal")
