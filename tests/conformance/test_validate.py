"""The rules of `validate` against what they speak of: MindFormers' own checks, template and registry."""

from __future__ import annotations

import importlib
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindport.config.mindformers.judge import Case
from mindport.config.mindformers.known import components, in_span, section_keys, strict_sections, table
from mindport.config.mindformers.plan import plan_of
from mindport.config.mindformers.plan_rules import check_plan
from mindport.config.mindformers.value_rules import dropouts, dtypes, structure
from mindport.config.mindformers.yaml_case import YamlCase
from mindport.config.yaml_file import Node, YamlFile
from mindport.targets.mindformers import VERSIONS
from mindport.targets.mindformers.versions import LATEST_EXECUTED, MCORE

pytestmark = pytest.mark.conformance

HERE = VERSIONS[LATEST_EXECUTED]
"""The version that is installed."""


def codes(content: dict[str, Any]) -> set[str]:
    """Errors in a plan, as one of mcore."""
    return {f.code for f in check_plan(Case(plan_of(content), HERE, MCORE)) if f.level == "error"}


def refuses(check: Any, *arguments: Any) -> bool:
    """Whether MindFormers raises."""
    try:
        check(*arguments)
    except (ValueError, AssertionError, TypeError, KeyError, RuntimeError):
        return True
    return False


# --- the template -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def template() -> Any:
    return importlib.import_module("mindformers.tools.register.template")


@pytest.mark.parametrize("section", [*strict_sections(), "general_config"])
def test_keys_are_those_of_the_template(section: str, template: Any) -> None:
    spans = section_keys(section)
    assert spans is not None
    assert {key for key, span in spans.items() if in_span(HERE, span)} == set(
        template.CONFIG_NAME_TO_CLASS[section].keys()
    )


@pytest.mark.parametrize("section", strict_sections())
def test_strict_sections_take_no_other_keys(section: str, template: Any) -> None:
    assert refuses(template.CONFIG_NAME_TO_CLASS[section].apply, {"mystery": 1})


def test_other_sections_take_any_key(template: Any) -> None:
    free = set(template.CONFIG_NAME_TO_CLASS) - set(strict_sections()) - {"general_config"}
    for section in free - {"callbacks", "eval_callbacks"}:
        config = {"type": "x", "model_config": {}, "mystery": 1}
        assert not refuses(template.CONFIG_NAME_TO_CLASS[section].apply, config), section


# --- the registry -----------------------------------------------------------------------------------------------------

KINDS = {
    "optimizer": "OPTIMIZER",
    "lr_schedule": "LR",
    "runner_wrapper": "WRAPPER",
    "callbacks": "CALLBACK",
    "train_dataset_task": "DATASET",
    "data_loader": "DATASET_LOADER",
    "metric": "METRIC",
    "trainer": "TRAINER",
}


@pytest.mark.parametrize("kind", KINDS)
def test_classes_are_those_that_are_registered(kind: str) -> None:
    importlib.import_module("mindformers")
    register = importlib.import_module("mindformers.tools.register")
    module_type = getattr(register.MindFormerModuleType, KINDS[kind])
    wrong = {
        name: span
        for name, span in components(kind).items()
        if register.MindFormerRegister.is_exist(module_type, name) != in_span(HERE, span)
    }
    assert not wrong


# --- TransformerConfig ------------------------------------------------------------------------------------------------

CONFIGS = ("TransformerConfig", "MLATransformerConfig")


def test_fields_are_those_of_the_configuration() -> None:
    module = importlib.import_module("mindformers.parallel_core.transformer_config")
    names = {name for config in CONFIGS for name in getattr(module, config).__dataclass_fields__}
    mapped = set(vars(importlib.import_module("mindformers.parallel_core.transformer_config_utils")))
    for name, span in table("mcore_fields").items():
        if in_span(HERE, span):
            assert name in names | mapped, name


MODEL = {"num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 4}

DEGREES = list(itertools.product((1, 2, 3, 4), (True, False)))


@pytest.mark.parametrize(("tp", "sequence"), DEGREES)
def test_tensor_and_sequence_parallelism(tp: int, sequence: bool) -> None:
    module = importlib.import_module("mindformers.parallel_core.transformer_config")
    ours = codes(
        {"model": {"model_config": MODEL}, "parallel_config": {"model_parallel": tp, "use_seq_parallel": sequence}}
    )
    theirs = refuses(
        lambda: module.TransformerConfig(
            num_layers=4,
            hidden_size=64,
            num_attention_heads=8,
            num_query_groups=4,
            tensor_model_parallel_size=tp,
            sequence_parallel=sequence,
            attention_dropout=0.0,
            hidden_dropout=0.0,
        )
    )
    assert bool(ours & {"heads-tp", "sp-without-tp"}) == theirs


@pytest.mark.parametrize("flash", [True, False])
@pytest.mark.parametrize("cp", [1, 2])
def test_context_parallelism(flash: bool, cp: int) -> None:
    module = importlib.import_module("mindformers.parallel_core.transformer_config")
    ours = codes(
        {
            "model": {"model_config": {**MODEL, "use_flash_attention": flash}},
            "parallel_config": {"context_parallel": cp},
        }
    )
    theirs = refuses(
        lambda: module.TransformerConfig(
            num_layers=4, hidden_size=64, num_attention_heads=8, use_flash_attention=flash, context_parallel_size=cp
        )
    )
    assert ("cp-flash-attention" in ours) == theirs


VALUES: list[tuple[dict[str, Any], bool]] = [
    ({}, False),
    ({"hidden_dropout": 0}, False),
    ({"attention_dropout": 1.0}, False),
    ({"hidden_dropout": 0.0}, False),
    ({"mtp_num_layers": 2}, False),
    ({"mtp_num_layers": 1}, False),
    ({"position_embedding_type": "llama3"}, False),
    ({"position_embedding_type": "partial_rope"}, False),
    ({"bias_swiglu_fusion": True}, False),
    ({"bias_swiglu_fusion": True, "hidden_act": "swiglu"}, False),
    ({"apply_rope_fusion": True}, False),
    ({"apply_rope_fusion": True}, True),
    ({"rotary_interleaved": True}, False),
    ({"rotary_interleaved": True}, True),
    ({"use_attn_mask_compression": True, "use_flash_attention": False}, False),
    ({"num_moe_experts": 8, "add_bias_linear": True}, False),
    ({"num_moe_experts": 8, "add_bias_linear": False}, False),
    ({"num_moe_experts": 8, "add_bias_linear": False, "moe_router_num_groups": 3, "moe_router_group_topk": 1}, False),
    ({"num_moe_experts": 8, "add_bias_linear": False, "moe_router_num_groups": 2, "moe_router_group_topk": 4}, False),
    (
        {
            "num_moe_experts": 8,
            "add_bias_linear": False,
            "moe_router_topk": 3,
            "moe_router_num_groups": 4,
            "moe_router_group_topk": 2,
        },
        False,
    ),
    ({"num_moe_experts": 8, "add_bias_linear": False, "first_k_dense_replace": 1, "moe_layer_freq": 2}, False),
    ({"num_moe_experts": 8, "add_bias_linear": False, "first_k_dense_replace": 1, "moe_layer_freq": 1}, False),
    ({"params_dtype": "float33"}, False),
]
"""Values of the configuration, and whether attention is latent."""


@pytest.mark.parametrize(("values", "latent"), VALUES, ids=[str(number) for number in range(len(VALUES))])
def test_values_of_the_configuration(values: dict[str, Any], latent: bool) -> None:
    module = importlib.import_module("mindformers.parallel_core.transformer_config")
    made = module.MLATransformerConfig if latent else module.TransformerConfig
    sizes = {"num_layers": 4, "hidden_size": 64, "num_attention_heads": 8}
    model = {**sizes, "multi_latent_attention": latent, **values}
    file = YamlFile(
        Path("run.yaml"), "", Node("map", [], 0, 0, 1), {"use_legacy": False, "model": {"model_config": model}}
    )
    case = YamlCase(file, HERE, MCORE)
    ours = [finding for rule in (structure, dropouts, dtypes) for finding in rule(case)]
    assert bool(ours) == refuses(lambda: made(**sizes, **values))


# --- layers and stages ------------------------------------------------------------------------------------------------


def layer_setting_refuses(layers: int, stages: int, parts: int, offset: Any) -> bool:
    utils = importlib.import_module("mindformers.parallel_core.training_graph.transformer.utils")
    setting = utils.LayerSetting.__new__(utils.LayerSetting)
    setting.num_layers, setting.pp, setting.pp_interleave_num = layers, stages, parts
    setting.offset = np.array(offset, np.int32)
    return refuses(setting._check_inputs)


def test_offsets() -> None:
    """Random offsets: those that MindFormers refuses, and no others."""
    random = np.random.default_rng(0)
    refused = 0
    for _ in range(3000):
        stages, parts = int(random.integers(1, 5)), int(random.integers(1, 3))
        layers = int(random.integers(stages * parts, 24))
        form = random.integers(0, 4)
        extra = layers % (stages * parts)
        shape = {0: (), 1: (stages,), 2: (parts, stages), 3: (stages + 1,)}[int(form)]
        values = random.integers(-2, 3, shape)
        if shape and random.integers(0, 2):  # most random sums are wrong
            values.flat[0] += extra - values.sum()
        offset = values.tolist()
        content = {
            "model": {"model_config": {"num_hidden_layers": layers, "offset": offset, "pp_interleave_num": parts}},
            "parallel_config": {"pipeline_stage": stages, "micro_batch_num": 64},
            "parallel": {"pipeline_config": {"pipeline_interleave": True}},
        }
        ours = {code for code in codes(content) if code.startswith("offset")}
        theirs = layer_setting_refuses(layers, stages, parts, offset)
        if bool(ours) != theirs:
            pytest.fail(
                f"{layers} layers, {stages} * {parts}, offset {offset}: {ours or 'nothing'}, MindFormers {theirs}"
            )
        refused += theirs
    assert 500 < refused < 2500
