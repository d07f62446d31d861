"""MindFormers itself takes what is emitted: its template, its configuration classes and its conversion."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
from mindspore import Tensor, dtype

from mindport.config.hf import ModelConfig, from_hf
from mindport.config.mindformers.choice import chosen_graph
from mindport.config.mindformers.emit import emit
from mindport.config.mindformers.settings import CPU, Data, Parallel, Recompute, RunSettings
from mindport.config.mindformers.upgrade import upgrade
from mindport.config.yaml_file import read_yaml
from mindport.targets.mindformers.graphs import Graph
from mindport.targets.mindformers.versions import LEGACY, MCORE, PYNATIVE, family_named, version_named

from ..config.mindformers.held import expected

pytestmark = pytest.mark.conformance

VERSION = "1.9"
ARTICLE = Path(__file__).parents[1] / "config" / "mindformers" / "old_article.yaml"
SIZES = {
    "vocab_size": 131,
    "hidden_size": 60,
    "intermediate_size": 88,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 77,
    "rms_norm_eps": 1e-6,
    "rope_theta": 5000.0,
    "initializer_range": 0.03,
    "attention_dropout": 0.13,
    "bos_token_id": 5,
    "eos_token_id": [6, 7],
    "pad_token_id": 4,
}
LATENTS = {
    "model_type": "deepseek_v3",
    "num_key_value_heads": 6,
    "moe_intermediate_size": 28,
    "n_routed_experts": 12,
    "n_shared_experts": 2,
    "num_experts_per_tok": 4,
    "n_group": 3,
    "topk_group": 2,
    "q_lora_rank": 36,
    "kv_lora_rank": 22,
    "qk_nope_head_dim": 10,
    "qk_rope_head_dim": 20,
    "v_head_dim": 14,
    "first_k_dense_replace": 1,
    "routed_scaling_factor": 1.7,
    "num_nextn_predict_layers": 0,
}
YARN = {
    "type": "yarn",
    "factor": 4.0,
    "mscale": 0.8,
    "mscale_all_dim": 0.8,
    "beta_fast": 16.0,
    "beta_slow": 2.0,
    "original_max_position_embeddings": 16,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
ROUTED = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 28, "router_aux_loss_coef": 0.07}

MODELS: dict[str, tuple[dict[str, Any], str, str | None]] = {
    "qwen3": ({"model_type": "qwen3", "head_dim": 24, "tie_word_embeddings": True}, MCORE, None),
    "qwen3_moe": ({"model_type": "qwen3_moe", "head_dim": 24, **ROUTED, "norm_topk_prob": True}, MCORE, None),
    "deepseek_v3": ({**LATENTS, "q_lora_rank": None}, MCORE, None),
    "deepseek_v3, yarn": ({**LATENTS, "rope_scaling": YARN, "num_nextn_predict_layers": 1}, MCORE, None),
    "deepseek_v3 as telechat3_moe": ({**LATENTS, "rope_scaling": YARN}, MCORE, "telechat3_moe"),
    "llama as telechat3": ({"model_type": "llama"}, MCORE, "telechat3"),
    "llama, plug-in": (
        {"model_type": "llama", "head_dim": 24, "rope_scaling": LLAMA3, "attention_bias": True},
        MCORE,
        None,
    ),
    "qwen2, plug-in": ({"model_type": "qwen2", "tie_word_embeddings": True}, MCORE, None),
    "mixtral, plug-in": ({"model_type": "mixtral", "num_local_experts": 6, "num_experts_per_tok": 2}, MCORE, None),
    "llama": ({"model_type": "llama", "attention_bias": True, "attention_dropout": 0.0}, LEGACY, None),
    "llama, llama3": ({"model_type": "llama", "rope_scaling": LLAMA3, "attention_dropout": 0.0}, LEGACY, None),
    "qwen2": ({"model_type": "qwen2", "tie_word_embeddings": True, "attention_dropout": 0.0}, LEGACY, None),
    "mistral": ({"model_type": "mistral", "sliding_window": None, "attention_dropout": 0.0}, LEGACY, None),
}
"""What it is -> (config, generation, graph)."""

each_model = pytest.mark.parametrize("what", MODELS)


def made(what: str) -> tuple[ModelConfig, Graph, str | None]:
    changes, generation, name = MODELS[what]
    model = from_hf({**SIZES, **changes})
    return model, chosen_graph(model, version_named(VERSION), generation, name), name


def written(what: str, folder: Path, settings: RunSettings | None = None) -> Path:
    model, graph, name = made(what)
    path = folder / "run.yaml"
    path.write_text(emit(model, VERSION, graph.generation, settings, name), encoding="utf-8")
    return path


def config_class(graph: Graph) -> Any:
    family = family_named(graph.name, graph.generation)
    assert family is not None
    if family.plugin:
        return getattr(importlib.import_module("mindport.plugin.mindport_graphs"), family.config_class)
    importlib.import_module("mindformers")
    loaded = (module for name, module in sys.modules.items() if name.startswith("mindformers.models."))
    return next(getattr(module, family.config_class) for module in loaded if hasattr(module, family.config_class))


@each_model
@pytest.mark.parametrize("plan", ["alone", "spread"])
def test_the_template_takes_every_section(what: str, plan: str, tmp_path: Path) -> None:
    """An unknown key in a strict section would raise KeyError."""
    register = importlib.import_module("mindformers.tools.register")
    settings = RunSettings(device=CPU)
    if plan == "spread":
        spread = Parallel(data=2, tensor=1, pipeline=2, micro_batches=4, optimizer_shard_size=2)
        settings = RunSettings(parallel=spread, data=Data("megatron", "/data/x"), seq_length=32)
    config = register.MindFormerConfig(str(written(what, tmp_path, settings)))
    assert config.runner_config.batch_size == settings.batch_size
    assert config.optimizer.eps == 1e-8
    assert isinstance(config.lr_schedule.learning_rate, float)


@each_model
def test_mindformers_holds_the_model_that_was_meant(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration that MindFormers makes of the YAML, field by field against the canonical one."""
    model, graph, _ = made(what)
    register = importlib.import_module("mindformers.tools.register")
    section = dict(register.MindFormerConfig(str(written(what, tmp_path))).model.model_config)
    section.pop("type", None)
    registered = section.pop("auto_register", None)
    warned: list[str] = []
    handler = importlib.import_module("mindformers.parallel_core.transformer_config_utils").ConfigLogHandler
    monkeypatch.setattr(handler, "add_warning", lambda self, category, message: warned.append(message))
    theirs = config_class(graph)(**section)
    if registered:
        assert theirs.rope_scaling == model.transformer.rope_scaling
        assert theirs.add_attention_output_bias == model.transformer.add_attention_output_bias
    if graph.generation == MCORE:
        theirs = theirs.convert_to_transformer_config()
    assert not [message for message in warned if not _of_the_class(graph, message)]
    compared = 0
    for key in graph.keys:
        if registered and key.field in ("rope_scaling", "add_attention_output_bias"):
            compared += 1  # which the plug-in keeps to itself
            continue
        for name, value in expected(key.field, model.transformer, graph, version_named(VERSION)).items():
            assert getattr(theirs, name) == value, (key.field, name)
            compared += 1
    assert compared >= len(graph.keys) - 2  # those of tokens may leave nothing to compare
    for key, value in graph.written_in(version_named(VERSION)).items():
        assert getattr(theirs, key, value) == value, key


UNMAPPED = {"telechat3": {"num_nextn_predict_layers"}, "telechat3_moe": {"qk_nope_head_dim", "qk_rope_head_dim"}}
"""Keys that a class has by itself, and no rule for: of the first the value is 0, the others are given otherwise."""


def _of_the_class(graph: Graph, message: str) -> bool:
    _, _, keys = message.partition("following keys:{")
    named = {key.strip(" '") for key in keys.partition("}")[0].split(",")}
    return named == UNMAPPED.get(graph.name)


@pytest.mark.parametrize("what", ["qwen3", "deepseek_v3"])
@pytest.mark.parametrize("plan", ["alone", "spread"])
def test_the_pynative_schema_takes_every_section(what: str, plan: str, tmp_path: Path) -> None:
    """Its dataclasses refuse unknown keys and wrong types."""
    schema = importlib.import_module("mindformers.pynative.config.config")
    settings = RunSettings()
    if plan == "spread":
        spread = Parallel(data=4, pipeline=2, micro_batches=2)
        settings = RunSettings(parallel=spread, data=Data("megatron", "/data/x"), recompute=Recompute(full=True))
    path = tmp_path / "run.yaml"
    path.write_text(emit(made(what)[0], VERSION, PYNATIVE, settings), encoding="utf-8")
    config = schema.TrainConfig.load_from_yaml(str(path))
    assert config.training.global_batch_size == settings.batch_size * spread_over(settings)
    assert config.model.num_hidden_layers == SIZES["num_hidden_layers"]


def spread_over(settings: RunSettings) -> int:
    return settings.parallel.data * settings.parallel.micro_batches


def test_a_key_out_of_place_would_be_refused(tmp_path: Path) -> None:
    """That the template refuses at all."""
    register = importlib.import_module("mindformers.tools.register")
    path = written("qwen3", tmp_path)
    path.write_text(path.read_text().replace("  sink_size: 1", "  sink_size: 1\n  learning_rate: 1.e-3"))
    with pytest.raises(KeyError, match="learning_rate"):
        register.MindFormerConfig(str(path))


def test_an_old_article_is_refused_before_its_upgrade_and_taken_after_it(tmp_path: Path) -> None:
    """By the template, and by the classes of what it moved: optimizer, schedule, wrapper, callbacks."""
    register = importlib.import_module("mindformers.tools.register")
    with pytest.raises(KeyError, match="unexpected key"):
        register.MindFormerConfig(str(ARTICLE))
    path = tmp_path / "new.yaml"
    path.write_text(upgrade(read_yaml(ARTICLE), version_named(VERSION)).text, encoding="utf-8")
    config = register.MindFormerConfig(str(path))
    assert config.optimizer == {"type": "AdamW", "betas": [0.9, 0.95], "weight_decay": 0.1, "eps": 1e-8}
    assert config.recompute_config.recompute is True
    assert config.parallel.full_batch is True
    assert config.runner_wrapper.max_grad_norm == 1.0
    core, callback = importlib.import_module("mindformers.core"), importlib.import_module("mindformers.core.callback")
    config.lr_schedule.total_steps = 100
    rate = core.build_lr(config.lr_schedule)
    assert max(float(rate(Tensor(step, dtype.int32)).asnumpy()) for step in range(7)) == pytest.approx(1e-5)
    names = [one["type"] for one in config.callbacks]
    assert names == ["MFLossMonitor", "CheckpointMonitor", "SummaryMonitor"]
    kinds = register.MindFormerModuleType
    assert all(register.MindFormerRegister.get_cls(kinds.CALLBACK, name) for name in names)
    assert callback.build_callback(config.callbacks[1])


def test_without_hidden_dropout_mindformers_would_drop(tmp_path: Path) -> None:
    """What the emitter writes it for: the loss is real."""
    register = importlib.import_module("mindformers.tools.register")
    section = dict(register.MindFormerConfig(str(written("qwen3", tmp_path))).model.model_config)
    del section["hidden_dropout"]
    _, graph, _ = made("qwen3")
    assert config_class(graph)(**section).convert_to_transformer_config().hidden_dropout == 0.1


@each_model
def test_the_strict_conversion_takes_every_key(what: str, tmp_path: Path) -> None:
    """It is what all versions before 1.9 have, and what qwen3's training goes through in 1.9: a key too much raises."""
    _, graph, _ = made(what)
    family = family_named(graph.name, graph.generation)
    assert family is not None
    if graph.generation == LEGACY or family.trained_since == VERSION:
        pytest.skip("not converted, or not known before 1.9")
    register = importlib.import_module("mindformers.tools.register")
    utils = importlib.import_module("mindformers.parallel_core.transformer_config_utils")
    section = dict(register.MindFormerConfig(str(written(what, tmp_path))).model.model_config)
    utils.ERROR_LOG.clear()
    mapped = utils.convert_to_transformer_config(config_class(graph)(**section), is_mla_model=graph.latent)
    assert mapped.num_layers == SIZES["num_hidden_layers"]
