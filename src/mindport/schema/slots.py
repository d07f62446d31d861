"""Slots: the canonical names of weights, their symbolic shapes, and when a model has them.

A slot is where a weight belongs in the abstract Transformer, in the finest grain in which files hold it: one expert,
one projection. Architectures say which Hugging Face tensor fills it, targets say which of their parameters holds it.
Shapes are written in the field names of `TransformerConfig`; matrices are (out, in), as both torch.nn.Linear and
mindspore.nn.Dense store them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

from mindport.layout.shape import evaluate
from mindport.schema.transformer_config import TransformerConfig

Condition = Callable[[TransformerConfig], bool]
LayerCondition = Callable[[TransformerConfig, int], bool]

INDICES: dict[str, str] = {
    "L": "num_stored_layers",
    "E": "num_moe_experts",
    "H": "num_attention_heads",
    "G": "num_query_groups",
    "M": "mtp_num_layers",
}
"""Placeholder -> how many there are: layer, expert, query head, key/value head, multi-token-prediction module."""

_PLACEHOLDERS = tuple((key, f"{{{key}}}") for key in INDICES)

MTP = "mtp.{M}."
"""Start of the slots of a multi-token-prediction module, which the native model carries along and does not compute."""


def _in_every_layer(_: TransformerConfig, __: int) -> bool:
    return True


@dataclass(frozen=True)
class Slot:
    """One canonical weight.

    Args:
        name: template with placeholders of `INDICES`.
        shape: symbolic.
        when: the configs that have it.
        layers: the layers that have it, for a slot of a layer.
    """

    name: str
    shape: str
    when: Condition
    layers: LayerCondition = _in_every_layer

    @property
    def per_layer(self) -> bool:
        return "{L}" in self.name

    @property
    def per_token(self) -> bool:
        """Whether each row belongs to a token of the vocabulary."""
        return self.shape.split(",")[0] == "vocab_size"


@dataclass(frozen=True)
class PlacedSlot:
    """A slot of one model: its template, its indices and its name with the indices filled in."""

    slot: Slot
    index: dict[str, int]
    name: str
    shape: tuple[int, ...]


def _always(_: TransformerConfig) -> bool:
    return True


def _linear(
    name: str, shape: str, when: Condition, bias: Condition, layers: LayerCondition = _in_every_layer
) -> Iterator[Slot]:
    """A projection: weight (out, in), and bias (out,) where `bias` also holds."""
    yield Slot(f"{name}.weight", shape, when, layers)
    yield Slot(f"{name}.bias", shape.split(",")[0], lambda c: when(c) and bias(c), layers)


def _norm(
    name: str, when: Condition = _always, width: str = "hidden_size", layers: LayerCondition = _in_every_layer
) -> Iterator[Slot]:
    """A norm: weight, and bias for LayerNorm that has one."""
    yield Slot(f"{name}.weight", width, when, layers)
    yield Slot(f"{name}.bias", width, lambda c: when(c) and c.normalization == "LayerNorm" and c.add_norm_bias, layers)


def _mlp(name: str, width: str, when: Condition, layers: LayerCondition) -> Iterator[Slot]:
    """The projections of an MLP: gate where it is gated, up, down."""
    up, down = f"{width}, hidden_size", f"hidden_size, {width}"
    yield from _linear(f"{name}.gate", up, lambda c: when(c) and c.gated_linear_unit, _MLP_BIAS, layers)
    yield from _linear(f"{name}.up", up, when, _MLP_BIAS, layers)
    yield from _linear(f"{name}.down", down, when, _MLP_BIAS, layers)


def _head(*kinds: str) -> Condition:
    return lambda c: c.head in kinds


_CLASSIFIER = _head("sequence_classification", "token_classification")


def _transform(config: TransformerConfig) -> bool:
    return config.head == "masked_lm" or (_CLASSIFIER(config) and config.add_classifier_transform)


def _attention_norm(config: TransformerConfig, layer: int) -> bool:
    return layer > 0 or config.first_attention_layernorm


def _dense(config: TransformerConfig, layer: int) -> bool:
    return not config.has_experts(layer)


def _experts(config: TransformerConfig, layer: int) -> bool:
    return config.has_experts(layer)


_QUERY = "num_attention_heads*kv_channels"
_KEY = "num_query_groups*kv_channels"
_QKV_BIAS: Condition = lambda c: c.add_qkv_bias  # noqa: E731
_PLAIN: Condition = lambda c: not c.multi_latent_attention  # noqa: E731
_LATENT: Condition = lambda c: c.multi_latent_attention  # noqa: E731
_Q_LATENT: Condition = lambda c: c.q_lora_rank is not None  # noqa: E731
_Q_BIAS: Condition = lambda c: c.add_qkv_bias and not c.multi_latent_attention  # noqa: E731
_MLP_BIAS: Condition = lambda c: c.add_mlp_bias  # noqa: E731
_MOE: Condition = lambda c: c.num_moe_experts > 0  # noqa: E731
_RELATIVE: Condition = lambda c: c.pos_att_type != "none"  # noqa: E731
_CONVOLUTION: Condition = lambda c: c.conv_kernel_size > 0  # noqa: E731

_MODEL: tuple[Slot, ...] = (
    Slot("embedding.word.weight", "vocab_size, embedding_width", _always),
    Slot(
        "embedding.position.weight",
        "max_position_embeddings, embedding_width",
        lambda c: c.position_embedding_type == "learned_absolute",
    ),
    Slot("embedding.token_type.weight", "num_token_types, embedding_width", lambda c: c.num_token_types > 0),
    *_norm("embedding.norm", lambda c: c.embedding_layernorm, "embedding_norm_width"),
    *_linear(
        "embedding.projection",
        "hidden_size, embedding_width",
        lambda c: c.embedding_size is not None,
        lambda c: c.add_embedding_projection_bias,
    ),
    Slot("relative_embedding.weight", "2*relative_span, hidden_size", _RELATIVE),
    *_norm("relative_embedding.norm", lambda c: _RELATIVE(c) and c.norm_rel_ebd == "layer_norm"),
    Slot("convolution.weight", "hidden_size, conv_group_width, conv_kernel_size", _CONVOLUTION),
    Slot("convolution.bias", "hidden_size", _CONVOLUTION),
    *_norm("convolution.norm", _CONVOLUTION),
    *_norm("layer.{L}.attention_norm", layers=_attention_norm),
    *_linear("layer.{L}.attention.q", f"{_QUERY}, hidden_size", lambda c: c.q_lora_rank is None, _Q_BIAS),
    *_linear("layer.{L}.attention.k", f"{_KEY}, hidden_size", _PLAIN, _QKV_BIAS),
    *_linear("layer.{L}.attention.v", f"{_KEY}, hidden_size", _PLAIN, _QKV_BIAS),
    *_linear(
        "layer.{L}.attention.pos_key",
        f"{_KEY}, hidden_size",
        lambda c: "c2p" in c.pos_att_type and not c.share_att_key,
        _QKV_BIAS,
    ),
    *_linear(
        "layer.{L}.attention.pos_query",
        f"{_QUERY}, hidden_size",
        lambda c: "p2c" in c.pos_att_type and not c.share_att_key,
        _QKV_BIAS,
    ),
    *_linear("layer.{L}.attention.q_down", "q_lora_rank, hidden_size", _Q_LATENT, _QKV_BIAS),
    *_norm("layer.{L}.attention.q_latent_norm", _Q_LATENT, "q_lora_rank"),
    Slot("layer.{L}.attention.q_up.weight", f"{_QUERY}, q_lora_rank", _Q_LATENT),
    *_linear("layer.{L}.attention.kv_down", "kv_lora_rank, hidden_size", _LATENT, _QKV_BIAS),
    *_linear("layer.{L}.attention.k_rope", "qk_pos_emb_head_dim, hidden_size", _LATENT, _QKV_BIAS),
    *_norm("layer.{L}.attention.kv_latent_norm", _LATENT, "kv_lora_rank"),
    Slot("layer.{L}.attention.k_up.weight", "num_attention_heads*qk_head_dim, kv_lora_rank", _LATENT),
    Slot("layer.{L}.attention.v_up.weight", "num_attention_heads*v_head_dim, kv_lora_rank", _LATENT),
    *_norm("layer.{L}.attention.q_norm", lambda c: c.qk_layernorm == "head", "kv_channels"),
    *_norm("layer.{L}.attention.k_norm", lambda c: c.qk_layernorm == "head", "kv_channels"),
    Slot("layer.{L}.attention.q_norm.{H}.weight", "kv_channels", lambda c: c.qk_layernorm == "each_head"),
    Slot("layer.{L}.attention.k_norm.{G}.weight", "kv_channels", lambda c: c.qk_layernorm == "each_head"),
    Slot("layer.{L}.attention.sinks", "num_attention_heads", lambda c: c.softmax_type == "learnable"),
    *_linear("layer.{L}.attention.o", "hidden_size, attention_width", _always, lambda c: c.add_attention_output_bias),
    *_norm("layer.{L}.mlp_norm", lambda c: c.parallel_block != "one_norm"),
    *_mlp("layer.{L}.mlp", "ffn_hidden_size", _always, _dense),
    *_linear("layer.{L}.mlp.router", "num_moe_experts, hidden_size", _MOE, lambda c: c.add_router_bias, _experts),
    Slot(
        "layer.{L}.mlp.router.score_correction",
        "num_moe_experts",
        lambda c: c.moe_router_enable_expert_bias,
        _experts,
    ),
    *_mlp("layer.{L}.mlp.experts.{E}", "moe_ffn_hidden_size", _MOE, _experts),
    *_mlp(
        "layer.{L}.mlp.shared",
        "moe_shared_expert_intermediate_size",
        lambda c: c.moe_shared_expert_intermediate_size > 0,
        _experts,
    ),
    *_norm("final_norm", lambda c: c.final_layernorm),
    *_linear("pooler", "hidden_size, hidden_size", lambda c: c.add_pooler, _always),
    *_linear("head.transform", "embedding_width, hidden_size", _transform, lambda c: c.add_head_transform_bias),
    *_norm("head.norm", _transform, "embedding_width"),
    Slot(
        "head.output.weight",
        "vocab_size, embedding_width",
        lambda c: c.head in ("causal_lm", "masked_lm") and not c.tie_word_embeddings,
    ),
    Slot("head.output.bias", "vocab_size", lambda c: c.head == "masked_lm" and c.add_masked_lm_bias),
    *_linear("head.classifier", "num_labels, hidden_size", _CLASSIFIER, _always),
    *_linear("head.span", "2, hidden_size", _head("question_answering"), _always),
)


def _mtp(slot: Slot) -> Slot:
    """The same weight of the layer inside a multi-token-prediction module, which is like the model's last."""
    return Slot(
        f"{MTP}{slot.name.replace('{L}.', '')}",
        slot.shape,
        lambda c: c.mtp_num_layers > 0 and slot.when(c) and slot.layers(c, c.num_layers - 1),
    )


SLOTS: tuple[Slot, ...] = (
    *_MODEL,
    *(_mtp(slot) for slot in _MODEL if slot.per_layer),
    *_norm(f"{MTP}embedding_norm", lambda c: c.mtp_num_layers > 0),
    *_norm(f"{MTP}hidden_norm", lambda c: c.mtp_num_layers > 0),
    Slot(f"{MTP}projection.weight", "hidden_size, 2*hidden_size", lambda c: c.mtp_num_layers > 0),
    Slot(f"{MTP}embedding.word.weight", "vocab_size, hidden_size", lambda c: c.mtp_num_layers > 0),
    *_norm(f"{MTP}final_norm", lambda c: c.mtp_num_layers > 0),
    Slot(f"{MTP}head.output.weight", "vocab_size, hidden_size", lambda c: c.mtp_num_layers > 0),
)
"""Every slot, in the order in which a checkpoint is written."""


def placed_slots(config: TransformerConfig) -> Iterator[PlacedSlot]:
    """The slots of one model, layer by layer, in checkpoint order."""
    for slot, given in _by_layer(config):
        shape = evaluate(slot.shape, config)
        for index in indices(slot.name, config, given):
            yield PlacedSlot(slot, index, slot.name.format(**index), shape)


def count_parameters(config: TransformerConfig) -> int:
    """Number of weights of a model; without naming each of them, for there may be tens of thousands of experts."""
    total = 0
    for slot, given in _by_layer(config):
        total += prod(evaluate(slot.shape, config)) * prod(
            getattr(config, INDICES[key]) for key in _free(slot.name, given)
        )
    return total


def _by_layer(config: TransformerConfig) -> Iterator[tuple[Slot, dict[str, int]]]:
    """Slots with the layer they are in, layer by layer."""
    present = [slot for slot in SLOTS if slot.when(config)]
    first_layer = next((i for i, slot in enumerate(present) if slot.per_layer), len(present))
    layer_slots = [slot for slot in present if slot.per_layer]
    for slot in present[:first_layer]:
        yield slot, {}
    for layer in range(config.num_stored_layers):
        for slot in layer_slots:
            if slot.layers(config, layer):
                yield slot, {"L": layer}
    for slot in present[first_layer:]:
        if not slot.per_layer:
            yield slot, {}


def indices(template: str, config: TransformerConfig, given: dict[str, int] | None = None) -> Iterator[dict[str, int]]:
    """Every combination of the indices that a template has placeholders for, beside those `given`."""
    given = given or {}
    free = _free(template, given)
    for values in product(*(range(getattr(config, INDICES[key])) for key in free)):
        yield {**given, **dict(zip(free, values, strict=True))}


def _free(template: str, given: dict[str, int]) -> list[str]:
    return [key for key, placeholder in _PLACEHOLDERS if placeholder in template and key not in given]


def slots_of(config: TransformerConfig) -> dict[str, tuple[int, ...]]:
    """The slots of one model with their shapes, layer by layer, in checkpoint order.

    Returns:
        slot name with indices filled in -> shape in elements.
    """
    return {placed.name: placed.shape for placed in placed_slots(config)}


def is_norm(slot: str) -> bool:
    """Whether a slot belongs to a norm: `layer.3.attention_norm.weight` does, `pooler.weight` does not."""
    return any(part.endswith("norm") for part in slot.split("."))
