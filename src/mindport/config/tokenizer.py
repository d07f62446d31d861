"""The tokenizer files of a model folder, read without a tokenizer library: which tokens there are, under which ids.

Ids are those that transformers gives: a token that is not in the model's vocabulary gets the next free one, whatever
the file says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindport.config.json_file import read_json_object, read_limited
from mindport.config.sentencepiece import pieces
from mindport.errors import MindportError
from mindport.i18n import tr

FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "vocab.json",
    "vocab.txt",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
)
"""Files of a tokenizer, by which it is noticed; the vocabulary is the first of the first six that is there."""

SPECIAL = ("bos", "eos", "pad", "unk", "sep", "cls", "mask")
"""Roles of special tokens: `bos_token` in the tokenizer's files, `bos_token_id` in the config."""


@dataclass(frozen=True)
class Tokenizer:
    """What the files of a tokenizer say.

    Args:
        ids: token -> id; None where the vocabulary could not be read.
        special: role -> token.
        settings: `tokenizer_config.json`.
        chat_template: the file that holds one.
        problems: files that could not be read, and why.
    """

    ids: Mapping[str, int] | None
    special: Mapping[str, str]
    settings: Mapping[str, Any]
    chat_template: str | None
    problems: tuple[str, ...]


def read_tokenizer(folder: Path) -> Tokenizer | None:
    """The tokenizer of a model folder; None where the folder has no file of one.

    Nothing of it is fatal: what cannot be read is a problem of its own, in one sentence.
    """
    if not any((folder / name).is_file() for name in FILES):
        return None
    problems: list[str] = []

    def objects(name: str) -> dict[str, Any]:
        try:
            return read_json_object(folder / name) if (folder / name).is_file() else {}
        except MindportError as error:
            problems.append(error.message)
            return {}

    settings = objects("tokenizer_config.json")
    legacy = objects("special_tokens_map.json")
    special = _special_tokens(legacy) | _special_tokens(settings)
    ids: dict[str, int] | None = None
    try:
        model, added = _vocabulary(folder)
        more = _added_tokens(settings, objects("added_tokens.json"))
        ids = _with_added(model, added, [*more, *special.values(), *_extra_tokens(legacy), *_extra_tokens(settings)])
    except MindportError as error:
        problems.append(error.message)
    return Tokenizer(ids, special, settings, _chat_template(folder, settings), tuple(problems))


def _vocabulary(folder: Path) -> tuple[dict[str, int], list[str]]:
    """The model's own vocabulary, and tokens that the same file adds to it.

    Raises:
        MindportError: there is none, or it cannot be read.
    """
    for name, read in _READERS.items():
        if (folder / name).is_file():
            try:
                return read(folder / name)
            except (AttributeError, IndexError, KeyError, TypeError, ValueError):
                raise MindportError(
                    tr(
                        "The vocabulary in {path} is not in a form that is known; it was not counted.",
                        path=folder / name,
                    )
                ) from None
    raise MindportError(tr("{folder} holds no vocabulary; the tokens were not counted.", folder=folder))


def _tokenizer_json(path: Path) -> tuple[dict[str, int], list[str]]:
    content = read_json_object(path)
    vocab = content["model"]["vocab"]
    if isinstance(vocab, list):  # Unigram: pieces with scores, in the order of their ids
        vocab = {piece: number for number, (piece, _) in enumerate(vocab)}
    return _checked(vocab), [_text(token["content"]) for token in content.get("added_tokens") or []]


def _vocab_json(path: Path) -> tuple[dict[str, int], list[str]]:
    return _checked(read_json_object(path)), []


def _vocab_txt(path: Path) -> tuple[dict[str, int], list[str]]:
    lines = read_limited(path).decode("utf-8").replace("\r\n", "\n").split("\n")
    return {line: number for number, line in enumerate(lines[:-1] if lines[-1] == "" else lines)}, []


def _sentencepiece(path: Path) -> tuple[dict[str, int], list[str]]:
    return {piece: number for number, piece in enumerate(pieces(read_limited(path)))}, []


def _not_counted(path: Path) -> tuple[dict[str, int], list[str]]:
    raise ValueError  # the classes that read this file shift its ids, each in its own way


_READERS = {
    "tokenizer.json": _tokenizer_json,
    "tokenizer.model": _sentencepiece,
    "spiece.model": _sentencepiece,
    "sentencepiece.bpe.model": _not_counted,
    "vocab.json": _vocab_json,
    "vocab.txt": _vocab_txt,
}


def _checked(vocab: Any) -> dict[str, int]:
    """A vocabulary of strings with ids.

    Raises:
        ValueError: it is something else.
    """
    if not isinstance(vocab, dict):
        raise ValueError(vocab)
    for token, number in vocab.items():
        if not isinstance(token, str) or type(number) is not int or number < 0:
            raise ValueError(token)
    return vocab


def _text(token: Any) -> str:
    if not isinstance(token, str):
        raise ValueError(token)
    return token


def _added_tokens(settings: Mapping[str, Any], added: Mapping[str, Any]) -> list[str]:
    """Tokens that `tokenizer_config.json` and `added_tokens.json` add, in the order of the ids they ask for.

    Raises:
        MindportError: they are not written as transformers writes them.
    """
    try:
        decoder = settings.get("added_tokens_decoder") or {}
        asked = [(int(number), _text(token["content"])) for number, token in decoder.items()]
        asked += [(int(number), token) for token, number in added.items()]
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        raise MindportError(tr("The added tokens are not in a form that is known; no token was counted.")) from None
    return [token for _, token in sorted(asked)]


def _extra_tokens(content: Mapping[str, Any]) -> Iterator[str]:
    """Special tokens without a role."""
    for key in ("additional_special_tokens", "extra_special_tokens"):
        listed = content.get(key)
        for token in listed.values() if isinstance(listed, dict) else listed if isinstance(listed, list) else ():
            text = _content(token)
            if text is not None:
                yield text


def _with_added(model: Mapping[str, int], *batches: list[str]) -> dict[str, int]:
    """The vocabulary with each added token that it lacks, under the id that the tokenizers library gives.

    Tokens are added in batches. A batch counts on from the largest id that a token added before it has, and at least
    from the size of the model's vocabulary, even where that has gaps.
    """
    ids, last = dict(model), -1
    for batch in batches:
        free = max(len(model), last + 1)
        for token in batch:
            if token not in ids:
                ids[token] = free
                free += 1
            last = max(last, ids[token])
    return ids


def _special_tokens(content: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for role in SPECIAL:
        token = _content(content.get(f"{role}_token"))
        if token is not None:
            found[role] = token
    return found


def _content(token: Any) -> str | None:
    """A token that is written as text, or as an object that holds the text."""
    token = token.get("content") if isinstance(token, dict) else token
    return token if isinstance(token, str) else None


def _chat_template(folder: Path, settings: Mapping[str, Any]) -> str | None:
    for name in ("chat_template.jinja", "chat_template.json"):
        if (folder / name).is_file():
            return name
    return "tokenizer_config.json" if settings.get("chat_template") else None
