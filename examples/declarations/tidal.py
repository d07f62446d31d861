"""A declaration of one's own: Tidal, a made-up decoder with names, keys and fused tensors that no other model has.

    mindport convert MODEL -o DIR --declarations examples/declarations

What it is made of is explained in docs/extending/own_architecture.md. `modeling_tidal.py` is its PyTorch side, which
only `register` imports.
"""

from mindport.architectures.common import COMMON, QKV, head_width, padding_row, size
from mindport.architectures.vocabulary import Architecture, Field, HFClass, Only
from mindport.layout import Fuse, Stored

BLOCK = "tidal.blocks.{L}."

ARCHITECTURE = Architecture(
    model_type="tidal",
    title="Tidal",
    classes={"TidalForCausalLM": HFClass({"head": "causal_lm"})},
    constants={"normalization": "RMSNorm", "gated_linear_unit": True, "activation_func": "silu"},
    computed={
        "kv_channels": lambda hf: head_width(hf, "dim", "n_heads"),
        "softmax_scale": lambda hf: head_width(hf, "dim", "n_heads") ** -0.5,
        "embedding_padding_idx": padding_row,
    },
    rules=(
        size("vocab_size", "vocab_size"),
        size("dim", "hidden_size"),
        size("ffn_dim", "ffn_hidden_size", derive=lambda hf: 3 * hf["dim"]),
        size("n_layers", "num_layers"),
        size("n_heads", "num_attention_heads"),
        size("n_kv_heads", "num_query_groups", derive=lambda hf: hf["n_heads"]),
        size("max_context", "max_position_embeddings"),
        Field("norm_eps", "layernorm_epsilon", float, minimum=0),
        Field("rope_base", "rotary_base", float, minimum=1),
        Field("initializer_range", "init_method_std", float, minimum=0),
        Only("tie_word_embeddings", False, "Tidal has a head of its own"),
        *COMMON,
    ),
    tensors={
        "tidal.tokens.weight": "embedding.word.weight",
        f"{BLOCK}norm_in.weight": "layer.{L}.attention_norm.weight",
        # Each key/value head with its queries: q q k v, q q k v, ...
        f"{BLOCK}qkv.{{p}}": Stored(QKV, (Fuse("num_query_groups"),)),
        f"{BLOCK}out.weight": "layer.{L}.attention.o.weight",
        f"{BLOCK}norm_mid.weight": "layer.{L}.mlp_norm.weight",
        f"{BLOCK}gate_up.weight": Stored(("layer.{L}.mlp.gate.weight", "layer.{L}.mlp.up.weight"), (Fuse(),)),
        f"{BLOCK}down.weight": "layer.{L}.mlp.down.weight",
        "tidal.norm.weight": "final_norm.weight",
        "head.weight": "head.output.weight",
    },
)


def register() -> None:
    """Make the PyTorch class known to transformers; called before `verify` and `migrate` load the source model."""
    from .modeling_tidal import register_with_transformers

    register_with_transformers()
