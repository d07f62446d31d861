"""The plug-in's graphs besides what `test_mcore` shows of them: how MindFormers finds them, and what they refuse."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindport import plugin as plugin_package
from mindport.config.hf import read_hf_config
from mindport.config.mindformers.emit import emit
from mindport.config.mindformers.settings import CPU, Data, Precision, RunSettings
from mindport.plugin.families import FAMILIES, PluginFamily, family_of, refusals
from mindport.targets.mindformers import MCORE, target
from mindport.targets.mindformers.plugin import FOLDER, plugin_files

from .models import Case, note, token_ids, write_mindrecord
from .test_mcore import (
    CASES,
    DENSE,
    INTERLEAVED,
    LENGTH,
    LOGITS,
    MIXTRAL,
    RUN,
    SCALINGS,
    SHARED,
    STEP,
    VERSION,
    case_of,
    graph_by_keys,
)

pytestmark = pytest.mark.conformance


@pytest.fixture(scope="module")
def graphs() -> Any:
    """The plug-in's module, as an import in a program of one's own loads it."""
    return importlib.import_module("mindport.plugin.mindport_graphs")


def family(model_type: str) -> PluginFamily:
    found = family_of(model_type)
    assert found is not None
    return found


def test_every_scaling_makes_a_difference(tmp_path: Path) -> None:
    """So that the agreement with transformers says something of it."""
    ids = token_ids(131, LENGTH)
    graph = graph_by_keys(CASES["llama"])
    for name in SCALINGS:
        folder = tmp_path / name
        folder.mkdir()
        case = case_of(CASES[f"llama, {name}"], folder)
        graph.load(case.in_layout(target(VERSION, INTERLEAVED)))
        assert abs(graph.logits(ids) - case.logits(ids)).max() > 100 * LOGITS, name


INSTALLED = Path(plugin_package.__file__).parent

FROM_YAML: dict[str, tuple[str, dict[str, Any], Path | None]] = {
    "llama": ("LlamaConfig", {**SHARED, "rope_scaling": SCALINGS["llama3"], "attention_bias": True}, None),
    "qwen2": ("Qwen2Config", {**DENSE, "head_dim": 8}, INSTALLED),
    "mixtral": ("MixtralConfig", MIXTRAL, None),
}
"""Name -> (class of transformers' config, its values, where the plug-in lies; None = copied beside the YAML)."""


def write_plugin(folder: Path) -> Path:
    """The plug-in, as it lies beside a YAML."""
    for name, text in plugin_files().items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder / FOLDER


def write_data(path: Path, ids: np.ndarray) -> None:
    """(batch, LENGTH + 1) token ids as a MindRecord file, with the columns that the YAML names."""
    columns = {
        "input_ids": ids[:, :-1].astype(np.int32),
        "labels": ids[:, 1:].astype(np.int32),
        "loss_mask": np.ones((len(ids), LENGTH), np.float32),
        "position_ids": np.tile(np.arange(LENGTH, dtype=np.int32), (len(ids), 1)),
    }
    write_mindrecord(path, columns)


@pytest.mark.parametrize("name", FROM_YAML)
def test_from_the_yaml_to_the_first_step(name: str, tmp_path: Path) -> None:
    """MindFormers' Trainer finds the plug-in by the YAML and REGISTER_PATH, loads our weights, and trains."""
    import transformers

    hf, values, installed = FROM_YAML[name]
    case = Case.of(tmp_path / "hf", getattr(transformers, hf)(**values))
    ids = token_ids(131, LENGTH + 1)
    case.in_layout(target(VERSION, INTERLEAVED))
    write_data(tmp_path / "data.mindrecord", ids)
    folder = tmp_path / "run 1.9"
    folder.mkdir()
    settings = RunSettings(
        device=CPU,
        output_dir=str(folder / "output"),
        data=Data(path=str(tmp_path / "data.mindrecord"), workers=1),
        seq_length=LENGTH,
        batch_size=len(ids),
        load_checkpoint=str(case.folder / "mindformers"),
        precision=Precision(compute="float32"),
        sink=False,
    )
    yaml = folder / "run.yaml"
    yaml.write_text(emit(read_hf_config(case.folder), VERSION.name, MCORE, settings), encoding="utf-8")
    steps = tmp_path / "steps.json"
    command = [sys.executable, "-m", "mindport.verify.mindformers.trial", str(yaml), "--json", str(steps)]
    plugin = installed or write_plugin(folder)
    environment = {**os.environ, "REGISTER_PATH": str(plugin)}
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert (tmp_path / "modules" / "openmind_modules" / plugin.name / "mindport_graphs.py").is_file()
    (step,) = json.loads(steps.read_text(encoding="utf-8"))
    for what, wanted in zip(("loss", "gradient_norm"), case.first_step(ids), strict=True):
        assert note(f"{name}, Trainer with the plug-in: {what} of the first step", abs(step[what] - wanted)) <= STEP


def test_weights_of_hugging_face_are_not_taken(graphs: Any) -> None:
    """MindFormers would leave out biases, or order them otherwise: it is told so by the names."""
    model = graph_by_keys(CASES["llama"]).network
    assert model.convert_name("decoder.final_layernorm.weight") == "decoder.final_layernorm.weight"
    assert model.template is None
    with pytest.raises(ValueError, match="convert the weights with Mindport"):
        model.convert_name("model.norm.weight")


def test_the_copied_files_need_no_mindport(tmp_path: Path) -> None:
    """They import where there is MindFormers, under the name of their folder."""
    write_plugin(tmp_path)
    code = (
        "import sys\n"
        "sys.modules['mindport'] = None\n"
        f"import {FOLDER}.mindport_graphs as graphs\n"
        f"print([getattr(graphs, name).__name__ for name in {[f.config_class for f in FAMILIES]!r}])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines()[-1] == str([family.config_class for family in FAMILIES])


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "a size is missing": ("llama", {"intermediate_size": None}, "intermediate_size is missing"),
    "biases of the MLP": ("llama", {"mlp_bias": True}, "mlp_bias"),
    "another activation": ("llama", {"hidden_act": "gelu"}, "hidden_act"),
    "another RoPE scaling": ("llama", {"rope_scaling": {"type": "longrope", "factor": 2.0}}, "longrope"),
    "half a RoPE scaling": ("llama", {"rope_scaling": {"rope_type": "llama3", "factor": 2.0}}, "low_freq_factor"),
    "dynamic RoPE beyond the positions": (
        "llama",
        {"rope_scaling": {"type": "dynamic", "factor": 2.0}, "max_position_embeddings": LENGTH - 1},
        "dynamic",
    ),
    "RoPE as transformers 5 has it": ("llama", {"rope_parameters": {"rope_theta": 1e4}}, "rope_parameters"),
    "a part of the head": ("llama", {"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
    "a window within the sequence": ("mistral", {"sliding_window": LENGTH - 1}, "sliding_window"),
    "windows by layer": ("qwen2", {"layer_types": ["full_attention", "sliding_attention"]}, "sliding_window"),
    "experts in a dense family": ("llama", {"num_experts": 4}, "num_experts"),
    "no experts": ("mixtral", {}, "num_experts is missing"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_plugin_refuses_what_it_does_not_compute(name: str, graphs: Any) -> None:
    """Where nothing else would: MindFormers reads over all of these."""
    model_type, changes, said = REFUSED[name]
    values = {**DENSE, **RUN, **changes}
    with pytest.raises(ValueError, match=said):
        getattr(graphs, family(model_type).config_class)(**values)
    assert any(said in str(found) for found in refusals(family(model_type), values))


ALIKE: dict[str, tuple[str, dict[str, Any]]] = {
    "dynamic RoPE within the positions": ("llama", {"rope_scaling": {"type": "dynamic", "factor": 2.0}}),
    "no RoPE scaling, said": ("llama", {"rope_scaling": {"rope_type": "default"}}),
    "a window as long as the sequence": ("mistral", {"sliding_window": LENGTH}),
    "a window that is off": ("qwen2", {"sliding_window": 4, "add_qkv_bias": False}),
}


@pytest.mark.parametrize("name", ALIKE)
def test_what_changes_nothing_is_not_refused(name: str, graphs: Any) -> None:
    model_type, changes = ALIKE[name]
    values = {**DENSE, **RUN, "add_qkv_bias": False}
    made = getattr(graphs, family(model_type).config_class)
    plain, other = made(**values), made(**{**values, **changes})
    one, two = (vars(config.convert_to_transformer_config()) for config in (plain, other))
    assert {key for key in one if one[key] != two[key]} <= {"init_method", "output_layer_init_method"}
    assert plain.rope_scaling is other.rope_scaling is None


@pytest.mark.parametrize("name", [family.model_type for family in FAMILIES])
def test_to_infer_mindformers_own_classes_stay(name: str, graphs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    register = importlib.import_module("mindformers.tools.register")
    find, kinds = register.MindFormerRegister.get_cls, register.MindFormerModuleType
    made = find(kinds.CONFIG, name)
    assert made is find(kinds.CONFIG, family(name).config_class)
    assert find(kinds.MODELS, family(name).model_class).__name__ == family(name).model_class
    monkeypatch.setenv("RUN_MODE", "predict")
    if name == "qwen2":
        assert type(made()).__module__.startswith("mindformers.models.qwen2")
    else:
        with pytest.raises(NotImplementedError, match="inference"):
            made()


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("mindformers"), "__version__", "1.8.0")
    monkeypatch.delitem(sys.modules, "mindport.plugin.mindport_graphs", raising=False)
    with pytest.raises(ImportError, match=r"1\.9, not 1\.8\.0"):
        importlib.import_module("mindport.plugin.mindport_graphs")
