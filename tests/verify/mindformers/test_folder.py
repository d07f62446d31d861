"""Which folders MindFormers is run on: those that hold what converting writes, and whose YAML still says so."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from mindport.checkpoint.convert import convert
from mindport.checkpoint.goal import Goal
from mindport.checkpoint.options import Options
from mindport.config.mindformers.settings import Parallel, RunSettings
from mindport.errors import MindportError
from mindport.targets.mindformers import LEGACY, MCORE
from mindport.verify.mindformers.folder import runnable
from mindport.verify.mindformers.overrides import overridden, overrides_for

from .fakes import converted, hugging_face


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hugging_face(tmp_path_factory.mktemp("source") / "hf")


@pytest.fixture(scope="module")
def original(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return converted(model, tmp_path_factory.mktemp("converted") / "mf")


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    """A copy to be spoilt."""
    shutil.copytree(original, tmp_path / "mf")
    return tmp_path / "mf"


def edit(folder: Path, old: str, new: str, *names: str) -> None:
    for name in names or ("pretrain.yaml", "finetune.yaml"):
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new))


def test_as_it_was_written(model: Path, folder: Path) -> None:
    found = runnable(model, folder)
    assert found.yaml == folder / "pretrain.yaml"
    assert found.length == 16  # of the model: fewer than are compared where there are more
    assert found.executed_as_written
    assert not found.cast
    assert [file.name for file in found.weights.files] == ["model.safetensors"]
    assert found.section["num_layers"] == 2


def test_one_yaml_is_enough(model: Path, folder: Path) -> None:
    (folder / "pretrain.yaml").unlink()
    assert runnable(model, folder).yaml == folder / "finetune.yaml"
    (folder / "finetune.yaml").unlink()
    with pytest.raises(MindportError, match=r"holds neither of pretrain\.yaml, finetune\.yaml"):
        runnable(model, folder)


EDITED = {
    "another rope base": ("theta: 54321.0", "theta: 10000.0", r"rotary_base is 10000\.0, not 54321\.0"),
    "another width": ("intermediate_size: 12", "intermediate_size: 16", "ffn_hidden_size is 16, not 12"),
    "another layout": ("qkv_concat: False", "qkv_concat: True", "qkv_concat is True, not False"),
    "another padding": ("pad_token_id: 3", "pad_token_id: 4", "pad_token_id is 4, not 3"),
}


@pytest.mark.parametrize("what", EDITED)
def test_a_yaml_that_says_something_else(what: str, model: Path, folder: Path) -> None:
    old, new, said = EDITED[what]
    edit(folder, old, new)
    with pytest.raises(MindportError, match=rf"pretrain\.yaml says something else than ms_config\.json: {said}"):
        runnable(model, folder)


def test_the_other_yaml_counts_too(model: Path, folder: Path) -> None:
    edit(folder, "theta: 54321.0", "theta: 10000.0", "finetune.yaml")
    with pytest.raises(MindportError, match=r"finetune\.yaml says something else"):
        runnable(model, folder)


def test_two_yaml_files_that_would_run_differently(model: Path, folder: Path) -> None:
    """In keys that say nothing of the model as Mindport knows it, but may to MindFormers."""
    edit(folder, "ignore_token_id: -100", "ignore_token_id: -100\n    made_up: 1", "finetune.yaml")
    with pytest.raises(MindportError, match=r"pretrain\.yaml and .*finetune\.yaml differ in: made_up\."):
        runnable(model, folder)


def test_settings_of_the_run_may_differ(model: Path, folder: Path) -> None:
    edit(folder, "seq_length: 16", "seq_length: 10", "finetune.yaml")
    edit(folder, 'compute_dtype: "bfloat16"', 'compute_dtype: "float16"', "finetune.yaml")
    assert runnable(model, folder).length == 10


def test_a_part_of_the_model_from_elsewhere(model: Path, folder: Path) -> None:
    edit(folder, "seed: 42", f'seed: 42\npretrained_model_dir: "{model}"')
    with pytest.raises(MindportError, match="takes a part of the model from pretrained_model_dir"):
        runnable(model, folder)


def test_other_weights(model: Path, folder: Path) -> None:
    path = folder / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(MindportError, match="differs from the source"):
        runnable(model, folder)


def test_weights_of_the_other_layout(model: Path, tmp_path: Path) -> None:
    """Alike in names and shapes, with a manifest and then with a config that agree with them: the source, or else the
    YAML, does not."""
    layouts = {"ours": {}, "other": {"use_interleaved_weight_layout_mlp": False}}
    for name, layout in layouts.items():
        converted(model, tmp_path / name, Goal("1.9", tmp_path / "ours", MCORE, layout=layout))
    ours, other = tmp_path / "ours", tmp_path / "other"
    assert runnable(model, ours).section["model_type"] == "llama"
    for name in ("model.safetensors", "mindport_manifest.json"):
        shutil.copyfile(other / name, ours / name)
    with pytest.raises(MindportError, match=r"differs from the source in decoder\.layers\.0\.mlp\.linear_fc1"):
        runnable(model, ours)
    shutil.copyfile(other / "ms_config.json", ours / "ms_config.json")
    with pytest.raises(MindportError, match=r"use_interleaved_weight_layout_mlp is True, not False"):
        runnable(model, ours)


def test_a_native_folder(model: Path, tmp_path: Path) -> None:
    convert(model, tmp_path / "native")
    with pytest.raises(MindportError, match=r"native network, and not of MindFormers\. Leave --engine mindformers out"):
        runnable(model, tmp_path / "native")


def test_an_inference_graph(tmp_path: Path) -> None:
    model = hugging_face(tmp_path / "hf", max_position_embeddings=16)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(
        json.dumps({**config, "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]})
    )
    (tmp_path / "config").mkdir()
    shutil.copy(model / "config.json", tmp_path / "config" / "config.json")
    folder = tmp_path / "mf"
    convert(tmp_path / "config" / "config.json", folder, goal=Goal("1.9", folder, inference=True))
    with pytest.raises(MindportError, match="weights of an inference graph"):
        runnable(model, folder)


@pytest.mark.parametrize(("version", "as_written"), [("1.2", False), ("1.7", False), ("2.1", False), ("1.9", True)])
def test_other_versions_of_the_same_graph(version: str, as_written: bool, model: Path, tmp_path: Path) -> None:
    folder = converted(model, tmp_path / "mf", Goal(version, tmp_path / "mf", LEGACY))
    assert runnable(model, folder).executed_as_written is as_written


def test_weights_of_another_dtype_are_known(model: Path, tmp_path: Path) -> None:
    from mindport.checkpoint.policy import parse_policy

    folder = converted(model, tmp_path / "mf", options=Options(policy=parse_policy(["bf16"])))
    assert runnable(model, folder).cast


# --- overrides --------------------------------------------------------------------------------------------------------


def test_every_override_has_a_reason_and_changes_something() -> None:
    for generation, section in {LEGACY: {"offset": [1, 0]}, MCORE: {"moe_aux_loss_coeff": 0.1}}.items():
        found = overrides_for(section, generation, 8)
        assert len({override.key for override in found}) == len(found)
        for override in found:
            assert override.reason
            assert override.key not in section or override.given != override.value
        assert overrides_for(overridden(section, found), generation, 8) == ()


def test_false_is_not_zero() -> None:
    """MindFormers tells them apart by type."""
    assert "use_flash_attention" in {o.key for o in overrides_for({"use_flash_attention": 0}, LEGACY, 8)}


def test_the_padding_of_a_pipeline_is_taken_out() -> None:
    section: dict[str, Any] = {"offset": [1, 0, 0, -1], "pp_interleave_num": 2}
    assert {o.key: o.value for o in overrides_for(section, MCORE, 8)}.items() >= {
        "offset": 0,
        "pp_interleave_num": 1,
    }.items()


def test_a_yaml_for_many_devices(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mf"
    settings = RunSettings(parallel=Parallel(data=2, pipeline=2, micro_batches=4), seq_length=9)
    converted(model, folder, Goal("1.9", folder, LEGACY, settings=settings))
    found = runnable(model, folder)
    assert found.length == 9
