"""Whether a tokenizer and a model config go together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindport.config.hf import ModelConfig
from mindport.config.tokenizer import SPECIAL, Tokenizer, read_tokenizer
from mindport.errors import brief
from mindport.i18n import tr

TENSOR_PARALLEL = (2, 4, 8, 16)
"""Sizes of a tensor-parallel group for which a padded vocabulary is worked out."""

ERROR, WARNING = "error", "warning"

EQUAL, DIFFERENT, NOT_COMPARED = "equal", "different", "not compared"


@dataclass(frozen=True)
class SpecialToken:
    """One special token on both sides.

    Args:
        role: bos, eos, pad, unk, sep, cls or mask.
        token: in the tokenizer's files; null where they name none.
        id: its id in the vocabulary; null where it has none.
        config_id: what the config says, an id or several; null where it says nothing.
        verdict: equal, different, or not compared (one side says nothing).
    """

    role: str
    token: str | None
    id: int | None
    config_id: Any
    verdict: str


@dataclass(frozen=True)
class Finding:
    """Something to look at.

    Args:
        level: error (training or generation will fail) or warning.
        message: one sentence.
    """

    level: str
    message: str


@dataclass(frozen=True)
class TokenizerCheck:
    """A tokenizer beside the config of its model.

    Args:
        tokens: `len(tokenizer)`; null where the vocabulary could not be counted.
        largest_id: of a token; null likewise.
        vocab_size: of the config, which is kept.
        padding_rows: rows of the embedding that no token uses, which is how models are padded.
        special: the special tokens that either side names.
        padding_side: as `tokenizer_config.json` says; null where it leaves that to the class.
        chat_template: the file that holds it.
        padded_vocab: size of a tensor-parallel group -> the least vocab_size from this one on that it divides.
        findings: what to look at.
    """

    tokens: int | None
    largest_id: int | None
    vocab_size: int
    padding_rows: int | None
    special: tuple[SpecialToken, ...]
    padding_side: str | None
    chat_template: str | None
    padded_vocab: Mapping[str, int]
    findings: tuple[Finding, ...]


def check_tokenizer(folder: Path, model: ModelConfig) -> TokenizerCheck | None:
    """Compare the tokenizer of a model folder with its config; None where the folder has none."""
    tokenizer = read_tokenizer(folder)
    if tokenizer is None:
        return None
    size = model.transformer.vocab_size
    tokens = largest = padding = None
    if tokenizer.ids is not None:
        tokens, largest = len(tokenizer.ids), max(tokenizer.ids.values(), default=-1)
        padding = size - len({number for number in tokenizer.ids.values() if number < size})
    special = tuple(_special(tokenizer, model))
    side = tokenizer.settings.get("padding_side")
    return TokenizerCheck(
        tokens,
        largest,
        size,
        padding,
        special,
        side if isinstance(side, str) else None,
        tokenizer.chat_template,
        {str(parts): -(-size // parts) * parts for parts in TENSOR_PARALLEL},
        tuple(_findings(tokenizer, special, tokens, largest, size)),
    )


def _special(tokenizer: Tokenizer, model: ModelConfig) -> Iterator[SpecialToken]:
    canonical = {"bos": "bos_token_id", "eos": "eos_token_id", "pad": "pad_token_id"}
    for role in SPECIAL:
        token = tokenizer.special.get(role)
        number = (tokenizer.ids or {}).get(token) if token is not None else None
        config_id = (
            getattr(model.transformer, canonical[role]) if role in canonical else model.hf.get(f"{role}_token_id")
        )
        if token is None and config_id is None:
            continue
        if number is None or config_id is None:
            verdict = NOT_COMPARED
        else:
            allowed = config_id if isinstance(config_id, list) else [config_id]
            verdict = EQUAL if number in allowed else DIFFERENT
        yield SpecialToken(role, token, number, config_id, verdict)


def _findings(
    tokenizer: Tokenizer,
    special: tuple[SpecialToken, ...],
    tokens: int | None,
    largest: int | None,
    size: int,
) -> Iterator[Finding]:
    yield from (Finding(ERROR, problem) for problem in tokenizer.problems)
    if tokens is not None and largest is not None and max(tokens, largest + 1) > size:
        yield Finding(
            ERROR,
            tr(
                "The tokenizer has {tokens} tokens with ids up to {largest}, but vocab_size is {size}: "
                "ids from {size} on have no row in the embedding.",
                tokens=tokens,
                largest=largest,
                size=size,
            ),
        )
    for token in special:
        if token.verdict == DIFFERENT:
            yield Finding(
                WARNING,
                tr(
                    "{role}_token {token} has id {id} in the tokenizer, but the config says {config_id}.",
                    role=token.role,
                    token=brief(token.token),
                    id=token.id,
                    config_id=brief(token.config_id),
                ),
            )
    found = tokenizer.special
    if "pad" not in found:
        yield Finding(WARNING, tr("The tokenizer has no pad token: it cannot pad a batch until you set one."))
    elif found["pad"] == found.get("eos"):
        yield Finding(
            WARNING,
            tr("pad_token is eos_token: labels that leave out padding leave out the end of the text, too."),
        )
