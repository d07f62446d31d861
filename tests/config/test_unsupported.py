"""Models that are not declared: each is told what it is, and which family comes nearest."""

from __future__ import annotations

from typing import Any

import pytest

from mindport.architectures import families, model_types
from mindport.architectures.families import verdict
from mindport.config.hf import from_hf
from mindport.config.unsupported import UnsupportedModel

TABLE = families._table()
ENTRIES = [*TABLE["model_types"], *TABLE["hints"]]
PLANNED = {
    *("deepseek_v3", "gpt_oss", "falcon", "stablelm", "albert", "deberta-v2", "modernbert", "phi3"),
    *("qwen3_moe", "mixtral"),
}
"""Families that the table may name before their declaration is there."""


def refused(hf: dict[str, Any]) -> UnsupportedModel:
    with pytest.raises(UnsupportedModel) as error:
        from_hf(hf)
    return error.value


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["reason"][:40])
def test_every_nearest_family_exists_or_is_planned(entry: dict[str, Any]) -> None:
    assert set(entry["nearest"]) <= {*model_types(), *PLANNED}
    assert not entry["nearest"] or set(entry["nearest"]) & set(model_types())


def test_the_table_lists_each_name_once_and_none_that_is_planned() -> None:
    names = [name for family in TABLE["model_types"] for name in family["names"]]
    assert len(names) == len(set(names))
    assert not set(names) & {*model_types(), *PLANNED}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["reason"][:40])
def test_reasons_are_clauses(entry: dict[str, Any]) -> None:
    assert not entry["reason"].endswith(".")
    assert entry["reason"][0].islower() or entry["reason"].startswith(("RoPE", "CLIP"))
    assert set(entry) <= {"reason", "nearest", "names", "same", "all", "any", "contains"}


@pytest.mark.parametrize("name", [name for family in TABLE["model_types"] for name in family["names"]])
def test_listed_names_are_refused_with_their_reason(name: str) -> None:
    error = refused({"model_type": name})
    assert error.message == f"model_type '{name}' is not supported: {error.reason}."
    assert error.nearest in model_types()
    assert error.nearest in error.fix


@pytest.mark.parametrize(
    ("keys", "reason", "nearest"),
    [
        ({"_diffusers_version": "0.30"}, "it is part of a diffusion pipeline", []),
        ({"is_encoder_decoder": True, "rms_norm_eps": 1e-6}, "it is an encoder-decoder model", ["bert"]),
        ({"is_encoder_decoder": False, "rms_norm_eps": 1e-6}, "its keys are like those of Llama", ["llama"]),
        ({"state_size": 128, "rms_norm": True}, "it has linear attention or state-space layers", ["llama"]),
        (
            {"layer_types": ["full_attention", "linear_attention"], "rms_norm_eps": 1e-6},
            "it has linear attention or state-space layers",
            ["llama"],
        ),
        ({"layer_types": ["full_attention"], "rms_norm_eps": 1e-6}, "its keys are like those of Llama", ["llama"]),
        ({"vision_config": {"a": 1}, "vocab_size": 8, "rms_norm_eps": 1e-6}, "it takes images or sound, and its", None),
        ({"patch_size": 16, "hidden_size": 8}, "it is a vision or audio model", ["bert"]),
        ({"num_mel_bins": 80, "hidden_size": 8}, "it is a vision or audio model", ["bert"]),
        ({"relative_attention": True, "type_vocab_size": 0}, "its attention has relative", ["deberta-v2", "bert"]),
        ({"kv_lora_rank": 512, "n_routed_experts": 8}, "it has latent attention (MLA)", ["deepseek_v3", "llama"]),
        ({"num_local_experts": 8, "rms_norm_eps": 1e-6}, "it has experts (MoE)", ["qwen3_moe", "mixtral", "llama"]),
        ({"num_experts": None, "rms_norm_eps": 1e-6}, "its keys are like those of Llama", ["llama"]),
        ({"embedding_size": 128, "type_vocab_size": 2}, "its embeddings are narrower", ["albert", "bert"]),
        ({"type_vocab_size": 2, "layer_norm_eps": 1e-12}, "its keys are like those of BERT", ["bert"]),
        ({"alibi": True, "n_head": 2}, "its positions are linear biases (ALiBi)", ["falcon", "gpt2"]),
        ({"rms_norm_eps": 1e-6, "num_key_value_heads": 2}, "its keys are like those of Llama", ["llama"]),
        ({"n_embd": 8, "n_layer": 2}, "its keys are like those of GPT-2", ["gpt2"]),
        ({"hidden_size": 8}, "its keys do not say what kind of Transformer it is", ["llama"]),
        ({}, "it has none of the keys of a Transformer's config", []),
        ({"architectures": ["DemoModel"]}, "it has none of the keys of a Transformer's config", []),
    ],
)
@pytest.mark.parametrize("name", [None, "zzz"])
def test_keys_are_the_hint(name: str | None, keys: dict[str, Any], reason: str, nearest: list[str] | None) -> None:
    error = refused(keys if name is None else {"model_type": name, **keys})
    assert error.reason.startswith(reason)
    assert error.reason in error.message
    if nearest is not None:
        wanted = next((family for family in nearest if family in model_types()), None)
        assert error.nearest == wanted
    assert error.fix
    start = "The config names no model_type; " if name is None else "model_type 'zzz' is not known; "
    assert error.message.startswith(start)


def test_a_name_that_is_alike_is_preferred_among_what_the_keys_allow() -> None:
    llama_like = {"rms_norm_eps": 1e-6}
    assert refused({"model_type": "qwen3_custom", **llama_like}).nearest == "qwen3"
    assert refused({"model_type": "mistral7", **llama_like}).nearest == "mistral"
    assert refused({"model_type": "zzz", **llama_like}).nearest == "llama"


def test_code_from_the_model_folder_is_said_to_be_never_run() -> None:
    error = refused({"model_type": "zzz", "auto_map": {"AutoConfig": "c.C"}, "rms_norm_eps": 1e-6})
    assert error.message == (
        "model_type 'zzz' is not known, and the code in its folder is never run; its keys are like those of Llama."
    )


def test_another_name_of_a_declared_family_is_refused_with_the_edit_that_helps() -> None:
    """transformers does not know the name either, so nothing could be compared with it."""
    hf = {"model_type": "gpt2-ja", "architectures": ["GPT2LMHeadModel"], "n_embd": 64, "n_head": 4}
    assert refused(hf).fix == 'Set "model_type": "gpt2" in config.json: its keys are the same.'
    assert from_hf({**hf, "model_type": "gpt2"}).transformer.hidden_size == 64


def test_a_family_that_is_not_declared_yet_gives_way_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "model_types", lambda: ("llama", "gpt2"))
    assert verdict({"model_type": "kimi_k2"}).nearest == "llama"
    assert not verdict({"model_type": "kimi_k2"}).same
    monkeypatch.setattr(families, "model_types", lambda: ("deepseek_v3", "llama", "gpt2"))
    assert verdict({"model_type": "kimi_k2"}).nearest == "deepseek_v3"
    assert verdict({"model_type": "kimi_k2"}).same


@pytest.mark.parametrize("name", ["x" * 100_000, "\u202e", "", "llama\n"])
def test_names_of_any_kind(name: str) -> None:
    assert len(str(refused({"model_type": name, "rms_norm_eps": 1e-6}))) < 400


def test_the_error_by_name() -> None:
    error = refused({"model_type": "t5"})
    assert error.as_dict() == {
        "message": error.message,
        "fix": error.fix,
        "reason": "it is an encoder-decoder model with relative-position biases",
        "nearest": "bert",
        "left_out": (),
    }
