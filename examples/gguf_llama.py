"""Turn a GGUF file that holds a Llama model into a Hugging Face model folder with fp32 weights.

Quantised weights come back as the exact fp32 numbers that their blocks stand for: the folder is the model of
the GGUF file, not the one that the file was quantised from.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np

# GGUF leaf name (after `blk.N.`) -> Hugging Face leaf name (after `model.layers.N.`). The GGUF names are
# those of the format's specification, "Standardized tensor names".
LAYER_NAMES = {
    "attn_norm.weight": "input_layernorm.weight",
    "attn_q.weight": "self_attn.q_proj.weight",
    "attn_k.weight": "self_attn.k_proj.weight",
    "attn_v.weight": "self_attn.v_proj.weight",
    "attn_output.weight": "self_attn.o_proj.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
    "ffn_gate.weight": "mlp.gate_proj.weight",
    "ffn_up.weight": "mlp.up_proj.weight",
    "ffn_down.weight": "mlp.down_proj.weight",
}
# No `output.weight`: a file that has one does not tie its head to the embedding, and is refused below.
TOP_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
}


def convert(source: Path, folder: Path) -> None:
    """Write the model and the tokenizer of the GGUF file `source` into the existing, empty `folder`."""
    reader = gguf.GGUFReader(source)
    config = llama_config(reader)
    _write_json(folder / "config.json", config)
    # Without this file `generate` would still stop at the right token, since transformers falls back on
    # config.json; other tools do not.
    _write_json(folder / "generation_config.json", {k: config[k] for k in config if k.endswith("_token_id")})
    write_safetensors(folder / "model.safetensors", tensors(reader, config))
    save_tokenizer(reader, source, folder, config)


def metadata(reader: gguf.GGUFReader, key: str) -> Any:
    """Return the value of one metadata key of the file."""
    field = reader.get_field(key)
    if field is None:
        raise ValueError(f"the GGUF file says nothing about {key}")
    return field.contents()


def llama_config(reader: gguf.GGUFReader) -> dict[str, Any]:
    """Build config.json from the file's metadata."""

    def get(key: str) -> Any:
        return metadata(reader, key)

    if get("general.architecture") != "llama":
        raise ValueError(f"the GGUF file holds a {get('general.architecture')} model, not a Llama")
    scaled = [key for key in reader.fields if key.startswith("llama.rope.scaling.")]
    if scaled:
        raise ValueError(f"RoPE scaling is not supported here: {', '.join(scaled)}")
    hidden, heads = get("llama.embedding_length"), get("llama.attention.head_count")
    head_dim = get("llama.rope.dimension_count")
    if head_dim * heads != hidden:
        # The row order below would be another one if RoPE turned only a part of each head.
        raise ValueError(f"RoPE turns {head_dim} channels of each head, but a head has {hidden // heads}")
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,  # a bias would be a tensor that has no name in LAYER_NAMES
        "bos_token_id": get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": get("tokenizer.ggml.eos_token_id"),
        "head_dim": head_dim,
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": get("llama.feed_forward_length"),
        "max_position_embeddings": get("llama.context_length"),
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": heads,
        "num_hidden_layers": get("llama.block_count"),
        "num_key_value_heads": get("llama.attention.head_count_kv"),
        "pad_token_id": get("tokenizer.ggml.padding_token_id"),
        "rms_norm_eps": _shortest(get("llama.attention.layer_norm_rms_epsilon")),
        "rope_theta": _shortest(get("llama.rope.freq_base")),
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        "vocab_size": get("llama.vocab_size"),
    }


def hf_name(name: str) -> str:
    """Translate one GGUF tensor name; refuse a tensor that the plain Llama layout has no place for."""
    if name in TOP_NAMES:
        return TOP_NAMES[name]
    block, _, rest = name.partition(".")
    layer, _, leaf = rest.partition(".")
    if block != "blk" or not layer.isdigit() or leaf not in LAYER_NAMES:
        raise ValueError(f"the GGUF file has a tensor {name}, which a Llama with a tied head does not have")
    return f"model.layers.{layer}.{LAYER_NAMES[leaf]}"


def hf_row_order(heads: int, head_dim: int) -> np.ndarray:
    """Return, for each row of a Hugging Face q or k weight, the row of the GGUF weight that belongs there.

    RoPE turns the channels of a head two by two, pair j by the angle position * theta ** (-2 * j / head_dim).
    The two conventions differ in which two channels form pair j:

    * GGUF's llama, like Meta's original code, takes neighbours: 2 * j and 2 * j + 1.
    * transformers takes the two halves (`rotate_half`): j and j + head_dim / 2.

    So row 2 * j + s of a head in the file (s = 0 or 1) is row s * head_dim / 2 + j of that head in
    transformers. q and k scores are sums over all channels, so they do not care where a pair sits, as long
    as q and k agree; but the angles care, and with the wrong order a model still runs and talks nonsense.

    Shape: (heads * head_dim,). `heads` is the number of key/value heads for a k weight.
    """
    pairs = np.arange(head_dim).reshape(head_dim // 2, 2)  # pairs[j, s] = 2 * j + s
    one_head = pairs.T.reshape(-1)  # at s * head_dim / 2 + j
    return (np.arange(heads)[:, np.newaxis] * head_dim + one_head).reshape(-1)


Tensor = tuple[str, tuple[int, ...], Callable[[], np.ndarray]]


def tensors(reader: gguf.GGUFReader, config: dict[str, Any]) -> list[Tensor]:
    """List name, shape and loader of each tensor of the Hugging Face checkpoint.

    A loader dequantises its tensor to fp32 when it is called, and keeps nothing.
    """
    row_orders = {
        "attn_q": hf_row_order(config["num_attention_heads"], config["head_dim"]),
        "attn_k": hf_row_order(config["num_key_value_heads"], config["head_dim"]),
    }

    def loader(stored: gguf.ReaderTensor) -> Callable[[], np.ndarray]:
        def load() -> np.ndarray:
            values = gguf.dequantize(stored.data, stored.tensor_type)
            for leaf, order in row_orders.items():
                if f".{leaf}." in stored.name:
                    values = values[order]
            return values

        return load

    found: dict[str, Tensor] = {}
    for stored in reader.tensors:
        shape = tuple(int(size) for size in reversed(stored.shape))  # GGUF counts the fastest axis first
        found[hf_name(stored.name)] = (hf_name(stored.name), shape, loader(stored))
    wanted = set(TOP_NAMES.values()) | {
        f"model.layers.{layer}.{leaf}" for layer in range(config["num_hidden_layers"]) for leaf in LAYER_NAMES.values()
    }
    if found.keys() != wanted:
        raise ValueError(f"the GGUF file lacks or exceeds its layers at {sorted(found.keys() ^ wanted)}")
    return list(found.values())


def write_safetensors(path: Path, contents: list[Tensor]) -> None:
    """Write fp32 tensors one after the other, with only one of them in memory at a time.

    The safetensors library wants all of them at once. The format is simple enough to do without: the length
    of the header (8 bytes, little-endian), the header (JSON, padded with blanks so that the data starts at
    a multiple of 8), then the data in the order and at the offsets that the header gives.
    """
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0  # bytes from the start of the data
    for name, shape, _ in contents:
        end = offset + 4 * int(np.prod(shape))
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, shape, load in contents:
            values = np.ascontiguousarray(load(), dtype="<f4")
            if values.shape != shape:
                raise ValueError(f"{name} has the shape {values.shape} where the GGUF file announces {shape}")
            file.write(values.data)


def save_tokenizer(reader: gguf.GGUFReader, source: Path, folder: Path, config: dict[str, Any]) -> None:
    """Let transformers read vocabulary and merges out of the GGUF file; add the rest, and save it."""
    rule = metadata(reader, "tokenizer.ggml.pre")
    if rule != "smollm":
        raise ValueError(f"the GGUF file wants the pre-tokenizer {rule}; only smollm is known here")
    # Here, not at the top: transformers imports torch, which nothing else in this file needs.
    from tokenizers import pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    read = PreTrainedTokenizerFast.from_pretrained(source.parent, gguf_file=source.name).backend_tokenizer
    # transformers does not know the name "smollm" and keeps GPT-2's rule alone. SmolLM first cuts out each
    # digit, then applies GPT-2's rule to what lies between. The digits 0 to 9 come out the same either way,
    # since no merge touches one, but blanks and line breaks before them do not: in what the model was
    # trained on "\n\n1" is a double line break and a digit, and without this it would be two line breaks
    # and a digit.
    read.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    # Said again in full, because transformers 4 takes <|im_start|> for the end of a text.
    tokens = metadata(reader, "tokenizer.ggml.tokens")
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=read,
        bos_token=tokens[config["bos_token_id"]],
        eos_token=tokens[config["eos_token_id"]],
        pad_token=tokens[config["pad_token_id"]],
        unk_token=tokens[metadata(reader, "tokenizer.ggml.unknown_token_id")],
        model_max_length=config["max_position_embeddings"],
        clean_up_tokenization_spaces=False,
        chat_template=metadata(reader, "tokenizer.chat_template"),
    )
    tokenizer.save_pretrained(folder)
    # transformers 5 saves it under a new class name, which transformers 4 cannot load; both know this one.
    path = folder / "tokenizer_config.json"
    _write_json(path, json.loads(path.read_text(encoding="utf-8")) | {"tokenizer_class": "PreTrainedTokenizerFast"})


def _shortest(value: float) -> float:
    """Return the shortest decimal that stands for the same fp32 number: 1e-05, not 9.999999747378752e-06."""
    return float(str(np.float32(value)))


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
