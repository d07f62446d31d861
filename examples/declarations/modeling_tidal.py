"""The PyTorch side of Tidal, as its makers would have written it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from transformers import AutoConfig, AutoModelForCausalLM, GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput


class TidalConfig(PretrainedConfig):
    model_type = "tidal"
    attribute_map = {"hidden_size": "dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads"}  # noqa: RUF012

    def __init__(
        self,
        vocab_size: int = 256,
        dim: int = 64,
        ffn_dim: int | None = None,
        n_layers: int = 2,
        n_heads: int = 4,
        n_kv_heads: int | None = None,
        max_context: int = 256,
        norm_eps: float = 1e-5,
        rope_base: float = 10000.0,
        initializer_range: float = 0.02,
        tie_word_embeddings: bool = False,
        **more: Any,
    ) -> None:
        self.vocab_size, self.dim, self.n_layers, self.n_heads = vocab_size, dim, n_layers, n_heads
        self.ffn_dim = 3 * dim if ffn_dim is None else ffn_dim
        self.n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        self.max_context, self.norm_eps, self.rope_base = max_context, norm_eps, rope_base
        self.initializer_range = initializer_range
        super().__init__(tie_word_embeddings=tie_word_embeddings, **more)


def rotated(x: torch.Tensor, base: float) -> torch.Tensor:
    """x (batch, heads, seq, width), each pair (i, i + width/2) turned by its position times its frequency."""
    half = x.shape[-1] // 2
    angles = torch.arange(x.shape[-2])[:, None] * base ** (-torch.arange(half) / half)
    one, other = x[..., :half], x[..., half:]
    return torch.cat([one * angles.cos() - other * angles.sin(), other * angles.cos() + one * angles.sin()], dim=-1)


class Block(nn.Module):
    def __init__(self, config: TidalConfig) -> None:
        super().__init__()
        self.config, self.width = config, config.dim // config.n_heads
        rows = (config.n_heads + 2 * config.n_kv_heads) * self.width
        self.norm_in = nn.RMSNorm(config.dim, config.norm_eps)
        self.qkv = nn.Linear(config.dim, rows, bias=False)
        self.out = nn.Linear(config.dim, config.dim, bias=False)
        self.norm_mid = nn.RMSNorm(config.dim, config.norm_eps)
        self.gate_up = nn.Linear(config.dim, 2 * config.ffn_dim, bias=False)
        self.down = nn.Linear(config.ffn_dim, config.dim, bias=False)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, seq, _ = x.shape
        groups, queries = self.config.n_kv_heads, self.config.n_heads // self.config.n_kv_heads
        fused = self.qkv(self.norm_in(x)).view(batch, seq, groups, queries + 2, self.width).permute(0, 2, 3, 1, 4)
        q, k, v = fused[:, :, :queries], fused[:, :, queries : queries + 1], fused[:, :, queries + 1 :]
        q, k = rotated(q, self.config.rope_base), rotated(k, self.config.rope_base)
        scores = q @ k.transpose(-1, -2) * self.width**-0.5
        weights = scores.masked_fill(~mask[:, None, None], torch.finfo(scores.dtype).min).softmax(-1)
        x = x + self.out((weights @ v).permute(0, 3, 1, 2, 4).reshape(batch, seq, -1))
        gate, up = self.gate_up(self.norm_mid(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Tidal(nn.Module):
    def __init__(self, config: TidalConfig) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocab_size, config.dim)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layers))
        self.norm = nn.RMSNorm(config.dim, config.norm_eps)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x)


class TidalForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = TidalConfig
    base_model_prefix = "tidal"

    def __init__(self, config: TidalConfig) -> None:
        super().__init__(config)
        self.tidal = Tidal(config)
        self.head = nn.Linear(config.dim, config.vocab_size, bias=False)
        self.post_init()

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None, **_: Any) -> CausalLMOutput:
        seq = input_ids.shape[1]
        mask = torch.ones(seq, seq, dtype=torch.bool).tril()[None].expand(len(input_ids), -1, -1)
        if attention_mask is not None:
            mask = mask & attention_mask.bool()[:, None]
        return CausalLMOutput(logits=self.head(self.tidal(input_ids, mask)))

    def prepare_inputs_for_generation(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None, **_: Any
    ) -> dict[str, Any]:
        return {"input_ids": input_ids, "attention_mask": attention_mask}  # all of it: there is no cache


def register_with_transformers() -> None:
    AutoConfig.register("tidal", TidalConfig, exist_ok=True)
    AutoModelForCausalLM.register(TidalConfig, TidalForCausalLM, exist_ok=True)
