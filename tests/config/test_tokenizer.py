"""The tokenizer check against transformers' own tokenizers, and against files that are broken."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mindport.config import json_file, sentencepiece
from mindport.config.hf import from_hf
from mindport.config.tokenizer import FILES, SPECIAL
from mindport.config.tokenizer_check import ERROR, WARNING, TokenizerCheck, check_tokenizer

WORDS = ["[UNK]", "a", "b", "ab", "##b", "<s>", "</s>"]


def check(folder: Path, **config: Any) -> TokenizerCheck:
    found = check_tokenizer(folder, from_hf({"model_type": "llama", "vocab_size": 32, **config}))
    assert found is not None
    return found


def write(folder: Path, **files: Any) -> Path:
    """`tokenizer_json={...}` becomes tokenizer.json; text and bytes are written as they are."""
    for name, content in files.items():
        path = folder / ".".join(name.rsplit("_", 1))
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return folder


def errors(found: TokenizerCheck) -> list[str]:
    return [finding.message for finding in found.findings if finding.level == ERROR]


def warnings(found: TokenizerCheck) -> list[str]:
    return [finding.message for finding in found.findings if finding.level == WARNING]


# --- against transformers --------------------------------------------------------------------------------------------


def bpe() -> Any:
    from tokenizers import models

    return models.BPE(vocab={word: i for i, word in enumerate(WORDS)}, merges=[("a", "b")], unk_token="[UNK]")


def bpe_with_gaps() -> Any:
    from tokenizers import models

    return models.BPE(vocab={"a": 0, "b": 1, "ab": 9, "[UNK]": 14}, merges=[("a", "b")])


def word_piece() -> Any:
    from tokenizers import models

    return models.WordPiece(vocab={word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]")


def unigram() -> Any:
    from tokenizers import models

    return models.Unigram([(word, -float(i)) for i, word in enumerate(WORDS)], unk_id=0)


SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "special tokens that are there": {"eos_token": "</s>", "bos_token": {"__type": "AddedToken", "content": "<s>"}},
    "special tokens that are not": {"eos_token": "<|end|>", "pad_token": "<|pad|>"},
    "a decoder of added tokens": {
        "added_tokens_decoder": {
            str(number): {
                "content": content,
                "special": True,
                "lstrip": False,
                "rstrip": False,
                "single_word": False,
                "normalized": False,
            }
            for number, content in ((25, "<later>"), (3, "<sooner>"), (5, "<s>"))
        },
        "pad_token": "<later>",
    },
    "tokens without a role": {"additional_special_tokens": ["<one>", "<s>"], "mask_token": "<mask>"},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("make", [bpe, bpe_with_gaps, word_piece, unigram])
@pytest.mark.parametrize("added", ["", "added", "added in another order"])
def test_tokens_are_counted_as_transformers_counts(
    tmp_path: Path, make: Callable[[], Any], added: str, settings: dict[str, Any]
) -> None:
    pytest.importorskip("transformers")
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(make())
    if added:
        tokenizer.add_special_tokens(["[UNK]", "<x>", "<s>"])
        tokenizer.add_tokens(["more"])
    content = json.loads(tokenizer.to_str())
    for token in content["added_tokens"]:
        token["id"] *= 3  # what the file asks for is not what is given
    if "order" in added:
        content["added_tokens"].reverse()
    write(tmp_path, tokenizer_json=content, tokenizer_config_json=settings)
    theirs = PreTrainedTokenizerFast.from_pretrained(tmp_path)
    found = check(tmp_path)
    assert (found.tokens, found.largest_id) == (len(theirs), max(theirs.get_vocab().values()))
    for special in found.special:
        if special.token is not None:
            assert special.token == getattr(theirs, f"{special.role}_token")
            assert special.id == getattr(theirs, f"{special.role}_token_id")
    named = {role.removesuffix("_token") for role in theirs.special_tokens_map}
    assert {special.role for special in found.special if special.token is not None} == named & set(SPECIAL)


def test_a_word_list_is_counted_as_transformers_counts(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "\u2028", "b\x0b", "##c"]
    write(tmp_path, vocab_txt="\n".join(words) + "\n")
    theirs = transformers.BertTokenizer.from_pretrained(tmp_path)
    assert check(tmp_path).tokens == len(theirs) == len(words)


def test_a_vocabulary_beside_merges(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    vocab = {"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3}
    write(tmp_path, vocab_json=vocab, merges_txt="#version: 0.2\na b\n", added_tokens_json={"<new>": 4})
    theirs = transformers.GPT2Tokenizer.from_pretrained(tmp_path)
    assert check(tmp_path).tokens == len(theirs) == 5


def test_an_id_that_is_no_number(tmp_path: Path) -> None:
    write(tmp_path, vocab_json={"a": 0}, merges_txt="#version: 0.2\n", added_tokens_json='{"<new>": Infinity}')
    assert any("added tokens" in finding.message for finding in check(tmp_path).findings)


# --- sentencepiece ---------------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def model(*words: str) -> bytes:
    """As sentencepiece writes it: pieces with scores and types, then settings of the trainer."""
    pieces = [field(1, word.encode()) + b"\x15\x00\x00\x80\xbf" + b"\x18\x01" for word in words]
    return b"".join(field(1, piece) for piece in pieces) + field(2, b"\x20\x80\x7d" + field(1, b"input.txt"))


def test_pieces_are_counted(tmp_path: Path) -> None:
    words = ["<unk>", "<s>", "</s>", "\u2581a", "b" * 300, "\u4e2d"]
    assert sentencepiece.pieces(model(*words)) == words
    found = check(write(tmp_path, tokenizer_model=model(*words), tokenizer_config_json={"eos_token": "</s>"}))
    assert found.tokens == 6
    (eos,) = [special for special in found.special if special.role == "eos"]
    assert (eos.id, eos.config_id, eos.verdict) == (2, 2, "equal")


def broken_models() -> Iterator[bytes]:
    whole = model("<unk>", "a", "b" * 200)
    yield from (whole[:length] for length in (0, 1, 2, 5, 20, len(whole) - 1))
    yield b"IQ== 0\nIg== 1\n"  # tiktoken's format, under the same name
    yield b"\x80" * 100
    yield b"\xff" * 100
    yield field(1, field(1, b"\xff\xfe"))
    yield b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"


@pytest.mark.parametrize("content", list(broken_models()))
def test_what_is_no_sentencepiece_model(tmp_path: Path, content: bytes) -> None:
    found = check(write(tmp_path, tokenizer_model=content))
    assert found.tokens is None
    (problem,) = errors(found)
    assert "not in a form that is known; it was not counted" in problem


def test_too_many_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentencepiece, "MOST", 2)
    assert check(write(tmp_path, tokenizer_model=model("a", "b"))).tokens == 2
    assert check(write(tmp_path, tokenizer_model=model("a", "b", "c"))).tokens is None


# --- what is said ----------------------------------------------------------------------------------------------------


def words(count: int) -> dict[str, Any]:
    return {"model": {"type": "BPE", "vocab": {f"t{i}": i for i in range(count)}}, "added_tokens": []}


@pytest.mark.parametrize(("count", "padding"), [(1, 31), (31, 1), (32, 0)])
def test_fewer_tokens_than_rows_are_padding(tmp_path: Path, count: int, padding: int) -> None:
    found = check(write(tmp_path, tokenizer_json=words(count), tokenizer_config_json={"pad_token": "t0"}))
    assert (found.tokens, found.padding_rows, found.findings) == (count, padding, ())


def test_more_tokens_than_rows_are_an_error(tmp_path: Path) -> None:
    found = check(write(tmp_path, tokenizer_json=words(32), tokenizer_config_json={"pad_token": "<pad>"}))
    assert errors(found) == [
        "The tokenizer has 33 tokens with ids up to 32, but vocab_size is 32: "
        "ids from 32 on have no row in the embedding."
    ]


def test_few_tokens_with_large_ids_are_an_error(tmp_path: Path) -> None:
    content = {"model": {"vocab": {"a": 0, "b": 40}}}
    found = check(write(tmp_path, tokenizer_json=content))
    assert (found.tokens, found.largest_id, found.padding_rows) == (2, 40, 31)
    assert len(errors(found)) == 1


def test_special_tokens_beside_the_config(tmp_path: Path) -> None:
    settings = {"bos_token": "t1", "eos_token": "t7", "unk_token": "t3", "pad_token": "t9"}
    write(tmp_path, tokenizer_json=words(10), tokenizer_config_json=settings)
    found = check(tmp_path, bos_token_id=1, eos_token_id=[2, 7], pad_token_id=8, sep_token_id=5)
    said = {special.role: (special.id, special.config_id, special.verdict) for special in found.special}
    assert said == {
        "bos": (1, 1, "equal"),
        "eos": (7, [2, 7], "equal"),
        "pad": (9, 8, "different"),
        "unk": (3, None, "not compared"),
        "sep": (None, 5, "not compared"),
    }
    assert warnings(found) == ["pad_token 't9' has id 9 in the tokenizer, but the config says 8."]


@pytest.mark.parametrize(
    ("settings", "warning"),
    [
        ({}, "The tokenizer has no pad token"),
        ({"pad_token": None}, "The tokenizer has no pad token"),
        ({"pad_token": "t2", "eos_token": "t2"}, "pad_token is eos_token"),
    ],
)
def test_padding_that_needs_a_look(tmp_path: Path, settings: dict[str, Any], warning: str) -> None:
    (found,) = warnings(check(write(tmp_path, tokenizer_json=words(4), tokenizer_config_json=settings)))
    assert found.startswith(warning)


def test_older_files_name_special_tokens_too(tmp_path: Path) -> None:
    write(tmp_path, tokenizer_json=words(4), special_tokens_map_json={"pad_token": {"content": "t3"}})
    (pad,) = check(tmp_path, bos_token_id=None, eos_token_id=None).special
    assert (pad.token, pad.id) == ("t3", 3)


def test_side_and_template(tmp_path: Path) -> None:
    write(tmp_path, tokenizer_json=words(4))
    assert (check(tmp_path).padding_side, check(tmp_path).chat_template) == (None, None)
    write(tmp_path, tokenizer_config_json={"padding_side": "left", "chat_template": "{{ messages }}"})
    assert (check(tmp_path).padding_side, check(tmp_path).chat_template) == ("left", "tokenizer_config.json")
    write(tmp_path, chat_template_jinja="{{ messages }}")
    assert check(tmp_path).chat_template == "chat_template.jinja"


@pytest.mark.parametrize(
    ("size", "padded"),
    [(50257, [50258, 50260, 50264, 50272]), (151936, [151936] * 4), (17, [18, 20, 24, 32])],
)
def test_padding_for_tensor_parallel(tmp_path: Path, size: int, padded: list[int]) -> None:
    found = check(write(tmp_path, tokenizer_json=words(4)), vocab_size=size)
    assert found.padded_vocab == dict(zip(("2", "4", "8", "16"), padded, strict=True))


def test_a_folder_without_a_tokenizer(tmp_path: Path) -> None:
    assert check_tokenizer(tmp_path, from_hf({"model_type": "llama"})) is None


# --- files that are broken -------------------------------------------------------------------------------------------

HOSTILE: list[Any] = [
    [],
    {},
    {"model": None},
    {"model": {"vocab": 3}},
    {"model": {"vocab": {"a": "0"}}},
    {"model": {"vocab": {"a": True}}},
    {"model": {"vocab": {"a": -1}}},
    {"model": {"vocab": {"a": [1]}}},
    {"model": {"vocab": [1, 2]}},
    {"model": {"vocab": [["a"]]}},
    {"model": {"vocab": [[["a"], 0.5]]}},
    {"model": {"vocab": [[3, 0.5]]}},
    {"model": {"vocab": {}}, "added_tokens": {"a": 1}},
    {"model": {"vocab": {}}, "added_tokens": [{"id": 1}]},
    {"model": {"vocab": {}}, "added_tokens": [3]},
    {"model": {"vocab": {}}, "added_tokens": [{"id": 1, "content": ["a"]}]},
    "{",
    "[" * 100_000,
    b"\xff\xfe",
]


@pytest.mark.parametrize("content", HOSTILE)
def test_a_hostile_vocabulary_is_one_sentence(tmp_path: Path, content: Any) -> None:
    found = check(write(tmp_path, tokenizer_json=content))
    assert found.tokens is None
    assert len(errors(found)) == 1


@pytest.mark.parametrize("key", ["added_tokens_decoder", "pad_token", "additional_special_tokens", "padding_side"])
@pytest.mark.parametrize("value", [3, "x", ["x"], [3], {"x": "y"}, {"1": {"content": 3}}, {"content": ["x"]}, [["x"]]])
def test_hostile_settings_are_at_most_one_sentence(tmp_path: Path, key: str, value: Any) -> None:
    found = check(write(tmp_path, tokenizer_json=words(4), tokenizer_config_json={key: value}))
    assert len(errors(found)) <= 1


@pytest.mark.parametrize("name", [name for name in FILES if not name.startswith("chat_template")])
def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, name: str) -> None:
    write(tmp_path, tokenizer_json=words(4)) if "config" in name or "tokens" in name else None
    with (tmp_path / name).open("wb") as file:
        file.truncate(json_file.LIMIT + 1)
    (problem,) = errors(check(tmp_path))
    assert name in problem


def test_a_folder_with_settings_only(tmp_path: Path) -> None:
    (problem,) = errors(check(write(tmp_path, tokenizer_config_json={"pad_token": "x"})))
    assert problem == f"{tmp_path} holds no vocabulary; the tokens were not counted."
