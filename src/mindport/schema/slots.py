"""Slots: the canonical names of weights, their symbolic shapes, and when a model has them.

A slot is where a weight belongs in the abstract Transformer. Architectures say which Hugging Face tensor fills it,
targets say which of their parameters holds it. `{L}` is the layer index. Shapes are written in the field names of
`TransformerConfig`; matrices are (out, in), as both torch.nn.Linear and mindspore.nn.Dense store them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mindport.layout.shape import evaluate
from mindport.schema.transformer_config import TransformerConfig

Condition = Callable[[TransformerConfig], bool]


@dataclass(frozen=True)
class Slot:
    """One canonical weight: name template, symbolic shape, and the condition under which it exists."""

    name: str
    shape: str
    when: Condition

    @property
    def per_layer(self) -> bool:
        return "{L}" in self.name


def _always(_: TransformerConfig) -> bool:
    return True


def _linear(name: str, shape: str, when: Condition, bias: Condition) -> Iterator[Slot]:
    """A projection: weight (out, in), and bias (out,) where `bias` also holds."""
    yield Slot(f"{name}.weight", shape, when)
    yield Slot(f"{name}.bias", shape.split(",")[0], lambda c: when(c) and bias(c))


def _norm(name: str, when: Condition = _always, width: str = "hidden_size") -> Iterator[Slot]:
    """A norm: weight, and bias for LayerNorm."""
    yield Slot(f"{name}.weight", width, when)
    yield Slot(f"{name}.bias", width, lambda c: when(c) and c.normalization == "LayerNorm")


def _head(*kinds: str) -> Condition:
    return lambda c: c.head in kinds


_QUERY = "num_attention_heads*kv_channels"
_KEY = "num_query_groups*kv_channels"
_QKV_BIAS: Condition = lambda c: c.add_qkv_bias  # noqa: E731
_MLP_BIAS: Condition = lambda c: c.add_mlp_bias  # noqa: E731

SLOTS: tuple[Slot, ...] = (
    Slot("embedding.word.weight", "vocab_size, hidden_size", _always),
    Slot(
        "embedding.position.weight",
        "max_position_embeddings, hidden_size",
        lambda c: c.position_embedding_type == "learned_absolute",
    ),
    Slot("embedding.token_type.weight", "num_token_types, hidden_size", lambda c: c.num_token_types > 0),
    *_norm("embedding.norm", lambda c: c.embedding_layernorm),
    *_norm("layer.{L}.attention_norm"),
    *_linear("layer.{L}.attention.q", f"{_QUERY}, hidden_size", _always, _QKV_BIAS),
    *_linear("layer.{L}.attention.k", f"{_KEY}, hidden_size", _always, _QKV_BIAS),
    *_linear("layer.{L}.attention.v", f"{_KEY}, hidden_size", _always, _QKV_BIAS),
    *_norm("layer.{L}.attention.q_norm", lambda c: c.qk_layernorm == "head", "kv_channels"),
    *_norm("layer.{L}.attention.k_norm", lambda c: c.qk_layernorm == "head", "kv_channels"),
    *_linear("layer.{L}.attention.o", f"hidden_size, {_QUERY}", _always, lambda c: c.add_attention_output_bias),
    *_norm("layer.{L}.mlp_norm"),
    *_linear("layer.{L}.mlp.gate", "ffn_hidden_size, hidden_size", lambda c: c.gated_linear_unit, _MLP_BIAS),
    *_linear("layer.{L}.mlp.up", "ffn_hidden_size, hidden_size", _always, _MLP_BIAS),
    *_linear("layer.{L}.mlp.down", "hidden_size, ffn_hidden_size", _always, _MLP_BIAS),
    *_norm("final_norm", lambda c: c.final_layernorm),
    *_linear("pooler", "hidden_size, hidden_size", lambda c: c.add_pooler, _always),
    *_linear("head.transform", "hidden_size, hidden_size", _head("masked_lm"), _always),
    *_norm("head.norm", _head("masked_lm")),
    Slot(
        "head.output.weight",
        "vocab_size, hidden_size",
        lambda c: c.head in ("causal_lm", "masked_lm") and not c.tie_word_embeddings,
    ),
    Slot("head.output.bias", "vocab_size", _head("masked_lm")),
    *_linear(
        "head.classifier",
        "num_labels, hidden_size",
        _head("sequence_classification", "token_classification"),
        _always,
    ),
)
"""Every slot, in the order in which a checkpoint is written."""


def slots_of(config: TransformerConfig) -> dict[str, tuple[int, ...]]:
    """The slots of one model with their shapes, layer by layer, in checkpoint order.

    Returns:
        slot name with indices filled in -> shape in elements.
    """
    present = [slot for slot in SLOTS if slot.when(config)]
    first_layer = next((i for i, slot in enumerate(present) if slot.per_layer), len(present))
    layer_slots = [slot for slot in present if slot.per_layer]
    result: dict[str, tuple[int, ...]] = {}

    def add(slot: Slot, **index: int) -> None:
        result[slot.name.format(**index)] = evaluate(slot.shape, config)

    for slot in present[:first_layer]:
        add(slot)
    for layer in range(config.num_layers):
        for slot in layer_slots:
            add(slot, L=layer)
    for slot in present[first_layer:]:
        if not slot.per_layer:
            add(slot)
    return result
