"""YAMLs that people wrote: read as far as they say what is known, reported or refused where they do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mindport.config.hf import from_hf
from mindport.config.mindformers.emit import emit
from mindport.config.mindformers.read import read, read_yaml
from mindport.config.mindformers.settings import RunSettings
from mindport.errors import MindportError
from mindport.targets.mindformers.versions import LEGACY, MCORE, PYNATIVE

LEGACY_YAML = """
run_mode: train
model:
  model_config:
    type: LlamaConfig
    seq_length: 2048
    hidden_size: 4096
    num_layers: 32
    num_heads: 32
    vocab_size: 32000
    multiple_of: 256
    rms_norm_eps: 1.0e-5
    bos_token_id: 1
    eos_token_id: 2
    compute_dtype: "float16"
    use_past: False
    theta: 10000
    some_switch: True
  arch:
    type: LlamaForCausalLM
"""

MCORE_YAML = """
use_legacy: False
run_mode: train
pretrained_model_dir: "hf"
model:
  model_config:
    model_type: qwen3
    rope_theta: 5000.
    hidden_act: "swiglu"
"""

QWEN3 = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": 3}


def full(hf: dict[str, Any]) -> dict[str, Any]:
    """Every key that the graph asks for, as config.json of a published model has them."""
    from mindport.config.mindformers.read import encoded

    return encoded("qwen3", "Qwen3ForCausalLM", from_hf(hf).transformer)


def test_a_legacy_yaml_of_an_early_version() -> None:
    found = read(LEGACY_YAML)
    config = found.model.transformer
    assert (found.generation, found.graph, found.model.hf_class) == (LEGACY, "llama", "LlamaForCausalLM")
    assert config.ffn_hidden_size == 11008  # Llama-2-7B's, from multiple_of
    assert config.num_query_groups == 32
    assert config.max_position_embeddings == 2048
    assert config.pad_token_id == 0
    assert found.unknown == ["some_switch"]
    assert found.model.hf["rope_theta"] == 10000


def test_biases_make_it_a_qwen() -> None:
    found = read(LEGACY_YAML.replace("    some_switch: True", "    qkv_has_bias: True"))
    assert found.model.transformer.add_qkv_bias
    assert not found.model.transformer.add_attention_output_bias
    assert found.model.hf["model_type"] != "llama"
    assert from_hf(found.model.hf).transformer == found.model.transformer


def test_keys_of_the_yaml_overrule_config_json(tmp_path: Path) -> None:
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "config.json").write_text(json.dumps(full({**QWEN3, "rope_theta": 1e6})))
    path = tmp_path / "run.yaml"
    path.write_text(MCORE_YAML)
    found = read_yaml(path)
    assert found.generation == MCORE
    assert found.model.transformer.rotary_base == 5000.0
    assert found.model.transformer.num_layers == 3
    assert found.transformer.hidden_dropout == 0.1  # MindFormers' own, which nobody overruled
    assert found.unsaid == ["hidden_dropout"]
    other = tmp_path / "other.json"
    other.write_text(json.dumps({**full(QWEN3), "num_hidden_layers": 7, "hidden_dropout": 0.0}))
    assert read_yaml(path, other).model.transformer.num_layers == 7


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(MCORE_YAML)
    with pytest.raises(MindportError, match="lacks vocab_size"):
        read_yaml(path)
    with pytest.raises(MindportError, match=r"section model\.model_config"):
        read("a: 1")
    with pytest.raises(MindportError, match="lacks model_type"):
        read(MCORE_YAML.replace("    model_type: qwen3\n", ""))
    assert read(MCORE_YAML.replace("    model_type: qwen3\n", ""), full(QWEN3)).graph == "qwen3"
    with pytest.raises(MindportError, match="ChatGLM2Config"):
        read(LEGACY_YAML.replace("LlamaConfig", "ChatGLM2Config"))


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("hidden_act", "gelu", "hidden_act"),
        ("normalization", "LayerNorm", "normalization"),
        ("position_embedding_type", "none", "position_embedding_type"),
        ("num_hidden_layers", "many", "num_hidden_layers"),
        ("vocab_size", -3, "vocab_size"),
    ],
)
def test_what_is_not_the_model_is_refused(key: str, value: object, said: str) -> None:
    text = emit(from_hf(QWEN3), "1.9", MCORE)
    lines = [f"    {key}: {value}" if line.startswith(f"    {key}:") else line for line in text.splitlines()]
    with pytest.raises(MindportError, match=said):
        read("\n".join(lines))


def test_a_damaged_comment_is_no_harm() -> None:
    text = emit(from_hf(QWEN3), "1.9", MCORE)
    first, mark, rest = text.partition("mindport-source:")
    for damaged in (
        "{",
        "[]",
        '{"fields": 3}',
        '{"fields": {"nothing": 3, "rotary_base": "x", "num_layers": null}}',
        '{"model_type": "nothing"}',
        '{"model_type": ["qwen3"], "architectures": 3}',
        '{"model_type": "qwen3", "architectures": 3}',
        '{"model_type": "qwen3", "architectures": ["X"]}',
        '{"model_type": "qwen3", "architectures": [["X"]]}',
    ):
        changed = f"{first}{mark} {damaged}\n{rest.partition(chr(10))[2]}"
        assert read(changed).model.hf_class == "Qwen3ForCausalLM"


def test_the_pynative_generation_is_known_by_its_sections() -> None:
    text = emit(from_hf(QWEN3), "2.0", PYNATIVE, RunSettings(steps=5))
    found = read(text, version="2.0")
    assert found.generation == PYNATIVE
    assert found.transformer == from_hf(QWEN3).transformer
    assert "steps: 5" in text
