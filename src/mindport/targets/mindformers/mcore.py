"""MindFormers' mcore generation: how its training and its inference graph name and lay out weights.

The same HF weight lies differently in a training graph, by three settings of the model config, and again in the
inference graph; names and shapes are alike, so that a file of the other layout loads without a complaint and computes
something else. What is said here was found by running the graphs of MindFormers 1.9 (tests/conformance), and holds
from 1.7 on: their code is the same in what lays out weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mindport.architectures.common import QKV
from mindport.architectures.multi_token import in_module
from mindport.architectures.naming import Spelling, filled_in
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.layout import Fuse, Stack, Stored, TensorMap, Transpose
from mindport.layout.ops import Operation
from mindport.schema import MTP, TransformerConfig, slots_of
from mindport.targets.target import Target

Tensors = Mapping[str, str | Stored]


@dataclass(frozen=True)
class McoreLayout:
    """The settings of a model config that decide how weights lie in a training graph.

    Args:
        use_contiguous_weight_layout_attention: fused q, k and v follow each other; else every key/value group holds
            its query rows, then its key rows, then its value rows.
        use_interleaved_weight_layout_mlp: rows of gate and up take turns; else up follows gate.
        mla_qkv_concat: latent attention makes the query's input and the key/value latent with one matrix.
    """

    use_contiguous_weight_layout_attention: bool = False
    use_interleaved_weight_layout_mlp: bool = True
    mla_qkv_concat: bool = True

    def settings(self) -> dict[str, bool]:
        """For the model config, under MindFormers' own names. Written out even where they are its defaults."""
        return {
            "use_contiguous_weight_layout_attention": self.use_contiguous_weight_layout_attention,
            "use_interleaved_weight_layout_mlp": self.use_interleaved_weight_layout_mlp,
            "mla_qkv_concat": self.mla_qkv_concat,
        }


@dataclass(frozen=True)
class InferenceLayout:
    """How weights lie in an inference graph: no setting changes it."""

    def settings(self) -> dict[str, bool]:
        """None."""
        return {}


def _gate_up(block: str, operation: Operation) -> Stored:
    return Stored((f"{block}.gate.weight", f"{block}.up.weight"), (operation,))


_EXPERT = "layer.{L}.mlp.experts.{E}"

_NORMS: Tensors = {
    "decoder.layers.{L}.input_layernorm.weight": "layer.{L}.attention_norm.weight",
    "decoder.layers.{L}.pre_mlp_layernorm.weight": "layer.{L}.mlp_norm.weight",
}

_ATTENTION: Tensors = {
    "decoder.layers.{L}.self_attention.linear_proj.{p}": "layer.{L}.attention.o.{p}",
    "decoder.layers.{L}.self_attention.q_layernorm.weight": "layer.{L}.attention.q_norm.weight",
    "decoder.layers.{L}.self_attention.k_layernorm.weight": "layer.{L}.attention.k_norm.weight",
}

_MLP: Tensors = {
    "decoder.layers.{L}.mlp.linear_fc2.weight": "layer.{L}.mlp.down.weight",
    "decoder.layers.{L}.mlp.router.weight": "layer.{L}.mlp.router.weight",
    "decoder.layers.{L}.mlp.router.expert_bias": "layer.{L}.mlp.router.score_correction",
    "decoder.layers.{L}.mlp.shared_experts.linear_fc2.weight": "layer.{L}.mlp.shared.down.weight",
}

_ENDS: Tensors = {
    "embedding.word_embeddings.weight": "embedding.word.weight",
    "decoder.final_layernorm.weight": "final_norm.weight",
    "output_layer.weight": "head.output.weight",
}

_MODULE: Tensors = {
    "mtp.layers.{M}.enorm.weight": f"{MTP}embedding_norm.weight",
    "mtp.layers.{M}.hnorm.weight": f"{MTP}hidden_norm.weight",
    "mtp.layers.{M}.eh_proj.weight": f"{MTP}projection.weight",
    "mtp.layers.{M}.final_layernorm.weight": f"{MTP}final_norm.weight",
}

_KV_DOWN = ("layer.{L}.attention.kv_down.weight", "layer.{L}.attention.k_rope.weight")
_KV_UP = Stored(("layer.{L}.attention.k_up.weight", "layer.{L}.attention.v_up.weight"), (Fuse("num_attention_heads"),))


def _latent(config: TransformerConfig, layout: McoreLayout) -> Tensors:
    """Latent attention. Its norms are parameters only with `qk_layernorm: True`, which is not the default."""
    at = "decoder.layers.{L}.self_attention"
    query = "q" if config.q_lora_rank is None else "q_down"
    if layout.mla_qkv_concat:
        return {
            f"{at}.linear_qkv.weight": Stored((f"layer.{{L}}.attention.{query}.weight", *_KV_DOWN), (Fuse(),)),
            f"{at}.linear_qb.weight": "layer.{L}.attention.q_up.weight",
            f"{at}.linear_kvb.weight": _KV_UP,
            f"{at}.q_layernorm.weight": "layer.{L}.attention.q_latent_norm.weight",
            f"{at}.k_layernorm.weight": "layer.{L}.attention.kv_latent_norm.weight",
        }
    return {
        f"{at}.linear_q_proj.weight": "layer.{L}.attention.q.weight",
        f"{at}.linear_q_down_proj.weight": "layer.{L}.attention.q_down.weight",
        f"{at}.linear_q_up_proj.weight": "layer.{L}.attention.q_up.weight",
        f"{at}.linear_kv_down_proj.weight": Stored(_KV_DOWN, (Fuse(),)),
        f"{at}.linear_kv_up_proj.weight": _KV_UP,
        f"{at}.q_layernorm.weight": "layer.{L}.attention.q_latent_norm.weight",
        f"{at}.kv_layernorm.weight": "layer.{L}.attention.kv_latent_norm.weight",
    }


def _plain(layout: McoreLayout) -> Tensors:
    fused = Fuse() if layout.use_contiguous_weight_layout_attention else Fuse("num_query_groups")
    return {"decoder.layers.{L}.self_attention.linear_qkv.{p}": Stored(QKV, (fused,))}


def _layer(config: TransformerConfig, layout: McoreLayout, experts: Tensors) -> Tensors:
    def rows(width: str) -> Operation:
        return Fuse(width) if layout.use_interleaved_weight_layout_mlp else Fuse()

    shared = _gate_up("layer.{L}.mlp.shared", rows("moe_shared_expert_intermediate_size"))
    return {
        **_NORMS,
        **_ATTENTION,
        **(_latent(config, layout) if config.multi_latent_attention else _plain(layout)),
        **_MLP,
        "decoder.layers.{L}.mlp.linear_fc1.weight": _gate_up("layer.{L}.mlp", rows("ffn_hidden_size")),
        "decoder.layers.{L}.mlp.shared_experts.linear_fc1.weight": shared,
        **experts,
    }


_EXPERTS: Tensors = {
    # (expert * hidden, 2 * width) and (expert * width, hidden): each expert transposed, one below the other.
    "decoder.layers.{L}.mlp.experts.weight1": Stored(
        (f"{_EXPERT}.gate.weight", f"{_EXPERT}.up.weight"), (Fuse(of=2), Transpose(), Fuse())
    ),
    "decoder.layers.{L}.mlp.experts.weight2": Stored((f"{_EXPERT}.down.weight",), (Transpose(), Fuse())),
}

_STACKED_EXPERTS: Tensors = {
    # The same bytes, as (expert, hidden, 2 * width) and (expert, width, hidden).
    "decoder.layers.{L}.mlp.experts.weight1": Stored(
        (f"{_EXPERT}.gate.weight", f"{_EXPERT}.up.weight"), (Fuse(of=2), Stack(), Transpose())
    ),
    "decoder.layers.{L}.mlp.experts.weight2": Stored((f"{_EXPERT}.down.weight",), (Stack(), Transpose())),
}


def _modules(layer: Tensors) -> Tensors:
    """A layer's tensors, in each module for multi-token prediction."""
    inside = {
        name.replace("decoder.layers.{L}.", "mtp.layers.{M}.transformer_layer."): in_module(made_of)
        for name, made_of in layer.items()
    }
    return {**_MODULE, **inside}


def _in_order(tensors: Tensors, config: TransformerConfig) -> TensorMap:
    """Filled in for one model, in the order of its slots."""
    place = {slot: number for number, slot in enumerate(slots_of(config))}
    filled = filled_in(tensors, config, Spelling(""))
    return dict(sorted(filled.items(), key=lambda item: place[item[1].parts[0]]))


def shared_slots(config: TransformerConfig) -> dict[str, str]:
    """Modules for multi-token prediction use the model's own embedding and head."""
    head = "embedding.word.weight" if config.tie_word_embeddings else "head.output.weight"
    shared = {}
    for module in range(config.mtp_num_layers):
        start = MTP.format(M=module)
        shared[f"{start}embedding.word.weight"] = "embedding.word.weight"
        shared[f"{start}head.output.weight"] = head
    return shared


def training(layout: McoreLayout) -> Target:
    """The training graph with these settings."""

    def parameters(config: TransformerConfig) -> TensorMap:
        layer = _layer(config, layout, _EXPERTS)
        return _in_order({**layer, **_modules(layer), **_ENDS}, config)

    return Target("mindformers.mcore", "MindFormers, mcore, training graph", parameters, shared_slots)


def inference() -> Target:
    """The inference graph, in one process.

    MindFormers fills it from a Hugging Face folder by itself, so nobody has to write such a file; this is for reading
    what was saved from one. Multi-token prediction is not part of the model there.

    Raises:
        MindportError: from `parameters`, for latent attention: there MindFormers reorders rows while it loads.
    """

    def parameters(config: TransformerConfig) -> TensorMap:
        if config.multi_latent_attention:
            raise MindportError(
                tr("MindFormers' inference graph has latent attention in an order of its own."),
                tr("Give it the Hugging Face folder, which it reads itself."),
            )
        layer = _layer(config, McoreLayout(True, False), _STACKED_EXPERTS)
        return _in_order({**layer, **_ENDS}, config)

    return Target("mindformers.mcore.inference", "MindFormers, mcore, inference graph", parameters)
