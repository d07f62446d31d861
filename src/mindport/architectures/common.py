"""Rules and slots that many declarations share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mindport.architectures.quantisation import Quantisation
from mindport.architectures.vocabulary import (
    RECORD,
    RUNTIME,
    STRUCTURE,
    TRAINING,
    Field,
    HFConfig,
    Ignored,
    Only,
    Rule,
    checked,
)
from mindport.errors import MindportError, brief
from mindport.i18n import tr
from mindport.schema import TransformerConfig
from mindport.schema.activations import ACTIVATIONS

QKV = tuple(f"layer.{{L}}.attention.{part}.{{p}}" for part in "qkv")
"""Query, key and value of one layer, in this order."""

ACTIVATION_NAMES = tuple(ACTIVATIONS)


def size(key: str, to: str | tuple[str, ...], minimum: int = 1, **more: Any) -> Field:
    """A dimension: a positive integer."""
    return Field(key, to, int, minimum=minimum, **more)


def probability(key: str, to: str | tuple[str, ...], **more: Any) -> Field:
    """A dropout probability."""
    return Field(key, to, float, layer=TRAINING, minimum=0, maximum=1, **more)


def head_width(hf: HFConfig, hidden: str = "hidden_size", heads: str = "num_attention_heads") -> int:
    """hidden / heads, which must divide where the config cannot give a width of its own.

    Raises:
        MindportError: the heads do not divide the hidden size.
    """
    if hf[hidden] % hf[heads]:
        raise MindportError(
            tr(
                "{hidden} = {width} is not a multiple of {heads} = {count}.",
                hidden=hidden,
                width=hf[hidden],
                heads=heads,
                count=hf[heads],
            ),
            tr("Correct it in config.json."),
        )
    return hf[hidden] // hf[heads]


def padding_row(hf: HFConfig) -> int | None:
    """What torch.nn.Embedding(padding_idx=pad_token_id) means: a negative one counts from the end."""
    row = hf["pad_token_id"]
    return hf["vocab_size"] + row if isinstance(row, int) and row < 0 else row


@dataclass(frozen=True)
class EndOfSequence:
    """`eos_token_id`: one id, several, or none."""

    keys: tuple[str, ...] = ("eos_token_id",)
    layer: str = STRUCTURE
    aliases: tuple[str, ...] = ()

    def decode(self, hf: HFConfig) -> dict[str, Any]:
        value = hf["eos_token_id"]
        ids = value if isinstance(value, list) else [value]
        if value is not None and not all(isinstance(i, int) and not isinstance(i, bool) for i in ids):
            raise MindportError(
                tr("eos_token_id must be an integer or a list of integers, not {value}.", value=brief(value)),
                tr("Correct it in config.json."),
            )
        return {"eos_token_id": value}

    def encode(self, config: TransformerConfig) -> dict[str, Any]:
        return {"eos_token_id": config.eos_token_id}


@dataclass(frozen=True)
class Labels:
    """Number of classes of a classification head: `id2label` says it, or `num_labels` in older files."""

    keys: tuple[str, ...] = ("id2label", "label2id", "num_labels")
    layer: str = STRUCTURE
    aliases: tuple[str, ...] = ()

    def decode(self, hf: HFConfig) -> dict[str, Any]:
        names, count = hf.get("id2label"), hf.get("num_labels")
        if names:
            return {"num_labels": len(checked("id2label", names, dict))}
        return {"num_labels": 2 if count is None else checked("num_labels", count, int, 1)}

    def encode(self, config: TransformerConfig) -> dict[str, Any]:
        if not config.head.endswith("classification"):
            return {}
        names = {str(i): f"LABEL_{i}" for i in range(config.num_labels)}
        return {"id2label": names, "label2id": {name: int(i) for i, name in names.items()}}


_GENERATION = (
    "max_length min_length do_sample early_stopping num_beams num_beam_groups diversity_penalty temperature top_k "
    "top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size "
    "bad_words_ids num_return_sequences output_scores return_dict_in_generate forced_bos_token_id "
    "forced_eos_token_id remove_invalid_values exponential_decay_length_penalty suppress_tokens "
    "begin_suppress_tokens task_specific_params prefix"
)
_RECORDS = "_name_or_path architectures model_type transformers_version finetuning_task _commit_hash _from_model_config"
_ATTENTION = "attn_implementation _attn_implementation _attn_implementation_autoset"
_CALLING = (
    "use_cache output_attentions output_hidden_states output_past return_dict torchscript use_bfloat16 tf_legacy_loss"
)

DECODER: tuple[Rule, ...] = (
    Only("is_causal", True, "a decoder as an encoder is not supported"),
    Only("partial_rotary_factor", 1.0, "the model's class rotates whole heads"),
    Only("original_max_position_embeddings", None, "it would override the one inside the RoPE settings"),
    Only("per_layer_config", None, "layers that differ in shape are not supported"),
)
"""Keys that transformers reads in decoders with RoPE, whatever their class."""

COMMON: tuple[Rule, ...] = (
    Field(
        "dtype",
        "params_dtype",
        ("float32", "float16", "bfloat16", "float64"),
        derive=lambda hf: "float32",
        aliases=("torch_dtype",),
        layer=RUNTIME,
    ),
    Field("bos_token_id", "bos_token_id", int, nullable=True),
    EndOfSequence(),
    Field("pad_token_id", "pad_token_id", int, nullable=True),
    Labels(),
    Only("is_encoder_decoder", False, "encoder-decoder models are not supported"),
    Only("add_cross_attention", False, "cross-attention is not supported"),
    Quantisation(),
    Only("pruned_heads", {}, "models with pruned heads are not supported"),
    Ignored(tuple(_RECORDS.split()), "recorded, does not change the model", RECORD),
    Ignored(("tokenizer_class", "tokenizer", "sep_token_id", "unk_token_id"), "belongs to the tokenizer", RECORD),
    Ignored(("auto_map",), "code from the model folder is never run; the declared class is used", RECORD),
    Ignored(tuple(_GENERATION.split()), "a default of text generation"),
    Ignored(tuple(_CALLING.split()), "how the PyTorch class is called or returns"),
    Ignored(tuple(_ATTENTION.split()), "which PyTorch kernel computes attention, same result"),
    Ignored(("chunk_size_feed_forward",), "saves memory in PyTorch, same result"),
    Ignored(("gradient_checkpointing",), "recomputation is a setting of the run", TRAINING),
    Ignored(("problem_type",), "chooses the loss of the PyTorch class", TRAINING),
    Ignored(
        ("tie_encoder_decoder", "cross_attention_hidden_size", "decoder_start_token_id"),
        "only read by encoder-decoder models",
    ),
)
"""Keys that every PretrainedConfig has."""
