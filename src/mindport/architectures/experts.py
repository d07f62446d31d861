"""Mixture of experts in llama-like families: config keys and tensors that they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mindport.architectures.common import size
from mindport.architectures.vocabulary import STRUCTURE, TRAINING, Field, HFConfig, Ignored, Rule, checked
from mindport.layout import Fuse, Stack, Stored
from mindport.schema import TransformerConfig


@dataclass(frozen=True)
class SparseLayers:
    """Qwen's choice of layers with experts: each `decoder_sparse_step`-th, but for `mlp_only_layers`."""

    keys: tuple[str, ...] = ("mlp_only_layers", "decoder_sparse_step")
    layer: str = STRUCTURE
    aliases: tuple[str, ...] = ()

    def decode(self, hf: HFConfig) -> dict[str, Any]:
        step = checked("decoder_sparse_step", hf["decoder_sparse_step"], int, 1)
        dense = [] if hf["mlp_only_layers"] is None else checked("mlp_only_layers", hf["mlp_only_layers"], list)
        layers = range(hf["num_hidden_layers"])
        sparse = [int(layer not in dense and (layer + 1) % step == 0) for layer in layers]
        return {"moe_layer_freq": None if all(sparse) else sparse}

    def encode(self, config: TransformerConfig) -> dict[str, Any]:
        dense = [layer for layer, sparse in enumerate(config.moe_layer_freq or []) if not sparse]
        return {"mlp_only_layers": dense, "decoder_sparse_step": 1}


@dataclass(frozen=True)
class DenseFirst:
    """DeepSeek's choice of layers with experts: all but the first `first_k_dense_replace`."""

    keys: tuple[str, ...] = ("first_k_dense_replace",)
    layer: str = STRUCTURE
    aliases: tuple[str, ...] = ()

    def decode(self, hf: HFConfig) -> dict[str, Any]:
        (key,) = self.keys
        dense = checked(key, hf[key], int, 0)
        sparse = [int(layer >= dense) for layer in range(hf["num_hidden_layers"])]
        return {"moe_layer_freq": None if all(sparse) else sparse}

    def encode(self, config: TransformerConfig) -> dict[str, Any]:
        (key,) = self.keys
        return {key: (config.moe_layer_freq or []).count(0)}


ROUTING: tuple[Rule, ...] = (
    size("num_experts_per_tok", "moe_router_topk"),
    Field("router_aux_loss_coef", "moe_aux_loss_coeff", float, layer=TRAINING, minimum=0),
    Ignored(("output_router_logits",), "how the PyTorch class is called or returns"),
)


def per_expert(block: str, gate: str, up: str, down: str) -> dict[str, str]:
    """A tensor for each expert's projection: `per_expert("mlp.experts", "gate_proj", "up_proj", "down_proj")`."""
    names = {"gate": gate, "up": up, "down": down}
    return {
        f"{{base}}layers.{{L}}.{block}.{{E}}.{name}.weight": f"layer.{{L}}.mlp.experts.{{E}}.{slot}.weight"
        for slot, name in names.items()
    }


def mlp(block: str, slot: str) -> dict[str, str]:
    """The three projections of an MLP: `mlp("mlp.shared_experts", "mlp.shared")`."""
    return {
        f"{{base}}layers.{{L}}.{block}.{name}_proj.{{p}}": f"layer.{{L}}.{slot}.{name}.{{p}}"
        for name in ("gate", "up", "down")
    }


STACKED: dict[str, str | Stored] = {
    "{base}layers.{L}.mlp.gate.weight": "layer.{L}.mlp.router.weight",
    "{base}layers.{L}.mlp.experts.gate_up_proj": Stored(
        ("layer.{L}.mlp.experts.{E}.gate.weight", "layer.{L}.mlp.experts.{E}.up.weight"), (Fuse(of=2), Stack())
    ),
    "{base}layers.{L}.mlp.experts.down_proj": Stored(("layer.{L}.mlp.experts.{E}.down.weight",), (Stack(),)),
}
"""Experts as transformers 5 holds them in memory, and some of its files with it."""
