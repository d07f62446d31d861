"""Phi-3, Phi-3.5, Phi-4 and Phi-4-mini: Llama with joined projections, LongRoPE, and dropout on the residuals."""

from mindport.architectures.common import QKV, head_width, padding_row, probability
from mindport.architectures.llama_like import BASES, CONSTANTS, TENSORS, TIED, UNUSED, classes, rules
from mindport.architectures.partial_rope import LongRope
from mindport.architectures.vocabulary import TRAINING, Architecture, Ignored, Only, Repeats
from mindport.architectures.windows import Window
from mindport.layout import Fuse, Stored

JOINED = {
    "{base}layers.{L}.self_attn.qkv_proj.{p}": Stored(QKV, (Fuse(),)),
    "{base}layers.{L}.mlp.gate_up_proj.{p}": Stored(("layer.{L}.mlp.gate.{p}", "layer.{L}.mlp.up.{p}"), (Fuse(),)),
}
APART = tuple(f".{name}_proj." for name in ("q", "k", "v", "gate", "up"))

ARCHITECTURE = Architecture(
    model_type="phi3",
    title="Phi-3, Phi-4",
    classes=classes("Phi3"),
    constants=CONSTANTS,
    computed={
        "embedding_padding_idx": padding_row,
        "kv_channels": head_width,
        "softmax_scale": lambda hf: head_width(hf) ** -0.5,
    },
    rules=(
        *rules(Repeats("head_dim", head_width, "heads share the hidden size evenly"), LongRope()),
        Window(),
        probability("resid_pdrop", "hidden_dropout"),
        *(Only(key, False, "Phi-3's class has no such bias") for key in ("attention_bias", "mlp_bias", "lm_head_bias")),
        *(Only(key, 1, "Phi-3's class does not read it") for key in ("full_attn_mod", "interpolate_factor")),
        Ignored(("embd_pdrop",), "Phi-3's class drops nothing there", TRAINING),
    ),
    bases=BASES,
    tensors={**{name: slot for name, slot in TENSORS.items() if not any(part in name for part in APART)}, **JOINED},
    unused=UNUSED,
    tied=TIED,
)
