"""What the YAML, its checks and its readers know of Mindport's plug-in for MindFormers."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from mindport.architectures import class_defaults
from mindport.config.hf import from_hf
from mindport.config.mindformers.emit import emit
from mindport.config.mindformers.lint import lint
from mindport.config.mindformers.read import fields_of, read
from mindport.config.mindformers.upgrade import upgrade
from mindport.config.mindformers.validate import validate_file
from mindport.config.yaml_file import parse_yaml
from mindport.errors import MindportError
from mindport.plugin.families import FAMILIES, PluginFamily, refusals, respelled, settings
from mindport.targets.mindformers import LEGACY, MCORE, family_named, version_named
from mindport.targets.mindformers.graphs import GRAPHS, REQUIRED
from mindport.targets.mindformers.plugin import FOLDER, plugin_files, reference

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {"rope_scaling": LLAMA3, "attention_bias": True, "tie_word_embeddings": True},
    "mistral": {"sliding_window": None, "head_dim": 160},
    "qwen2": {"tie_word_embeddings": True},
    "mixtral": {},
}


def emitted(model_type: str, **changes: Any) -> str:
    model = from_hf(
        {
            "model_type": model_type,
            "architectures": [f"{model_type.capitalize()}ForCausalLM"],
            **CONFIGS[model_type],
            **changes,
        }
    )
    return emit(model, "1.9", MCORE)


def codes(text: str, version: str = "1.9") -> set[str]:
    return {
        finding.code for finding in validate_file(parse_yaml(text, Path("x.yaml")), version_named(version)).findings
    }


each_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.model_type)


@each_family
def test_a_yaml_names_the_plugin_and_how_to_start(family: PluginFamily) -> None:
    text = emitted(family.model_type)
    section = parse_yaml(text, Path("x.yaml")).values["model"]["model_config"]
    assert section["model_type"] == family.model_type
    assert section["architectures"] == [family.model_class]
    assert section["auto_register"] == f"mindport_graphs.{family.config_class}"
    header = text[: text.index("seed:")]
    assert "--register_path" in header
    assert FOLDER in header
    assert not codes(text)
    assert not lint(parse_yaml(text, Path("x.yaml")).values, "1.9")
    assert not [*refusals(family, section)]


@each_family
def test_the_plugin_reads_what_the_graph_is_told(family: PluginFamily) -> None:
    """Each key of the graph is one that the plug-in passes on, and what it takes for granted is what the graph says."""
    section = parse_yaml(emitted(family.model_type), Path("x.yaml")).values["model"]["model_config"]
    graph = GRAPHS[MCORE, family.model_type]
    made = settings(family, section)
    for key in graph.keys:
        if key.name in section:
            assert made[key.name] == section[key.name], key.name
        without = {name: value for name, value in section.items() if name != key.name}
        missing = [str(found) for found in refusals(family, without) if found.key == key.name]
        assert bool(missing) is (key.absent is REQUIRED), key.name
        taken = None if missing else settings(family, without).get(key.name)
        if taken is not None:
            found = fields_of(without, graph, version_named("1.9"))
            assert key.spelling.read(key.name, key.field, {key.name: taken}, found)[key.field] == found[key.field]


def test_the_files_are_those_of_the_package() -> None:
    files = plugin_files()
    assert {f"{FOLDER}/{name}.py" for name in ("__init__", "families", "mindport_graphs", "rope")} == set(files)
    for text in files.values():
        assert "import mindport." not in text
        assert "from mindport" not in text
        ast.parse(text)


def test_the_plugin_is_not_the_first_choice() -> None:
    """Without being asked for, MindFormers' own graphs come first, and models that only the plug-in computes get it."""
    llama = from_hf({"model_type": "llama", "rope_scaling": LLAMA3})
    assert "use_legacy: True" in emit(llama, "1.9")
    wide = from_hf({"model_type": "llama", "rope_scaling": LLAMA3, "head_dim": 64})
    assert "auto_register" in emit(wide, "1.9")
    assert "auto_register" not in emit(from_hf({"model_type": "qwen3"}), "1.9")
    assert "auto_register" not in emit(llama, "1.9", LEGACY)
    with pytest.raises(MindportError, match=r"made for MindFormers 1\.9, not 2\.0"):
        emit(llama, "2.0", MCORE)


def changed(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


PROBLEMS: dict[str, tuple[str, tuple[tuple[str, str], ...], str, str]] = {
    "another version": ("llama", (), "1.8", "plugin-version"),
    "the legacy generation": ("llama", (("use_legacy: False", "use_legacy: True"),), "1.9", "plugin-generation"),
    "a family it does not have": ("llama", (('model_type: "llama"', 'model_type: "bloom"'),), "1.9", "plugin-family"),
    "a class it does not have": ("llama", (("graphs.LlamaConfig", "graphs.BloomConfig"),), "1.9", "plugin-family"),
    "a size that is missing": ("llama", (("    rope_theta: 10000.0", "    theta: 10000.0"),), "1.9", "plugin-refuses"),
    "norms of heads": ("llama", (("qk_layernorm: False", "qk_layernorm: True"),), "1.9", "plugin-refuses"),
    "a scaling it does not have": ("llama", (('"llama3"', '"longrope"'),), "1.9", "plugin-refuses"),
    "a window": (
        "mistral",
        (("    qk_layernorm", "    sliding_window: 64\n    qk_layernorm"),),
        "1.9",
        "plugin-refuses",
    ),
    "no plug-in": ("qwen2", (("auto_register", "unused"),), "1.9", "family-training"),
    "no plug-in, and no class": ("llama", (("auto_register", "unused"),), "1.9", "family-unknown"),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_validate_sees_what_the_plugin_would_refuse(name: str) -> None:
    model_type, pairs, version, code = PROBLEMS[name]
    text = changed(emitted(model_type), *pairs)
    assert code in codes(text, version)
    found = validate_file(parse_yaml(text, Path("x.yaml")), version_named(version)).findings
    said = next(finding for finding in found if finding.code == code)
    if code.startswith("family"):
        family = family_named(model_type, MCORE)
        assert family is not None
        assert reference(family) in said.fix


def test_what_a_config_json_says_is_not_missing() -> None:
    text = changed(
        emitted("llama"),
        ("    rope_theta: 10000.0", "    seq_length_: 1"),
        ('load_checkpoint: ""', 'load_checkpoint: ""\npretrained_model_dir: "hf"'),
    )
    assert "plugin-refuses" not in codes(text)


def test_checks_of_mindformers_own_classes_are_not_about_the_plugin() -> None:
    """Where MindFormers' Qwen2 would drop its biases and a scaling would switch RoPE off, the plug-in does neither."""
    text = emitted("qwen2", rope_scaling={"rope_type": "yarn", "factor": 4.0})
    values = parse_yaml(text, Path("x.yaml")).values
    del values["model"]["model_config"]["add_qkv_bias"]
    assert not lint(values, "1.9")
    del values["model"]["model_config"]["auto_register"]
    assert {"MF004"} <= {found.code for found in lint(values, "1.9")}
    values["model"]["model_config"]["rope_scaling"] = LLAMA3
    assert {"MF011", "MF017"} <= {found.code for found in lint(values, "1.9")}


def test_what_is_about_every_model_is_about_the_plugin_too() -> None:
    values = parse_yaml(emitted("llama"), Path("x.yaml")).values
    values["model"]["model_config"]["multiple_of"] = 256
    assert [found.code for found in lint(values, "1.9")] == ["MF040"]


def test_keys_of_config_json_are_read_by_the_plugins_rules() -> None:
    hf = {
        **class_defaults("llama"),
        "model_type": "llama",
        "num_key_value_heads": 32,
        "attention_bias": True,
        "head_dim": 128,
        "rope_scaling": {"type": "linear", "factor": 2.0},
    }
    text = "use_legacy: False\nmodel:\n  model_config:\n    auto_register: mindport_graphs.LlamaConfig\n"
    found = read(text, hf, "1.9").transformer
    assert found.add_qkv_bias
    assert found.add_attention_output_bias
    assert found.rope_scaling == {"rope_type": "linear", "factor": 2.0}
    mixtral = respelled(FAMILIES[3], {"num_local_experts": 8, "intermediate_size": 64, "rope_scaling": None})
    assert mixtral == {"num_experts": 8, "intermediate_size": 64, "moe_intermediate_size": 64}


def test_no_other_version_has_the_plugin() -> None:
    file = parse_yaml(emitted("llama"), Path("x.yaml"))
    for version in ("1.8", "2.0"):
        with pytest.raises(MindportError, match=r"made for MindFormers 1\.9"):
            upgrade(file, version_named(version))
    own = parse_yaml(changed(emitted("llama"), ("mindport_graphs.LlamaConfig", "mine.LlamaConfig")), Path("x.yaml"))
    assert upgrade(own, version_named("2.0")).text
