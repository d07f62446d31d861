"""Configs of several models: the text model is read, what was left out is said, and the whole comes back."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from mindport.checkpoint.convert import plan_conversion
from mindport.config.audit import UNHANDLED, audit, unhandled_keys
from mindport.config.composite import text_part
from mindport.config.hf import from_hf, to_hf
from mindport.config.json_file import write_json
from mindport.config.native import NativeConfig, read_native_config, write_native_config
from mindport.config.unsupported import UnsupportedModel
from mindport.errors import MindportError

LLAVA: dict[str, Any] = {
    "architectures": ["LlavaForConditionalGeneration"],
    "model_type": "llava",
    "pad_token_id": 7,
    "projector_hidden_act": "gelu",
    "text_config": {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 96},
    "torch_dtype": "float16",
    "transformers_version": "4.36.0",
    "vision_config": {"model_type": "clip_vision_model", "hidden_size": 48},
}


def llava(text: dict[str, Any] | None = None, **top: Any) -> dict[str, Any]:
    return {**LLAVA, "text_config": {**LLAVA["text_config"], **(text or {})}, **top}


def test_the_text_model_is_read() -> None:
    model = from_hf(LLAVA)
    assert (model.model_type, model.hf_class) == ("llama", "LlamaForCausalLM")
    assert (model.transformer.hidden_size, model.transformer.vocab_size) == (64, 96)
    assert model.part.path == ("text_config",)


def test_what_was_left_out_is_named_other_models_first() -> None:
    assert from_hf(LLAVA).part.left_out == ("vision_config", "pad_token_id", "projector_hidden_act")


def test_the_check_up_lists_the_keys_of_the_text_model() -> None:
    rows = {row.key: row for row in audit(from_hf(llava({"strange": 1})))}
    assert rows["hidden_size"].value == 64
    assert (rows["torch_dtype"].value, rows["torch_dtype"].origin) == ("float16", "file")
    assert rows["strange"].status == UNHANDLED
    assert "vision_config" not in rows
    assert unhandled_keys(from_hf(llava({"strange": 1}))) == ["strange"]


def test_token_ids_above_the_text_model_are_not_its_own() -> None:
    """`pad_token_id` of the whole is for generation; in the text model's config it freezes a row of the embedding."""
    assert from_hf(LLAVA).transformer.embedding_padding_idx is None
    assert from_hf(llava({"pad_token_id": 3})).transformer.embedding_padding_idx == 3


@pytest.mark.parametrize(
    ("top", "text", "wanted"),
    [
        ({"torch_dtype": "float16"}, {}, "float16"),
        ({"torch_dtype": "bfloat16"}, {"torch_dtype": "float16"}, "bfloat16"),
        ({"torch_dtype": None, "dtype": "bfloat16"}, {"torch_dtype": "float16"}, "bfloat16"),
        ({"torch_dtype": None}, {"torch_dtype": "float16"}, "float16"),
        ({"torch_dtype": None}, {}, "float32"),
    ],
)
def test_the_dtype_of_the_whole_rules(top: dict[str, Any], text: dict[str, Any], wanted: str) -> None:
    """As with transformers' `dtype="auto"`, which gives every part the dtype of the top level."""
    assert from_hf(llava(text, **top)).transformer.params_dtype == wanted


@pytest.mark.parametrize(
    ("top", "text", "tied"),
    [
        ({}, {}, False),
        ({"tie_word_embeddings": True}, {}, True),
        ({}, {"tie_word_embeddings": True}, True),
        ({"tie_word_embeddings": True}, {"tie_word_embeddings": True}, True),
        ({"tie_word_embeddings": None}, {"tie_word_embeddings": True}, True),
    ],
)
def test_tied_embeddings_are_said_at_either_level(top: dict[str, Any], text: dict[str, Any], tied: bool) -> None:
    assert from_hf(llava(text, **top)).transformer.tie_word_embeddings is tied


@pytest.mark.parametrize(
    ("key", "inner", "outer"), [("tie_word_embeddings", True, False), ("vocab_size", 96, 128)], ids=lambda x: str(x)
)
def test_levels_that_disagree_are_refused(key: str, inner: Any, outer: Any) -> None:
    """Generations of transformers take one or the other."""
    with pytest.raises(MindportError) as error:
        from_hf(llava({key: inner}, **{key: outer}))
    assert error.value.message == f"{key} is {inner!r} in text_config and {outer!r} above it."
    assert error.value.fix


def test_quantisation_of_the_whole_is_that_of_its_text_model() -> None:
    with pytest.raises(MindportError, match="the weights are quantised"):
        from_hf(llava(quantization_config={"bits": 4}))


def test_the_text_model_may_lie_deeper() -> None:
    text = {"model_type": "qwen2", "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
    thinker = {"model_type": "some_thinker", "text_config": text, "audio_config": {"a": 1}, "eos_token_id": 3}
    model = from_hf({"model_type": "some_omni", "thinker_config": thinker, "talker_config": {}, "dtype": "bfloat16"})
    assert (model.model_type, model.transformer.params_dtype) == ("qwen2", "bfloat16")
    assert model.part.path == ("thinker_config", "text_config")
    assert model.part.name == "thinker_config.text_config"
    assert model.part.left_out == ("talker_config", "thinker_config.audio_config", "thinker_config.eos_token_id")


@pytest.mark.parametrize("key", ["text_config", "llm_config", "language_config"])
def test_keys_under_which_the_text_model_lies(key: str) -> None:
    assert from_hf({"model_type": "x", key: {"model_type": "gpt2"}}).model_type == "gpt2"


def test_a_declared_model_type_at_the_top_is_what_counts() -> None:
    model = from_hf({"model_type": "gpt2", "text_config": {"model_type": "llama"}})
    assert (model.model_type, model.part.path, unhandled_keys(model)) == ("gpt2", (), ["text_config"])


@pytest.mark.parametrize("text", [{}, None, "llama", [], {"hidden_size": 8}, {"model_type": None}, {"model_type": 3}])
def test_a_part_that_names_no_model_type_is_not_descended_to(text: Any) -> None:
    with pytest.raises(UnsupportedModel, match="model_type 'llava' is not"):
        from_hf({**LLAVA, "text_config": text})


def test_a_text_model_that_is_not_supported() -> None:
    with pytest.raises(UnsupportedModel) as error:
        from_hf(llava({"model_type": "granite"}))
    assert error.value.message == (
        "model_type 'granite' in text_config is not supported: it multiplies embeddings, residuals, attention scores "
        "and logits by factors (left out: vision_config, pad_token_id, projector_hidden_act)."
    )
    assert error.value.nearest == "llama"
    assert error.value.as_dict()["left_out"] == ("vision_config", "pad_token_id", "projector_hidden_act")


QWEN2_AUDIO: dict[str, Any] = {
    "model_type": "qwen2_audio",
    "audio_config": {"model_type": "qwen2_audio_encoder"},
    "text_config": {"model_type": "qwen2", "intermediate_size": 96, "rms_norm_eps": 1e-5, "vocab_size": 40},
    "vocab_size": 40,
}


@pytest.mark.parametrize(
    "hf",
    [
        LLAVA,
        llava(tie_word_embeddings=True),
        llava({"tie_word_embeddings": True}),
        llava({"pad_token_id": 3, "rope_theta": 5e5, "num_key_value_heads": 2}),
        llava({"torch_dtype": "bfloat16"}, torch_dtype=None),
        QWEN2_AUDIO,
    ],
)
def test_transformers_finds_the_same_text_model(hf: dict[str, Any]) -> None:
    """Against the config class of the installed transformers, which fills in everything itself."""
    transformers = pytest.importorskip("transformers", minversion="5")
    whole = transformers.CONFIG_MAPPING[hf["model_type"]].from_dict(copy.deepcopy(hf))
    text = whole.get_text_config().to_dict()
    text["tie_word_embeddings"] = getattr(whole, "tie_word_embeddings", text["tie_word_embeddings"])
    text["dtype"] = whole.to_dict().get("dtype") or text.get("dtype")  # as `from_pretrained(dtype="auto")` takes it
    assert from_hf(hf).transformer == from_hf(text).transformer


# --- and back ----------------------------------------------------------------------------------------------------


SPELLINGS = [LLAVA, llava(tie_word_embeddings=True), llava({"torch_dtype": "float16"}), llava({"rope_theta": 5e5})]


@pytest.mark.parametrize("hf", SPELLINGS)
def test_the_whole_config_comes_back(hf: dict[str, Any], tmp_path: Path) -> None:
    before = copy.deepcopy(hf)
    config = NativeConfig(from_hf(hf))
    write_native_config(tmp_path, config)
    again = read_native_config(tmp_path)
    assert again == config
    assert to_hf(again.model) == hf == before


@pytest.mark.parametrize(
    ("hf", "changes", "where"),
    [
        (LLAVA, {"num_layers": 5}, {"text_config.num_hidden_layers": 5}),
        (LLAVA, {"params_dtype": "float32"}, {"text_config.dtype": "float32"}),
        (llava({"torch_dtype": "float16"}), {"params_dtype": "float32"}, {"text_config.dtype": "float32"}),
        (llava({"dtype": "float16"}, dtype="float16"), {"params_dtype": "float32"}, {"dtype": "float32"}),
        (llava(tie_word_embeddings=False), {"tie_word_embeddings": True}, {"tie_word_embeddings": True}),
        (llava({}, vocab_size=96), {"vocab_size": 128}, {"vocab_size": 128, "text_config.vocab_size": 128}),
    ],
)
def test_a_change_is_written_where_it_is_said(
    hf: dict[str, Any], changes: dict[str, Any], where: dict[str, Any]
) -> None:
    before = copy.deepcopy(hf)
    model = from_hf(hf).with_transformer(**changes)
    result = to_hf(model)
    assert from_hf(result).transformer == model.transformer
    assert result["vision_config"] == hf["vision_config"]
    for path, value in where.items():
        found: Any = result
        for key in path.split("."):
            found = found[key]
        assert found == value
    assert hf == before


def test_weights_of_a_composite_are_refused(tmp_path: Path) -> None:
    write_json(tmp_path / "config.json", LLAVA)
    with pytest.raises(MindportError, match="composite model; only the config of its text model, text_config, can be"):
        plan_conversion(tmp_path)


def test_a_text_model_is_its_own_part() -> None:
    hf = {"model_type": "gpt2"}
    part = text_part(hf)
    assert (part.path, part.name, part.left_out) == ((), None, ())
    assert part.config is hf
