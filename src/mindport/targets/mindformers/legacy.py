"""MindFormers' legacy generation: the parameters of its LlamaForCausalLM, which serves all models of Llama's shape."""

from __future__ import annotations

from dataclasses import dataclass

from mindport.architectures.common import QKV
from mindport.architectures.naming import Spelling, filled_in
from mindport.layout import Fuse, Stored, TensorMap
from mindport.schema import TransformerConfig, slots_of
from mindport.targets.target import Target


@dataclass(frozen=True)
class LegacyLayout:
    """The setting of a LlamaConfig that decides how weights lie.

    Args:
        qkv_concat: q, k and v are one matrix, group by group as in Megatron, and so is their bias; rows of gate and up
            take turns. Since 1.6: before, they followed each other within each share of a tensor-parallel group, so
            that the file depended on their number.
    """

    qkv_concat: bool = False

    def settings(self) -> dict[str, bool]:
        """For the model config."""
        return {"qkv_concat": self.qkv_concat}


_AT = "model.layers.{L}."

_COMMON: dict[str, str | Stored] = {
    "model.tok_embeddings.embedding_weight": "embedding.word.weight",
    f"{_AT}attention_norm.weight": "layer.{L}.attention_norm.weight",
    f"{_AT}attention.wo.{{p}}": "layer.{L}.attention.o.{p}",
    f"{_AT}ffn_norm.weight": "layer.{L}.mlp_norm.weight",
    f"{_AT}feed_forward.w2.weight": "layer.{L}.mlp.down.weight",
    "model.norm_out.weight": "final_norm.weight",
    "lm_head.weight": "head.output.weight",
}

_SEPARATE: dict[str, str | Stored] = {
    f"{_AT}attention.wq.{{p}}": "layer.{L}.attention.q.{p}",
    f"{_AT}attention.wk.{{p}}": "layer.{L}.attention.k.{p}",
    f"{_AT}attention.wv.{{p}}": "layer.{L}.attention.v.{p}",
    f"{_AT}feed_forward.w1.weight": "layer.{L}.mlp.gate.weight",
    f"{_AT}feed_forward.w3.weight": "layer.{L}.mlp.up.weight",
}

_CONCATENATED: dict[str, str | Stored] = {
    f"{_AT}attention.w_qkv.{{p}}": Stored(QKV, (Fuse("num_query_groups"),)),
    f"{_AT}feed_forward.w_gate_hidden.weight": Stored(
        ("layer.{L}.mlp.gate.weight", "layer.{L}.mlp.up.weight"), (Fuse("ffn_hidden_size"),)
    ),
}


def llama(layout: LegacyLayout) -> Target:
    """LlamaForCausalLM with this setting."""
    tensors = {**_COMMON, **(_CONCATENATED if layout.qkv_concat else _SEPARATE)}

    def parameters(config: TransformerConfig) -> TensorMap:
        place = {slot: number for number, slot in enumerate(slots_of(config))}
        filled = filled_in(tensors, config, Spelling(""))
        return dict(sorted(filled.items(), key=lambda item: place[item[1].parts[0]]))

    return Target("mindformers.legacy", "MindFormers, legacy, LlamaForCausalLM", parameters)
