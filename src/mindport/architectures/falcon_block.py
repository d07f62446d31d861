"""Falcon's blocks: five config keys that together say which heads share keys, and how attention and MLP lie."""

from __future__ import annotations

from typing import Any

from mindport.architectures.vocabulary import TRAINING, Computed, HFConfig, Joint, checked
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.schema import TransformerConfig

KEYS = ("new_decoder_architecture", "multi_query", "num_kv_heads", "parallel_attn", "num_ln_in_parallel_attn")


def _decode(hf: HFConfig) -> dict[str, Any]:
    new, shared, parallel = (_on(hf, key) for key in ("new_decoder_architecture", "multi_query", "parallel_attn"))
    heads, groups, norms = hf["num_attention_heads"], hf["num_kv_heads"], hf["num_ln_in_parallel_attn"]
    groups = heads if groups is None else checked("num_kv_heads", groups, int, 1)
    if new:
        runs = parallel and norms in (None, 1, 2)
    else:
        runs = (shared or groups == heads) and (not parallel or norms in (None, 1))
        groups = 1 if shared else heads
    if not runs:
        raise MindportError(
            tr("Falcon's class cannot run with {keys}.", keys=", ".join(f"{key} = {hf[key]}" for key in KEYS)),
            tr("Correct it in config.json."),
        )
    together = "two_norms" if new and norms != 1 else "one_norm"
    return {"num_query_groups": groups, "parallel_block": together if parallel else "none"}


def _encode(config: TransformerConfig) -> dict[str, Any]:
    block, groups = config.parallel_block, config.num_query_groups
    new = block == "two_norms" or (block == "one_norm" and 1 < groups < config.num_attention_heads)
    norms = {"two_norms": 2, "one_norm": 1}.get(block)
    return dict(zip(KEYS, (new, groups == 1, groups, block != "none", norms), strict=True))


def _on(hf: HFConfig, key: str) -> bool:
    return hf[key] is not None and bool(checked(key, hf[key], bool))


BLOCK = Joint(
    KEYS,
    _decode,
    _encode,
    {
        "7B": dict(zip(KEYS, (False, True, None, True, None), strict=True)),
        "RW": dict(zip(KEYS, (False, False, None, False, None), strict=True)),
        "one key for all heads, in sequence": dict(zip(KEYS, (False, True, 1, False, 2), strict=True)),
        "a key for each head, in parallel": dict(zip(KEYS, (False, False, None, True, 1), strict=True)),
        "40B": dict(zip(KEYS, (True, True, 2, True, None), strict=True)),
        "2-11B": {"new_decoder_architecture": True, "parallel_attn": True, "num_ln_in_parallel_attn": 1},
    },
)


def _dropout(value: Any, hf: HFConfig) -> dict[str, Any]:
    p = checked("attention_dropout", value, float, 0, 1)
    return {
        "attention_dropout": p if _on(hf, "alibi") else 0.0,
        "attention_output_dropout": None if _on(hf, "parallel_attn") else p,
    }


ATTENTION_DROPOUT = Computed(
    "attention_dropout",
    float,
    _dropout,
    lambda config: config.attention_dropout or config.attention_output_dropout or 0.0,
    layer=TRAINING,
)
"""One probability for two places: attention weights, with ALiBi only, and what attention gives, in sequence only."""
