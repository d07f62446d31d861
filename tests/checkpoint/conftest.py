"""Tiny checkpoints made by hand with numpy: every value distinct, and where each has to go written out here.

The mapping is spelled out apart from the declarations, so that a mistake in a declaration is not repeated in its test.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Arrays = dict[str, np.ndarray]


@dataclass
class Tiny:
    """A Hugging Face checkpoint, and the slots its values belong in."""

    config: dict[str, Any]
    tensors: Arrays
    slots: Arrays
    skipped: Arrays = field(default_factory=dict)

    def save(self, folder: Path, *, shards: int = 1) -> Path:
        """Write it as transformers does: config.json, and one file or several with an index."""
        numpy_format = pytest.importorskip("safetensors.numpy")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(self.config), encoding="utf-8")
        tensors = {**self.tensors, **self.skipped}
        if shards == 1:
            numpy_format.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
            return folder
        weight_map = {}
        for shard in range(shards):
            file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
            part = {name: tensors[name] for i, name in enumerate(sorted(tensors)) if i % shards == shard}
            numpy_format.save_file(part, folder / file, metadata={"format": "pt"})
            weight_map.update(dict.fromkeys(part, file))
        index = {"metadata": {"total_size": sum(t.nbytes for t in tensors.values())}, "weight_map": weight_map}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
        return folder


class _Values:
    """Distinct random values, the same in every run."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(20)

    def __call__(self, *shape: int) -> np.ndarray:
        return self._rng.standard_normal(shape).astype(np.float32)


def llama(*, tied: bool = False, copy: bool = False, base: str = "model.") -> Tiny:
    """Two layers, four query heads of width 3 on two key/value heads: no two sizes are equal but k and v's."""
    new, hidden, ffn, vocab = _Values(), 8, 10, 11
    queries, keys = 4 * 3, 2 * 3
    tensors, slots = {}, {}

    def put(name: str, slot: str, *shape: int) -> None:
        tensors[base + name] = slots[slot] = new(*shape)

    put("embed_tokens.weight", "embedding.word.weight", vocab, hidden)
    for layer in range(2):
        ours, theirs = f"layer.{layer}", f"layers.{layer}"
        put(f"{theirs}.input_layernorm.weight", f"{ours}.attention_norm.weight", hidden)
        put(f"{theirs}.self_attn.q_proj.weight", f"{ours}.attention.q.weight", queries, hidden)
        put(f"{theirs}.self_attn.k_proj.weight", f"{ours}.attention.k.weight", keys, hidden)
        put(f"{theirs}.self_attn.v_proj.weight", f"{ours}.attention.v.weight", keys, hidden)
        put(f"{theirs}.self_attn.o_proj.weight", f"{ours}.attention.o.weight", hidden, queries)
        put(f"{theirs}.post_attention_layernorm.weight", f"{ours}.mlp_norm.weight", hidden)
        put(f"{theirs}.mlp.gate_proj.weight", f"{ours}.mlp.gate.weight", ffn, hidden)
        put(f"{theirs}.mlp.up_proj.weight", f"{ours}.mlp.up.weight", ffn, hidden)
        put(f"{theirs}.mlp.down_proj.weight", f"{ours}.mlp.down.weight", hidden, ffn)
    put("norm.weight", "final_norm.weight", hidden)
    if not tied and base:
        tensors["lm_head.weight"] = slots["head.output.weight"] = new(vocab, hidden)
    if copy:
        tensors["lm_head.weight"] = tensors[base + "embed_tokens.weight"]
    config = {
        "architectures": ["LlamaForCausalLM" if base else "LlamaModel"],
        "model_type": "llama",
        "vocab_size": vocab,
        "hidden_size": hidden,
        "intermediate_size": ffn,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 3,
        "max_position_embeddings": 16,
        "tie_word_embeddings": tied,
        "torch_dtype": "float32",
    }
    return Tiny(config, tensors, slots)


def gpt2(*, base: str = "transformer.", buffers: bool = False, copy: bool = False) -> Tiny:
    """Hidden and inner size are equal, so every projection but c_attn is square: a forgotten transpose has no shape."""
    new, hidden, vocab, positions = _Values(), 6, 11, 9
    tensors, slots, skipped = {}, {}, {}

    def put(name: str, slot: str, *shape: int) -> None:
        tensors[base + name] = slots[slot] = new(*shape)

    def norm(name: str, slot: str) -> None:
        put(f"{name}.weight", f"{slot}.weight", hidden)
        put(f"{name}.bias", f"{slot}.bias", hidden)

    def conv1d(name: str, *slot_names: str) -> None:
        weight, bias = new(hidden, hidden * len(slot_names)), new(hidden * len(slot_names))
        tensors[f"{base}{name}.weight"], tensors[f"{base}{name}.bias"] = weight, bias
        for i, slot in enumerate(slot_names):
            columns = slice(i * hidden, (i + 1) * hidden)
            slots[f"{slot}.weight"], slots[f"{slot}.bias"] = weight[:, columns].T, bias[columns]

    put("wte.weight", "embedding.word.weight", vocab, hidden)
    put("wpe.weight", "embedding.position.weight", positions, hidden)
    for layer in range(2):
        ours, theirs = f"layer.{layer}", f"h.{layer}"
        norm(f"{theirs}.ln_1", f"{ours}.attention_norm")
        conv1d(f"{theirs}.attn.c_attn", *(f"{ours}.attention.{part}" for part in "qkv"))
        conv1d(f"{theirs}.attn.c_proj", f"{ours}.attention.o")
        norm(f"{theirs}.ln_2", f"{ours}.mlp_norm")
        conv1d(f"{theirs}.mlp.c_fc", f"{ours}.mlp.up")
        conv1d(f"{theirs}.mlp.c_proj", f"{ours}.mlp.down")
        if buffers:
            mask = np.tril(np.ones((positions, positions), dtype=bool))
            skipped[f"{base}{theirs}.attn.bias"] = mask.reshape(1, 1, positions, positions)
            skipped[f"{base}{theirs}.attn.masked_bias"] = np.array(-1e4, dtype=np.float32)
    norm("ln_f", "final_norm")
    if copy:
        tensors["lm_head.weight"] = tensors[base + "wte.weight"]
    config = {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": vocab,
        "n_embd": hidden,
        "n_inner": hidden,
        "n_layer": 2,
        "n_head": 2,
        "n_positions": positions,
    }
    return Tiny(config, tensors, slots, skipped)


def bert(
    *, hf_class: str = "BertModel", base: str = "", old_norms: bool = False, pooler: bool = True, copies: bool = False
) -> Tiny:
    """A BERT of one of two classes, in the spelling of today or of Google's release (gamma and beta)."""
    new, hidden, ffn, vocab, positions = _Values(), 6, 10, 11, 9
    tensors, slots = {}, {}
    weight, bias = ("gamma", "beta") if old_norms else ("weight", "bias")

    def put(name: str, slot: str, *shape: int) -> None:
        tensors[name] = slots[slot] = new(*shape)

    def linear(name: str, slot: str, out: int, into: int) -> None:
        put(f"{name}.weight", f"{slot}.weight", out, into)
        put(f"{name}.bias", f"{slot}.bias", out)

    def norm(name: str, slot: str) -> None:
        put(f"{name}.LayerNorm.{weight}", f"{slot}.weight", hidden)
        put(f"{name}.LayerNorm.{bias}", f"{slot}.bias", hidden)

    put(f"{base}embeddings.word_embeddings.weight", "embedding.word.weight", vocab, hidden)
    put(f"{base}embeddings.position_embeddings.weight", "embedding.position.weight", positions, hidden)
    put(f"{base}embeddings.token_type_embeddings.weight", "embedding.token_type.weight", 2, hidden)
    norm(f"{base}embeddings", "embedding.norm")
    for layer in range(2):
        ours, theirs = f"layer.{layer}", f"{base}encoder.layer.{layer}"
        linear(f"{theirs}.attention.self.query", f"{ours}.attention.q", hidden, hidden)
        linear(f"{theirs}.attention.self.key", f"{ours}.attention.k", hidden, hidden)
        linear(f"{theirs}.attention.self.value", f"{ours}.attention.v", hidden, hidden)
        linear(f"{theirs}.attention.output.dense", f"{ours}.attention.o", hidden, hidden)
        norm(f"{theirs}.attention.output", f"{ours}.attention_norm")
        linear(f"{theirs}.intermediate.dense", f"{ours}.mlp.up", ffn, hidden)
        linear(f"{theirs}.output.dense", f"{ours}.mlp.down", hidden, ffn)
        norm(f"{theirs}.output", f"{ours}.mlp_norm")
    if hf_class == "BertModel" and pooler:
        linear(f"{base}pooler.dense", "pooler", hidden, hidden)
    if hf_class == "BertForMaskedLM":
        linear("cls.predictions.transform.dense", "head.transform", hidden, hidden)
        norm("cls.predictions.transform", "head.norm")
        put("cls.predictions.bias", "head.output.bias", vocab)
    if copies:
        tensors["cls.predictions.decoder.weight"] = tensors[f"{base}embeddings.word_embeddings.weight"]
        tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"]
    skipped = {f"{base}embeddings.position_ids": np.arange(positions, dtype=np.int64).reshape(1, positions)}
    config = {
        "architectures": [hf_class],
        "model_type": "bert",
        "vocab_size": vocab,
        "hidden_size": hidden,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": ffn,
        "max_position_embeddings": positions,
    }
    return Tiny(config, tensors, slots, skipped)


def deepseek(*, base: str = "model.", modules: int = 1, stacked: bool = False, query_rank: int | None = 5) -> Tiny:
    """A dense layer, one with four experts, and modules for multi-token prediction behind it, as DeepSeek names them.

    Three heads, 4 + 2 wide for queries and keys, and 3 for values; experts one by one, or stacked.
    """
    new, hidden, vocab, rank, experts, ffn, expert_ffn, shared = _Values(), 8, 11, 7, 4, 10, 6, 12
    heads, plain, turned, wide = 3, 4, 2, 3
    tensors, slots = {}, {}

    def put(name: str, slot: str, *shape: int) -> None:
        tensors[base + name] = slots[slot] = new(*shape)

    def attention(theirs: str, ours: str) -> None:
        if query_rank is None:
            put(f"{theirs}.q_proj.weight", f"{ours}.q.weight", heads * (plain + turned), hidden)
        else:
            put(f"{theirs}.q_a_proj.weight", f"{ours}.q_down.weight", query_rank, hidden)
            put(f"{theirs}.q_a_layernorm.weight", f"{ours}.q_latent_norm.weight", query_rank)
            put(f"{theirs}.q_b_proj.weight", f"{ours}.q_up.weight", heads * (plain + turned), query_rank)
        down = tensors[f"{base}{theirs}.kv_a_proj_with_mqa.weight"] = new(rank + turned, hidden)
        slots[f"{ours}.kv_down.weight"], slots[f"{ours}.k_rope.weight"] = down[:rank], down[rank:]
        put(f"{theirs}.kv_a_layernorm.weight", f"{ours}.kv_latent_norm.weight", rank)
        up = tensors[f"{base}{theirs}.kv_b_proj.weight"] = new(heads * (plain + wide), rank)
        rows = range(0, heads * (plain + wide), plain + wide)
        slots[f"{ours}.k_up.weight"] = np.concatenate([up[row : row + plain] for row in rows])
        slots[f"{ours}.v_up.weight"] = np.concatenate([up[row + plain : row + plain + wide] for row in rows])
        put(f"{theirs}.o_proj.weight", f"{ours}.o.weight", hidden, heads * wide)

    def mlp(theirs: str, ours: str, width: int) -> None:
        put(f"{theirs}.gate_proj.weight", f"{ours}.gate.weight", width, hidden)
        put(f"{theirs}.up_proj.weight", f"{ours}.up.weight", width, hidden)
        put(f"{theirs}.down_proj.weight", f"{ours}.down.weight", hidden, width)

    def layer(theirs: str, ours: str, *, dense: bool) -> None:
        put(f"{theirs}.input_layernorm.weight", f"{ours}.attention_norm.weight", hidden)
        attention(f"{theirs}.self_attn", f"{ours}.attention")
        put(f"{theirs}.post_attention_layernorm.weight", f"{ours}.mlp_norm.weight", hidden)
        if dense:
            mlp(f"{theirs}.mlp", f"{ours}.mlp", ffn)
            return
        put(f"{theirs}.mlp.gate.weight", f"{ours}.mlp.router.weight", experts, hidden)
        put(f"{theirs}.mlp.gate.e_score_correction_bias", f"{ours}.mlp.router.score_correction", experts)
        one_by_one = [
            {"gate": new(expert_ffn, hidden), "up": new(expert_ffn, hidden), "down": new(hidden, expert_ffn)}
            for _ in range(experts)
        ]
        for part in ("gate", "up", "down"):
            slots[f"{ours}.mlp.experts.{part}.weight"] = np.stack([expert[part] for expert in one_by_one])
        where = f"{base}{theirs}.mlp.experts"
        if stacked:
            both = [np.concatenate([expert["gate"], expert["up"]]) for expert in one_by_one]
            tensors[f"{where}.gate_up_proj"] = np.stack(both)
            tensors[f"{where}.down_proj"] = slots[f"{ours}.mlp.experts.down.weight"]
        else:
            for number, expert in enumerate(one_by_one):
                tensors.update({f"{where}.{number}.{part}_proj.weight": a for part, a in expert.items()})
        mlp(f"{theirs}.mlp.shared_experts", f"{ours}.mlp.shared", shared)

    put("embed_tokens.weight", "embedding.word.weight", vocab, hidden)
    layer("layers.0", "layer.0", dense=True)
    layer("layers.1", "layer.1", dense=False)
    for module in range(modules):
        theirs, ours = f"layers.{2 + module}", f"mtp.{module}"
        layer(theirs, f"{ours}.layer", dense=False)
        put(f"{theirs}.embed_tokens.weight", f"{ours}.embedding.word.weight", vocab, hidden)
        put(f"{theirs}.enorm.weight", f"{ours}.embedding_norm.weight", hidden)
        put(f"{theirs}.hnorm.weight", f"{ours}.hidden_norm.weight", hidden)
        put(f"{theirs}.eh_proj.weight", f"{ours}.projection.weight", hidden, 2 * hidden)
        put(f"{theirs}.shared_head.norm.weight", f"{ours}.final_norm.weight", hidden)
        put(f"{theirs}.shared_head.head.weight", f"{ours}.head.output.weight", vocab, hidden)
    put("norm.weight", "final_norm.weight", hidden)
    if base:
        tensors["lm_head.weight"] = slots["head.output.weight"] = new(vocab, hidden)
    config = {
        "architectures": ["DeepseekV3ForCausalLM" if base else "DeepseekV3Model"],
        "model_type": "deepseek_v3",
        "vocab_size": vocab,
        "hidden_size": hidden,
        "intermediate_size": ffn,
        "moe_intermediate_size": expert_ffn,
        "num_hidden_layers": 2,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "n_shared_experts": 2,
        "n_routed_experts": experts,
        "n_group": 2,
        "topk_group": 1,
        "num_experts_per_tok": 2,
        "first_k_dense_replace": 1,
        "q_lora_rank": query_rank,
        "kv_lora_rank": rank,
        "qk_nope_head_dim": plain,
        "qk_rope_head_dim": turned,
        "v_head_dim": wide,
        "eos_token_id": 2,
        "num_nextn_predict_layers": max(modules, 1),  # also where the file lacks them
    }
    return Tiny(config, tensors, slots)


@pytest.fixture
def make() -> Callable[..., Tiny]:
    """`make("llama", tied=True)`: a tiny checkpoint."""
    makers: dict[str, Callable[..., Tiny]] = {"llama": llama, "gpt2": gpt2, "bert": bert, "deepseek_v3": deepseek}
    return lambda model_type, **variant: makers[model_type](**variant)
