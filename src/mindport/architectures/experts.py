"""Mixture of experts in llama-like families: config keys and tensors that they share."""

from __future__ import annotations

from mindport.architectures.common import size
from mindport.architectures.vocabulary import TRAINING, Field, Ignored, Rule
from mindport.layout import Fuse, Stack, Stored

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


STACKED: dict[str, str | Stored] = {
    "{base}layers.{L}.mlp.gate.weight": "layer.{L}.mlp.router.weight",
    "{base}layers.{L}.mlp.experts.gate_up_proj": Stored(
        ("layer.{L}.mlp.experts.{E}.gate.weight", "layer.{L}.mlp.experts.{E}.up.weight"), (Fuse(of=2), Stack())
    ),
    "{base}layers.{L}.mlp.experts.down_proj": Stored(("layer.{L}.mlp.experts.{E}.down.weight",), (Stack(),)),
}
"""Experts as transformers 5 holds them in memory, and some of its files with it."""
