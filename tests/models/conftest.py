"""Tiny random transformers models with their weights as slots, mapped by hand.

The mapping is written out here, apart from the declarations, so that the native model is judged on its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from mindport.schema import TransformerConfig

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
ms = pytest.importorskip("mindspore")

HIDDEN, HEADS, WIDTH, FFN, VOCAB, LAYERS = 48, 6, 20, 112, 131, 3


@dataclass(frozen=True)
class Reference:
    """A transformers model, the configuration it should be, and its weights by slot."""

    model: Any
    config: TransformerConfig
    weights: dict[str, np.ndarray]


def _randomise(model: Any, seed: int) -> None:
    # Every tensor its own values: with biases 0 and norms 1 a dropped or swapped one would not show.
    generator = torch.Generator().manual_seed(seed)

    def normal(tensor: Any) -> Any:
        return torch.randn(tensor.shape, generator=generator)

    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if "norm" in name.lower() or ".ln_" in name:
                tensor.copy_(normal(tensor) * 0.3 + (1.0 if name.endswith("weight") else 0.0))
            elif tensor.ndim == 1:
                tensor.copy_(normal(tensor) * 0.3)
            elif "embed" in name or ".wte" in name or ".wpe" in name:
                # Tied embeddings are also the output projection: logits of about unit scale.
                tensor.copy_(normal(tensor) * HIDDEN**-0.5)
            else:
                fan_in = tensor.shape[0] if ".c_" in name else tensor.shape[1]
                tensor.copy_(normal(tensor) * fan_in**-0.5)


def _numpy(model: Any) -> dict[str, np.ndarray]:
    return {name: tensor.detach().numpy() for name, tensor in model.named_parameters()}


def _linear(slot: str, name: str, source: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    parts = ("weight", "bias")
    return {f"{slot}.{p}": source[f"{name}.{p}"] for p in parts if f"{name}.{p}" in source}


def llama(*, heads: int = HEADS, groups: int = 2, seed: int = 0, **changes: Any) -> Reference:
    """Llama: grouped queries, a head width that is not hidden / heads, optional biases."""
    hf = transformers.LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=HIDDEN,
        intermediate_size=FFN,
        num_hidden_layers=LAYERS,
        num_attention_heads=heads,
        num_key_value_heads=groups,
        head_dim=WIDTH,
        **{"max_position_embeddings": 128, "rms_norm_eps": 1e-6, "attn_implementation": "eager", **changes},
    )
    model = transformers.LlamaForCausalLM(hf).eval()
    _randomise(model, seed)
    source = _numpy(model)
    weights = _linear("embedding.word", "model.embed_tokens", source) | _linear("final_norm", "model.norm", source)
    for i in range(LAYERS):
        block = f"model.layers.{i}"
        for slot, name in {
            "attention_norm": "input_layernorm",
            "mlp_norm": "post_attention_layernorm",
            **{f"attention.{p}": f"self_attn.{p}_proj" for p in "qkvo"},
            **{f"mlp.{p}": f"mlp.{p}_proj" for p in ("gate", "up", "down")},
        }.items():
            weights |= _linear(f"layer.{i}.{slot}", f"{block}.{name}", source)
    if not hf.tie_word_embeddings:
        weights |= _linear("head.output", "lm_head", source)
    scaling = hf.rope_parameters
    config = TransformerConfig(
        vocab_size=VOCAB,
        hidden_size=HIDDEN,
        num_layers=LAYERS,
        num_attention_heads=heads,
        num_query_groups=groups,
        kv_channels=WIDTH,
        ffn_hidden_size=FFN,
        max_position_embeddings=hf.max_position_embeddings,
        layernorm_epsilon=1e-6,
        gated_linear_unit=True,
        activation_func=hf.hidden_act,
        add_qkv_bias=hf.attention_bias,
        add_attention_output_bias=hf.attention_bias,
        add_mlp_bias=hf.mlp_bias,
        softmax_scale=WIDTH**-0.5,
        rotary_base=scaling["rope_theta"],
        rope_scaling=None if scaling["rope_type"] == "default" else dict(scaling),
        head="causal_lm",
        tie_word_embeddings=hf.tie_word_embeddings,
    )
    return Reference(model, config, weights)


def gpt2(*, seed: int = 1, **changes: Any) -> Reference:
    """GPT-2: learned positions, fused and transposed qkv, biases everywhere, tied."""
    hf = transformers.GPT2Config(
        vocab_size=VOCAB,
        n_embd=HIDDEN,
        n_layer=LAYERS,
        n_head=HEADS,
        n_inner=FFN,
        n_positions=96,
        attn_implementation="eager",
        **changes,
    )
    model = transformers.GPT2LMHeadModel(hf).eval()
    _randomise(model, seed)
    source = _numpy(model)
    weights = _linear("embedding.word", "transformer.wte", source)
    weights |= _linear("embedding.position", "transformer.wpe", source)
    weights |= _linear("final_norm", "transformer.ln_f", source)
    for i in range(LAYERS):
        block = f"transformer.h.{i}"
        weights |= _linear(f"layer.{i}.attention_norm", f"{block}.ln_1", source)
        weights |= _linear(f"layer.{i}.mlp_norm", f"{block}.ln_2", source)
        for slot, name in {
            "attention.o": "attn.c_proj",
            "mlp.up": "mlp.c_fc",
            "mlp.down": "mlp.c_proj",
        }.items():
            weights[f"layer.{i}.{slot}.weight"] = source[f"{block}.{name}.weight"].T
            weights[f"layer.{i}.{slot}.bias"] = source[f"{block}.{name}.bias"]
        for index, part in enumerate("qkv"):
            columns = slice(index * HIDDEN, (index + 1) * HIDDEN)
            weights[f"layer.{i}.attention.{part}.weight"] = source[f"{block}.attn.c_attn.weight"][:, columns].T
            weights[f"layer.{i}.attention.{part}.bias"] = source[f"{block}.attn.c_attn.bias"][columns]
    config = TransformerConfig(
        vocab_size=VOCAB,
        hidden_size=HIDDEN,
        num_layers=LAYERS,
        num_attention_heads=HEADS,
        num_query_groups=HEADS,
        kv_channels=HIDDEN // HEADS,
        ffn_hidden_size=FFN,
        max_position_embeddings=96,
        normalization="LayerNorm",
        activation_func="gelu_new",
        add_qkv_bias=True,
        add_attention_output_bias=True,
        add_mlp_bias=True,
        softmax_scale=(HIDDEN // HEADS) ** -0.5,
        scale_attention_by_inverse_layer_idx=hf.scale_attn_by_inverse_layer_idx,
        position_embedding_type="learned_absolute",
        head="causal_lm",
        tie_word_embeddings=True,
    )
    return Reference(model, config, weights)


def bert(*, head: str = "masked_lm", seed: int = 2, **changes: Any) -> Reference:
    """BERT with one of its heads, or bare with the pooler."""
    hf = transformers.BertConfig(
        vocab_size=VOCAB,
        hidden_size=HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=FFN,
        max_position_embeddings=96,
        num_labels=5,
        attn_implementation="eager",
        **changes,
    )
    model = {
        "none": transformers.BertModel,
        "masked_lm": transformers.BertForMaskedLM,
        "sequence_classification": transformers.BertForSequenceClassification,
        "token_classification": transformers.BertForTokenClassification,
    }[head](hf).eval()
    _randomise(model, seed)
    source = _numpy(model)
    root = "" if head == "none" else "bert."
    names = {
        "embedding.word": f"{root}embeddings.word_embeddings",
        "embedding.position": f"{root}embeddings.position_embeddings",
        "embedding.token_type": f"{root}embeddings.token_type_embeddings",
        "embedding.norm": f"{root}embeddings.LayerNorm",
        "pooler": f"{root}pooler.dense",
        "head.transform": "cls.predictions.transform.dense",
        "head.norm": "cls.predictions.transform.LayerNorm",
        "head.classifier": "classifier",
    }
    for i in range(LAYERS):
        block, layer = f"{root}encoder.layer.{i}", f"layer.{i}"
        names |= {
            f"{layer}.attention.q": f"{block}.attention.self.query",
            f"{layer}.attention.k": f"{block}.attention.self.key",
            f"{layer}.attention.v": f"{block}.attention.self.value",
            f"{layer}.attention.o": f"{block}.attention.output.dense",
            f"{layer}.attention_norm": f"{block}.attention.output.LayerNorm",
            f"{layer}.mlp.up": f"{block}.intermediate.dense",
            f"{layer}.mlp.down": f"{block}.output.dense",
            f"{layer}.mlp_norm": f"{block}.output.LayerNorm",
        }
    weights: dict[str, np.ndarray] = {}
    for slot, name in names.items():
        weights |= _linear(slot, name, source)
    if head == "masked_lm":
        weights["head.output.bias"] = source["cls.predictions.bias"]
        if not hf.tie_word_embeddings:
            # Untied, the decoder has a bias of its own and `cls.predictions.bias` is used nowhere.
            weights |= _linear("head.output", "cls.predictions.decoder", source)
    config = TransformerConfig(
        vocab_size=VOCAB,
        hidden_size=HIDDEN,
        num_layers=LAYERS,
        num_attention_heads=HEADS,
        num_query_groups=HEADS,
        kv_channels=HIDDEN // HEADS,
        ffn_hidden_size=FFN,
        max_position_embeddings=96,
        num_token_types=2,
        attention_mask_type="bidirectional",
        normalization="LayerNorm",
        layernorm_epsilon=1e-12,
        norm_placement="post",
        embedding_layernorm=True,
        final_layernorm=False,
        activation_func=hf.hidden_act,
        add_qkv_bias=True,
        add_attention_output_bias=True,
        add_mlp_bias=True,
        softmax_scale=(HIDDEN // HEADS) ** -0.5,
        position_embedding_type="learned_absolute",
        head=head,
        tie_word_embeddings=hf.tie_word_embeddings,
        add_pooler=head in ("none", "sequence_classification"),
        num_labels=5,
        hidden_dropout=hf.hidden_dropout_prob,
        attention_dropout=hf.attention_probs_dropout_prob,
        embedding_dropout=hf.hidden_dropout_prob,
        classifier_dropout=hf.hidden_dropout_prob,
    )
    return Reference(model, config, weights)


FAMILIES: dict[str, Callable[..., Reference]] = {"llama": llama, "gpt2": gpt2, "bert": bert}


@pytest.fixture
def reference() -> Callable[..., Reference]:
    """reference("llama", **changes): a random transformers model and its weights by slot."""
    return lambda family, **changes: FAMILIES[family](**changes)


@pytest.fixture
def batch() -> dict[str, np.ndarray]:
    """Two rows of 80 tokens with two segments."""
    generator = np.random.default_rng(7)
    token_types = np.zeros((2, 80), np.int64)
    token_types[:, 33:] = 1
    return {"input_ids": generator.integers(0, VOCAB, (2, 80)), "token_type_ids": token_types}


@pytest.fixture
def graph_mode() -> Any:
    """MindSpore compiles every cell inside the test."""
    before = ms.get_context("mode")
    ms.set_context(mode=ms.GRAPH_MODE)
    yield
    ms.set_context(mode=before)
