"""Another vocabulary: old rows keep their bits, new rows follow a rule, and export brings the old one back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindport.checkpoint.check import check_folder
from mindport.checkpoint.convert import convert
from mindport.checkpoint.export import export
from mindport.checkpoint.options import Options
from mindport.checkpoint.resize import Resize, vocab_change
from mindport.config.native import read_native_config
from mindport.errors import MindportError
from mindport.schema import VOCAB_RULES, VocabChange

reference = pytest.importorskip("safetensors.numpy")
Make = Callable[..., Any]
Arrays = dict[str, np.ndarray]


def read(folder: Path) -> Arrays:
    loaded: Arrays = reference.load_file(folder / "model.safetensors")
    return loaded


@pytest.fixture(params=[("llama", {}), ("llama", {"tied": True}), ("bert", {"hf_class": "BertForMaskedLM"})], ids=str)
def tiny(request: pytest.FixtureRequest, make: Make) -> Any:
    model_type, variant = request.param
    return make(model_type, **variant)


@pytest.mark.parametrize("rule", VOCAB_RULES)
def test_padding_is_undone(tiny: Any, tmp_path: Path, rule: str) -> None:
    before = tiny.config["vocab_size"]
    folder = tiny.save(tmp_path / "hf")
    convert(folder, tmp_path / "ms", Options(vocab_size=before + 5, vocab_rule=rule))
    written = read(tmp_path / "ms")
    changed = {slot for slot, array in written.items() if array.shape != tiny.slots[slot].shape}
    assert changed == {slot for slot, array in tiny.slots.items() if array.shape[0] == before}
    assert "embedding.word.weight" in changed
    for slot, values in tiny.slots.items():
        assert written[slot][: len(values)].tobytes() == values.tobytes()
    for slot in changed:
        new = written[slot][before:]
        assert len(new) == 5
        assert bool(new.any()) != (rule == "zeros" or (rule == "normal" and slot.endswith(".bias")))
    config = read_native_config(tmp_path / "ms")
    assert config.model.transformer.vocab_size == before + 5
    assert config.vocab == VocabChange(before, before + 5, rule)
    check_folder(folder, tmp_path / "ms")
    export(tmp_path / "ms", tmp_path / "back")
    wanted = reference.save(tiny.tensors, metadata={"format": "pt"})
    assert (tmp_path / "back" / "model.safetensors").read_bytes() == wanted
    assert json.loads((tmp_path / "back" / "config.json").read_text()) == tiny.config
    export(tmp_path / "ms", tmp_path / "kept", Options(keep_vocab=True))
    assert json.loads((tmp_path / "kept" / "config.json").read_text())["vocab_size"] == before + 5


def test_a_cut_stays_cut(make: Make, tmp_path: Path) -> None:
    tiny = make("llama")
    convert(tiny.save(tmp_path / "hf"), tmp_path / "ms", Options(vocab_size=7))
    assert np.array_equal(read(tmp_path / "ms")["head.output.weight"], tiny.slots["head.output.weight"][:7])
    export(tmp_path / "ms", tmp_path / "back")
    assert read(tmp_path / "back")["model.embed_tokens.weight"].shape[0] == 7
    assert json.loads((tmp_path / "back" / "config.json").read_text())["vocab_size"] == 7


def test_rows_in_another_order(make: Make, tmp_path: Path) -> None:
    tiny = make("llama")
    count = tiny.config["vocab_size"]
    order: list[int | None] = [0, 1, 2, *reversed(range(3, count)), None]
    convert(tiny.save(tmp_path / "hf"), tmp_path / "ms", Options(vocab_map=tuple(order), vocab_rule="mean"))
    old, new = tiny.slots["embedding.word.weight"], read(tmp_path / "ms")["embedding.word.weight"]
    assert np.array_equal(new[:-1], old[order[:-1]])
    assert np.allclose(new[-1], old.mean(0), atol=1e-6)
    check_folder(tmp_path / "hf", tmp_path / "ms")
    export(tmp_path / "ms", tmp_path / "back")
    assert (tmp_path / "back" / "model.safetensors").read_bytes() == (tmp_path / "hf/model.safetensors").read_bytes()


def test_new_rows_need_a_rule(make: Make, tmp_path: Path) -> None:
    with pytest.raises(MindportError, match="nothing says what they are to hold"):
        convert(make("llama").save(tmp_path / "hf"), tmp_path / "ms", Options(vocab_size=12))


def test_what_cannot_be(make: Make, tmp_path: Path) -> None:
    folder = make("llama").save(tmp_path / "hf")
    for options, said in [
        (Options(vocab_size=0), "cannot have 0 rows"),
        (Options(vocab_size=1), "token_id is"),
        (Options(vocab_map=(0, 11)), "no row of the source"),
        (Options(vocab_map=(0, True)), "no row of the source"),
        (Options(vocab_map=("0",)), "no row of the source"),
        (Options(vocab_map=()), "no row of the source"),
        (Options(vocab_map=(0, 1), vocab_size=3), "2 entries, not 3"),
        (Options(vocab_map=(1, 0, 2, *range(3, 11))), "token_id is"),
    ]:
        with pytest.raises(MindportError, match=said):
            convert(folder, tmp_path / "ms", options)
    assert [path.name for path in tmp_path.iterdir()] == ["hf"]


@given(st.integers(1, 9), st.lists(st.none() | st.integers(0, 8), min_size=1, max_size=12) | st.integers(1, 12))
def test_the_way_back_of_any_change(before: int, after: list[int | None] | int) -> None:
    if isinstance(after, int):
        change = VocabChange(before, after, "zeros")
    else:
        mapping = tuple(row if row is not None and row < before else None for row in after)
        change = VocabChange(before, len(mapping), "zeros", mapping)
    assert VocabChange.from_json(json.loads(json.dumps(change.to_json()))) == change
    undone = change.undone()
    assert (undone is None) == bool(set(range(before)) - set(change.origins))
    if undone:
        assert undone.before == change.after
        assert [change.origins[row] for row in undone.origins] == list(range(before))


def test_the_rule_of_transformers_has_its_mean_and_covariance(make: Make, tmp_path: Path) -> None:
    config = convert(make("llama").save(tmp_path / "hf") / "config.json", tmp_path / "c").config.model.transformer
    resize = Resize.of(VocabChange(600, 5000, "source"), config)
    assert resize
    rng = np.random.default_rng(1)
    old = (rng.standard_normal((600, 4)) @ rng.standard_normal((4, 4)) + 3).astype(np.float32)
    numbers = np.arange(600, 5000)
    blocks = [old[:100], old[100:]]
    new = resize.new_rows("embedding.word.weight", numbers, iter(blocks), 4).astype(np.float64)
    assert np.allclose(new.mean(0), old.mean(0), atol=1e-5)
    spread = np.cov((new - old.mean(0, dtype=np.float64)).T) / 1e-9
    # float32 near 3 is a grid of 2.4e-7, coarse beside a spread of 1e-4: its variance is far below the tolerance.
    wanted = np.cov(old.T.astype(np.float64), bias=True)
    assert np.allclose(spread, wanted, atol=0.1 * np.abs(wanted).max())
    again = resize.new_rows("embedding.word.weight", numbers[7:9], iter(blocks), 4)
    assert np.allclose(again, new[7:9], atol=1e-6), "a row must not depend on which others are asked for"


def test_nothing_to_change() -> None:
    from mindport.config.hf import from_hf

    config = from_hf({"model_type": "llama", "architectures": ["LlamaForCausalLM"]}).transformer
    assert vocab_change(config, config.vocab_size, "zeros") is None
    assert vocab_change(config, None, "zeros") is None


def test_a_vocabulary_of_billions_is_refused_at_once(make: Make, tmp_path: Path) -> None:
    folder = make("llama").save(tmp_path / "hf")
    with pytest.raises(MindportError, match="cannot have 999999999999 rows"):
        convert(folder, tmp_path / "ms", Options(vocab_size=999_999_999_999, vocab_rule="mean"))
    convert(folder, tmp_path / "ms", Options(vocab_size=12, vocab_rule="mean"))
    path = tmp_path / "ms" / "ms_config.json"
    content = json.loads(path.read_text())
    content["source"]["vocab"]["after"] = content["transformer"]["vocab_size"] = 999_999_999_999
    path.write_text(json.dumps(content))
    with pytest.raises(MindportError):
        export(tmp_path / "ms", tmp_path / "back")


def test_a_rule_without_a_size(make: Make, tmp_path: Path) -> None:
    with pytest.raises(MindportError, match="no new size is given"):
        convert(make("llama").save(tmp_path / "hf"), tmp_path / "ms", Options(vocab_rule="mean"))
