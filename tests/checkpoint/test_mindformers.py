"""Whole folders to MindFormers and back: weights bit by bit, the YAML beside them, and from one layout to another."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindport.architectures.naming import spellings, tensor_map
from mindport.checkpoint import safetensors
from mindport.checkpoint.check import check_folder
from mindport.checkpoint.convert import convert
from mindport.checkpoint.export import export
from mindport.checkpoint.files import read
from mindport.checkpoint.folder import find_weights
from mindport.checkpoint.goal import Goal
from mindport.checkpoint.options import Options
from mindport.checkpoint.recheck import Recheck
from mindport.config.hf import from_hf
from mindport.config.mindformers.read import read_yaml
from mindport.config.mindformers.settings import RunSettings
from mindport.config.native import read_native_config
from mindport.errors import MindportError
from mindport.schema import slots_of
from mindport.targets.mindformers import LEGACY, MCORE, VERSIONS
from mindport.targets.mindformers.mcore import shared_slots

reference = pytest.importorskip("safetensors.numpy")

DENSE: dict[str, Any] = {
    "vocab_size": 31,
    "hidden_size": 24,
    "intermediate_size": 20,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-6,
    "rope_theta": 54321.0,
    "tie_word_embeddings": False,
}
LATENT: dict[str, Any] = {
    **DENSE,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "moe_intermediate_size": 10,
    "n_routed_experts": 12,
    "n_shared_experts": 2,
    "num_experts_per_tok": 4,
    "n_group": 3,
    "topk_group": 2,
    "first_k_dense_replace": 1,
    "norm_topk_prob": True,
    "routed_scaling_factor": 2.5,
    "q_lora_rank": 22,
    "kv_lora_rank": 18,
    "qk_rope_head_dim": 6,
    "qk_nope_head_dim": 11,
    "v_head_dim": 9,
    "num_nextn_predict_layers": 1,
}
EXPERTS: dict[str, Any] = {
    **DENSE,
    "head_dim": 10,
    "moe_intermediate_size": 14,
    "num_experts": 5,
    "num_experts_per_tok": 2,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaForCausalLM", DENSE),
    "llama tied": ("LlamaForCausalLM", {**DENSE, "tie_word_embeddings": True}),
    "qwen2": ("Qwen2ForCausalLM", DENSE),
    "mistral": ("MistralForCausalLM", {**DENSE, "sliding_window": None}),
    "mistral windowed": ("MistralForCausalLM", {**DENSE, "sliding_window": 40}),
    "llama dynamic": ("LlamaForCausalLM", {**DENSE, "rope_scaling": {"rope_type": "dynamic", "factor": 3.0}}),
    "qwen3": ("Qwen3ForCausalLM", {**DENSE, "head_dim": 10}),
    "qwen3_moe": ("Qwen3MoeForCausalLM", EXPERTS),
    "deepseek_v3": ("DeepseekV3ForCausalLM", LATENT),
}

Save = Callable[[str], Path]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Writes a model of MODELS with random weights as a Hugging Face folder."""

    def saved(name: str) -> Path:
        hf_class, values = MODELS[name]
        hf = {"model_type": name.split()[0], "architectures": [hf_class], "hidden_act": "silu", **values}
        model, random = from_hf(hf), np.random.default_rng(7)
        tensors = tensor_map(model.declaration, model.transformer, next(spellings(model.declaration, hf)))
        shapes, shared = slots_of(model.transformer), shared_slots(model.transformer)
        arrays: dict[str, np.ndarray] = {}
        for tensor, stored in sorted(tensors.items(), key=lambda item: item[1].parts[0] in shared):
            twin = shared.get(stored.parts[0])
            if twin:
                arrays[tensor] = next(arrays[other] for other, made in tensors.items() if made.parts == (twin,))
            else:
                shape = stored.shape([shapes[part] for part in stored.parts])
                arrays[tensor] = random.standard_normal(shape).astype(np.float32)
        folder = tmp_path / "hf"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(hf))
        reference.save_file(arrays, folder / "model.safetensors", {"format": "pt"})
        return folder

    return saved


def weights(folder: Path) -> dict[str, bytes]:
    """Name -> bytes of every tensor of a folder."""
    return {name: read(entry).tobytes() for name, entry in find_weights(folder).entries.items()}


WAYS: list[tuple[str, str, str, dict[str, bool]]] = [
    ("llama", "1.9", LEGACY, {}),
    ("llama", "1.9", LEGACY, {"qkv_concat": True}),
    ("llama", "1.3", LEGACY, {}),
    ("llama", "1.9", MCORE, {}),
    ("llama tied", "1.9", LEGACY, {}),
    ("llama tied", "1.9", MCORE, {"use_contiguous_weight_layout_attention": True}),
    ("qwen2", "1.9", MCORE, {}),
    ("qwen2", "1.6", LEGACY, {"qkv_concat": True}),
    ("mistral", "1.8", LEGACY, {}),
    ("llama dynamic", "1.9", LEGACY, {}),
    ("qwen3", "1.8", MCORE, {}),
    ("qwen3", "1.9", MCORE, {"use_contiguous_weight_layout_attention": True}),
    ("qwen3", "1.9", MCORE, {"use_interleaved_weight_layout_mlp": False}),
    ("qwen3_moe", "1.9", MCORE, {}),
    ("deepseek_v3", "1.9", MCORE, {}),
    ("deepseek_v3", "2.0", MCORE, {"mla_qkv_concat": False}),
]


@pytest.mark.parametrize(("name", "version", "generation", "layout"), WAYS)
def test_there_and_back(
    name: str, version: str, generation: str, layout: dict[str, bool], save: Save, tmp_path: Path
) -> None:
    source, folder = save(name), tmp_path / "out"
    goal = Goal(version, folder, generation, layout=layout)
    done = convert(source, folder, Options(goal.weights_format(None)), goal)
    assert read_native_config(folder) == done.config
    assert done.config.destination
    assert done.config.destination.version.target == f"mindformers@{version}"
    check_folder(source, folder)
    assert not Recheck(folder).run().problems
    for task in ("pretrain", "finetune"):
        reading = read_yaml(folder / f"{task}.yaml", version=version)
        assert reading.transformer == done.config.model.transformer
        assert reading.destination == done.config.destination
        said = (folder / f"{task}.yaml").read_text()
        place = folder / "model.ckpt" if version == "1.3" else folder
        assert f'load_checkpoint: "{place}"' in said
    export(folder, tmp_path / "back")
    assert weights(tmp_path / "back") == weights(source)
    assert from_hf(json.loads((tmp_path / "back" / "config.json").read_text())).transformer == (
        from_hf(json.loads((source / "config.json").read_text())).transformer
    )


def test_the_plug_in_is_beside_a_yaml_that_needs_it(save: Save, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    done = convert(save("llama"), folder, goal=Goal("1.9", folder, MCORE))
    assert done.config.destination
    assert done.config.destination.family.plugin
    assert (folder / "mindport_plugin" / "mindport_graphs.py").is_file()
    (folder / "mindport_plugin" / "rope.py").write_text("")
    assert [problem.tensor for problem in Recheck(folder).run().problems] == ["mindport_plugin/rope.py"]
    other = tmp_path / "other"
    convert(folder, other, goal=Goal("1.9", other, LEGACY))
    assert not (other / "mindport_plugin").exists()


@pytest.mark.parametrize("name", ["llama", "qwen3", "deepseek_v3"])
def test_mindformers_index_is_there_for_a_single_file_too(name: str, save: Save, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    convert(save(name), folder, goal=Goal("1.9", folder))
    index = json.loads((folder / "param_name_map.json").read_text())
    assert set(index) == set(safetensors.read_header(folder / "model.safetensors"))
    assert set(index.values()) == {"model.safetensors"}
    assert not (folder / "model.safetensors.index.json").exists()


def test_mindformers_index_names_every_shard(save: Save, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    done = convert(save("llama"), folder, Options(shard_bytes=4000), Goal("1.9", folder))
    assert len(done.files) > 1
    assert set(json.loads((folder / "param_name_map.json").read_text()).values()) == set(done.files)


OTHERS: list[tuple[str, tuple[str, dict[str, bool]], tuple[str, dict[str, bool]]]] = [
    ("llama", (LEGACY, {}), (LEGACY, {"qkv_concat": True})),
    ("llama", (LEGACY, {"qkv_concat": True}), (MCORE, {})),
    ("llama", (MCORE, {}), (LEGACY, {})),
    ("qwen3", (MCORE, {}), (MCORE, {"use_contiguous_weight_layout_attention": True})),
    ("qwen3_moe", (MCORE, {"use_contiguous_weight_layout_attention": True}), (MCORE, {})),
    ("deepseek_v3", (MCORE, {}), (MCORE, {"mla_qkv_concat": False})),
]


@pytest.mark.parametrize(("name", "first", "second"), OTHERS)
def test_from_one_layout_to_another(
    name: str, first: tuple[str, dict[str, bool]], second: tuple[str, dict[str, bool]], save: Save, tmp_path: Path
) -> None:
    """By way of another layout, or of the native network, it comes out as it does straight from the source."""
    source, straight = save(name), tmp_path / "straight"
    convert(source, straight, goal=Goal("1.9", straight, second[0], layout=second[1]))
    convert(source, tmp_path / "first", goal=Goal("1.9", tmp_path / "first", first[0], layout=first[1]))
    convert(source, tmp_path / "native")
    for way in ("first", "native"):
        there = tmp_path / f"by {way}"
        done = convert(tmp_path / way, there, goal=Goal("1.9", there, second[0], layout=second[1]))
        assert weights(there) == weights(straight), way
        assert done.config == read_native_config(straight), way
    convert(tmp_path / "first", tmp_path / "native again")
    assert weights(tmp_path / "native again") == weights(tmp_path / "native")
    assert weights(tmp_path / "first") != weights(straight)
    export(tmp_path / "by first", tmp_path / "back")
    assert weights(tmp_path / "back") == weights(source)


@pytest.mark.parametrize("name", ["qwen3", "qwen3_moe", "qwen2"])
def test_the_inference_graph(name: str, save: Save, tmp_path: Path) -> None:
    """Training layout -> inference layout -> Hugging Face; there is no YAML."""
    source, trained, folder = save(name), tmp_path / "trained", tmp_path / "out"
    generation = LEGACY if name == "qwen2" else MCORE
    convert(source, trained, goal=Goal("1.9", trained, generation))
    convert(trained, folder, goal=Goal("1.9", folder, inference=True))
    assert not list(folder.glob("*.yaml"))
    assert weights(folder) != weights(trained)
    export(folder, tmp_path / "back")
    assert weights(tmp_path / "back") == weights(source)


def test_a_yaml_of_somebody_else_and_weights_go_back(save: Save, tmp_path: Path) -> None:
    """Without Mindport's own files; the layout is what the YAML says."""
    source, folder = save("llama"), tmp_path / "out"
    convert(source, folder, goal=Goal("1.9", folder, LEGACY, layout={"qkv_concat": True}))
    text = (folder / "pretrain.yaml").read_text()
    path = tmp_path / "their.yaml"
    path.write_text("\n".join(line for line in text.splitlines() if not line.startswith("#")))
    from mindport.checkpoint.export import plan_export
    from mindport.config.native import NativeConfig

    reading = read_yaml(path)
    config = NativeConfig(reading.model, destination=reading.destination)
    planned = plan_export(path, weights=folder / "model.safetensors", config=config)
    from mindport.checkpoint.carry_out import carry_out

    carry_out(planned.ready(), tmp_path / "back", overwrite=False, resume=False, progress=lambda _: None)
    assert weights(tmp_path / "back") == weights(source)
    assert json.loads((tmp_path / "back" / "config.json").read_text())["vocab_size"] == 31


def test_weights_that_no_graph_takes_are_refused_before_anything_is_written(save: Save, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with pytest.raises(MindportError) as caught:
        convert(save("qwen3"), folder, goal=Goal("1.9", folder, LEGACY))
    assert "legacy" in caught.value.message
    assert "mcore (1.7 - 2.1)" in (caught.value.fix or "")
    assert not folder.exists()


@pytest.mark.parametrize(
    ("version", "changes", "words"),
    [
        ("1.9", {"graph": "nothing"}, "nothing"),
        ("1.9", {"generation": "pynative"}, "pynative"),
        ("1.9", {"generation": "other"}, "other"),
        ("1.9", {"layout": {"mla_qkv_concat": True}, "generation": LEGACY}, "mla_qkv_concat"),
        ("1.9", {"layout": {"mla_qkv_concat": False}, "generation": MCORE}, "mla_qkv_concat"),
        ("1.3", {"layout": {"qkv_concat": True}}, "qkv_concat"),
        ("1.9", {"inference": True}, "inference"),
        ("1.9", {"inference": True, "generation": LEGACY}, "are those of the mcore generation"),
        ("1.9", {"settings": RunSettings.from_mapping({"parallel": {"tensor": 7}})}, "num_attention_heads"),
    ],
)
def test_what_is_not_possible_is_refused(
    version: str, changes: dict[str, Any], words: str, save: Save, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    goal = Goal(version, folder, **changes)
    with pytest.raises(MindportError) as caught:
        convert(save("llama"), folder, Options(goal.weights_format(None)), goal)
    assert words in caught.value.message
    assert caught.value.fix
    assert not folder.exists()


def test_what_sequences_are_too_short_to_show_is_kept(save: Save, tmp_path: Path) -> None:
    """A window that no token can see beyond is not told to MindFormers, and is there again on the way back."""
    source, folder = save("mistral windowed"), tmp_path / "out"
    with pytest.raises(MindportError, match="window_size = 40") as caught:
        convert(source, folder, goal=Goal("1.9", folder))
    assert "at most 40 tokens" in (caught.value.fix or "")
    settings = RunSettings.from_mapping({"seq_length": 40})
    done = convert(source, folder, goal=Goal("1.9", folder, settings=settings))
    assert done.config.model.transformer.window_size == 40
    check_folder(source, folder)
    path = folder / "pretrain.yaml"
    assert "window" not in "".join(line for line in path.read_text().splitlines() if not line.startswith("#"))
    assert read_yaml(path).transformer == done.config.model.transformer
    path.write_text(path.read_text().replace("seq_length: 40", "seq_length: 41"))
    assert read_yaml(path).transformer.window_size is None
    export(folder, tmp_path / "back")
    assert json.loads((tmp_path / "back" / "config.json").read_text())["sliding_window"] == 40


def test_old_versions_get_a_ckpt() -> None:
    for name in VERSIONS:
        goal = Goal(name, Path("out"))
        old = name in ("1.0", "1.1", "1.2", "1.3")
        assert goal.weights_format(None) == ("ckpt" if old else "safetensors")
        if old:
            with pytest.raises(MindportError):
                goal.weights_format("safetensors")


def test_a_config_alone_gives_a_yaml_alone(save: Save, tmp_path: Path) -> None:
    source, folder = save("qwen3"), tmp_path / "out"
    done = convert(source / "config.json", folder, goal=Goal("1.9", folder, "pynative"))
    assert sorted(path.name for path in folder.iterdir()) == ["finetune.yaml", "ms_config.json", "pretrain.yaml"]
    assert read_native_config(folder) == done.config
    assert read_yaml(folder / "pretrain.yaml").transformer == done.config.model.transformer


def test_another_layout_said_of_the_same_weights_is_noticed(save: Save, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    convert(save("qwen3"), folder, goal=Goal("1.9", folder))
    path = folder / "ms_config.json"
    content = json.loads(path.read_text())
    content["target"]["layout"]["use_contiguous_weight_layout_attention"] = True
    path.write_text(json.dumps(content))
    with pytest.raises(MindportError, match="another layout"):
        export(folder, tmp_path / "back")
    with pytest.raises(MindportError, match="another layout"):
        convert(folder, tmp_path / "native")


def test_edited_yaml_files_are_no_damage(save: Save, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    convert(save("llama"), folder, goal=Goal("1.9", folder))
    path = folder / "pretrain.yaml"
    path.write_text(path.read_text().replace('dataset_dir: ""', 'dataset_dir: "/data"'))
    assert not Recheck(folder).run().problems


def test_the_vocabulary_is_changed_once(save: Save, tmp_path: Path) -> None:
    folder, goal = tmp_path / "out", Goal("1.9", tmp_path / "out")
    done = convert(save("llama"), folder, Options(vocab_size=40, vocab_rule="mean"), goal)
    assert read_yaml(folder / "pretrain.yaml").transformer.vocab_size == 40
    again = convert(folder, tmp_path / "native")
    assert again.config.vocab == done.config.vocab
    with pytest.raises(MindportError, match="vocabulary"):
        convert(folder, tmp_path / "more", Options(vocab_size=50, vocab_rule="mean"))
    export(tmp_path / "native", tmp_path / "back")
    assert weights(tmp_path / "back") == weights(tmp_path / "hf")
