"""MindFormers' mcore training graphs compute, with the weights we write, what transformers computes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mindport.targets.mindformers import MCORE, Family, McoreLayout, family_named, refusals, target, version_named

from .models import Case, note, token_ids

if TYPE_CHECKING:
    from mindport.verify.mindformers.graphs import Graph

pytestmark = pytest.mark.conformance

VERSION = version_named("1.9")
LENGTH = 13
LOGITS, STEP = 1e-5, 1e-4

INTERLEAVED = McoreLayout()
CONTIGUOUS = McoreLayout(True, False)
ATTENTION_ONLY = McoreLayout(True, True)
MLP_ONLY = McoreLayout(False, False)
SEPARATE = McoreLayout(mla_qkv_concat=False)
SEPARATE_CONTIGUOUS = McoreLayout(False, False, False)

RUN: dict[str, Any] = {
    "seq_length": LENGTH,
    "compute_dtype": "float32",
    "params_dtype": "float32",
    "hidden_dropout": 0.0,
    "pad_token_id": 0,
}

DENSE: dict[str, Any] = {
    "vocab_size": 131,
    "hidden_size": 48,
    "intermediate_size": 56,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 10,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "rope_theta": 54321.0,
    "tie_word_embeddings": False,
}

EXPERTS: dict[str, Any] = {
    **DENSE,
    "moe_intermediate_size": 20,
    "num_experts": 7,
    "num_experts_per_tok": 3,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "router_aux_loss_coef": 0.0,  # transformers adds it with output_router_logits alone, MindFormers always
}

SHARED: dict[str, Any] = {**DENSE, "tie_word_embeddings": True}
MIXTRAL: dict[str, Any] = {
    **DENSE,
    "num_local_experts": 7,
    "num_experts_per_tok": 3,
    "sliding_window": None,
    "router_aux_loss_coef": 0.0,  # likewise
}

SCALINGS: dict[str, dict[str, Any]] = {
    "linear": {"rope_type": "linear", "factor": 3.0},
    # With these, some pairs of a head turn as they are, some more slowly, and some in between.
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 128,
    },
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
    "yarn in full": {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 24,
        "mscale": 1.4,
        "mscale_all_dim": 0.6,
        "beta_fast": 3.0,
        "beta_slow": 0.5,
        "truncate": False,
    },
    "yarn with a factor": {
        "type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 16,
        "attention_factor": 1.25,
    },
}
"""RoPE scalings of heads of 10 channels."""

ROUTED: dict[str, Any] = {"moe_grouped_gemm": True, "moe_router_topk_scaling_factor": 1.0}

LATENT: dict[str, Any] = {
    "vocab_size": 131,
    "hidden_size": 48,
    "intermediate_size": 56,
    "moe_intermediate_size": 20,
    "n_routed_experts": 12,
    "n_shared_experts": 2,
    "num_experts_per_tok": 4,
    "n_group": 3,
    "topk_group": 2,
    "first_k_dense_replace": 1,
    "norm_topk_prob": True,
    "routed_scaling_factor": 2.5,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "q_lora_rank": 22,
    "kv_lora_rank": 18,
    "qk_rope_head_dim": 6,
    "qk_nope_head_dim": 11,
    "v_head_dim": 9,
    "max_position_embeddings": 64,
    "rope_theta": 54321.0,
    "tie_word_embeddings": False,
}

YARN: dict[str, Any] = {
    "type": "yarn",
    "factor": 4.0,
    "mscale": 0.7,
    "mscale_all_dim": 0.7,
    "original_max_position_embeddings": 16,
    "beta_fast": 32,
    "beta_slow": 1,
}

UNSCALED: dict[str, Any] = {"rotary_scaling_factor": 1.0}
GROUPED: dict[str, Any] = {"moe_grouped_gemm": True, "qk_layernorm": True, "num_nextn_predict_layers": 0}
ONE_GROUP: dict[str, Any] = {**LATENT, "n_group": 1, "topk_group": 1}


@dataclass(frozen=True)
class Graphs:
    """One model in one graph.

    Args:
        family: of MindFormers.
        hf: class of transformers' config, and its values, which are MindFormers' too.
        layouts: to be held against transformers; the first is trained too, if `trained`.
        wrong: layouts with the same names and shapes, which must not pass in the first.
        more: keys for MindFormers where nothing is emitted, as the model is refused.
    """

    family: str
    hf: str
    values: dict[str, Any]
    layouts: tuple[McoreLayout, ...]
    wrong: tuple[McoreLayout, ...] = ()
    trained: bool = True
    more: dict[str, Any] = field(default_factory=dict)


CASES: dict[str, Graphs] = {
    "qwen3": Graphs(
        "qwen3",
        "Qwen3Config",
        DENSE,
        (INTERLEAVED, CONTIGUOUS, ATTENTION_ONLY, MLP_ONLY),
        (CONTIGUOUS, ATTENTION_ONLY, MLP_ONLY),
    ),
    "qwen3 tied": Graphs("qwen3", "Qwen3Config", {**DENSE, "tie_word_embeddings": True}, (INTERLEAVED,)),
    "qwen3_moe": Graphs("qwen3_moe", "Qwen3MoeConfig", EXPERTS, (INTERLEAVED, CONTIGUOUS), (ATTENTION_ONLY,)),
    "qwen3_moe unnormed": Graphs(
        "qwen3_moe", "Qwen3MoeConfig", {**EXPERTS, "norm_topk_prob": False}, (CONTIGUOUS,), trained=False
    ),
    "deepseek_v3": Graphs(
        "deepseek_v3",
        "DeepseekV3Config",
        LATENT,
        (INTERLEAVED, SEPARATE_CONTIGUOUS, SEPARATE),
        (MLP_ONLY,),
    ),
    "deepseek_v3 yarn": Graphs(
        "deepseek_v3", "DeepseekV3Config", {**LATENT, "rope_scaling": YARN}, (MLP_ONLY,), (INTERLEAVED,), trained=False
    ),
    "deepseek_v3 no query latent": Graphs(
        "deepseek_v3",
        "DeepseekV3Config",
        {**LATENT, "q_lora_rank": None},
        (INTERLEAVED, SEPARATE),
        trained=False,
    ),
    "llama": Graphs(
        "llama",
        "LlamaConfig",
        DENSE,
        (INTERLEAVED, CONTIGUOUS, ATTENTION_ONLY, MLP_ONLY),
        (CONTIGUOUS, ATTENTION_ONLY, MLP_ONLY),
    ),
    "llama, tied": Graphs("llama", "LlamaConfig", SHARED, (INTERLEAVED,)),
    "llama, all biases": Graphs(
        "llama",
        "LlamaConfig",
        {**DENSE, "attention_bias": True},
        (INTERLEAVED, CONTIGUOUS),
        (ATTENTION_ONLY,),
    ),
    **{
        f"llama, {name}": Graphs(
            "llama",
            "LlamaConfig",
            {**DENSE, "rope_scaling": scaling},
            (INTERLEAVED,),
            trained=name in ("llama3", "yarn in full"),
        )
        for name, scaling in SCALINGS.items()
    },
    "mistral": Graphs(
        "mistral", "MistralConfig", {**DENSE, "sliding_window": None}, (INTERLEAVED, CONTIGUOUS), (ATTENTION_ONLY,)
    ),
    "qwen2": Graphs(
        "qwen2",
        "Qwen2Config",
        {**DENSE, "head_dim": 8},
        (INTERLEAVED, CONTIGUOUS),
        (ATTENTION_ONLY, MLP_ONLY),
    ),
    "qwen2, tied, yarn": Graphs(
        "qwen2",
        "Qwen2Config",
        {**SHARED, "head_dim": 8, "rope_scaling": SCALINGS["yarn"]},
        (CONTIGUOUS,),
        trained=False,
    ),
    "mixtral": Graphs("mixtral", "MixtralConfig", MIXTRAL, (INTERLEAVED, CONTIGUOUS), (ATTENTION_ONLY,)),
    "telechat3 (Llama)": Graphs(
        "telechat3", "LlamaConfig", DENSE, (INTERLEAVED, CONTIGUOUS), (CONTIGUOUS, ATTENTION_ONLY, MLP_ONLY)
    ),
    "telechat3 (Qwen2, with biases)": Graphs(
        "telechat3",
        "Qwen2Config",
        {**DENSE, "head_dim": 8},
        (INTERLEAVED, CONTIGUOUS),
        (ATTENTION_ONLY,),
    ),
    "telechat3_moe (DeepSeek-V3)": Graphs(
        "telechat3_moe",
        "DeepseekV3Config",
        ONE_GROUP,
        (INTERLEAVED, SEPARATE_CONTIGUOUS),
        (MLP_ONLY,),
    ),
}


def named(layout: McoreLayout, *, latent: bool) -> str:
    """The settings that matter."""
    attention = "mla_qkv_concat" if latent else "use_contiguous_weight_layout_attention"
    matter = (attention, "use_interleaved_weight_layout_mlp")
    return ", ".join(f"{name}={layout.settings()[name]}" for name in matter)


def family_of(graphs: Graphs) -> Family:
    family = family_named(graphs.family, MCORE)
    assert family is not None
    return family


def values_of(graphs: Graphs) -> dict[str, Any]:
    """The values, with a RoPE scaling that may be taken apart."""
    scaling = graphs.values.get("rope_scaling")
    return {**graphs.values, "rope_scaling": dict(scaling) if scaling else None}


def case_of(graphs: Graphs, folder: Path) -> Case:
    import transformers

    return Case.of(folder / "hf", getattr(transformers, graphs.hf)(**values_of(graphs)))


def graph_of(graphs: Graphs, case: Case, layout: McoreLayout) -> Graph:
    """As the YAML that we emit says it."""
    from mindport.verify.mindformers.graphs import build

    return build(family_of(graphs), case.settings(graphs.family, MCORE, layout, LENGTH))


def graph_by_keys(graphs: Graphs) -> Graph:
    """By the keys of the Hugging Face config alone, as where we emit nothing."""
    from mindport.verify.mindformers.graphs import build

    return build(family_of(graphs), {**values_of(graphs), **RUN, **graphs.more, **INTERLEAVED.settings()})


@pytest.mark.parametrize("name", CASES)
def test_the_training_graph_computes_what_transformers_computes(name: str, tmp_path: Path) -> None:
    graphs = CASES[name]
    case = case_of(graphs, tmp_path)
    assert refusals(case.config, family_of(graphs), VERSION) == []
    ids = token_ids(131, LENGTH + 1)
    wanted = case.logits(ids[:, :-1])
    latent = case.config.multi_latent_attention
    for layout in graphs.layouts:
        graph = graph_of(graphs, case, layout)
        graph.load(case.in_layout(target(VERSION, layout)))
        assert all(before.tobytes() == after.tobytes() for _, before, after in case.back(target(VERSION, layout)))
        difference = abs(graph.logits(ids[:, :-1]) - wanted).max()
        assert note(f"{name}: logits, {named(layout, latent=latent)}", difference) <= LOGITS
        if layout != graphs.layouts[0]:
            continue
        for wrong in graphs.wrong:
            graph.load(case.in_layout(target(VERSION, wrong)))
            assert abs(graph.logits(ids[:, :-1]) - wanted).max() > 100 * LOGITS, named(wrong, latent=latent)
        if graphs.trained:
            graph.load(case.in_layout(target(VERSION, layout)))
            loss, norm = case.first_step(ids)
            step = graph.step(ids)
            assert note(f"{name}: loss of the first step", abs(step.loss - loss)) <= STEP
            assert note(f"{name}: gradient norm of the first step", abs(step.gradient_norm - norm)) <= STEP


ALONE: dict[str, Any] = {**GROUPED, **UNSCALED}

REFUSED: dict[str, Graphs] = {
    "a single expert": Graphs(
        "qwen3_moe",
        "Qwen3MoeConfig",
        {**EXPERTS, "num_experts_per_tok": 1},
        (INTERLEAVED,),
        more={**ROUTED, "moe_router_pre_softmax": True},
    ),
    "another epsilon": Graphs(
        "deepseek_v3", "DeepseekV3Config", {**LATENT, "rms_norm_eps": 1e-2}, (INTERLEAVED,), more=ALONE
    ),
    "RoPE by halves": Graphs(
        "deepseek_v3", "DeepseekV3Config", {**LATENT, "rope_interleave": False}, (INTERLEAVED,), more=ALONE
    ),
    "groups ranked otherwise": Graphs(
        "deepseek_v3", "DeepseekV3Config", {**LATENT, "topk_group": 1}, (INTERLEAVED,), more=ALONE
    ),
    "two scales of YaRN": Graphs(
        "deepseek_v3",
        "DeepseekV3Config",
        {**LATENT, "rope_scaling": {**YARN, "mscale": 1.0}},
        (INTERLEAVED,),
        more=GROUPED,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_would_compute_something_else(name: str, tmp_path: Path) -> None:
    graphs = REFUSED[name]
    case = case_of(graphs, tmp_path)
    assert len(refusals(case.config, family_of(graphs), VERSION)) == 1
    ids = token_ids(131, LENGTH)
    graph = graph_by_keys(graphs)
    graph.load(case.in_layout(target(VERSION, INTERLEAVED)))
    assert abs(graph.logits(ids) - case.logits(ids)).max() > 100 * LOGITS
