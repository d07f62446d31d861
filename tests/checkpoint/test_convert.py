"""Whole folders, converted and exported with numpy alone: every value in its slot, and back to the same bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindport.checkpoint import safetensors
from mindport.checkpoint.convert import convert, plan_conversion
from mindport.checkpoint.export import export
from mindport.checkpoint.options import Options
from mindport.checkpoint.problems import PlanError
from mindport.config.native import read_native_config
from mindport.errors import MindportError

Arrays = dict[str, np.ndarray]
Make = Callable[..., Any]

reference = pytest.importorskip("safetensors.numpy")


def read(path: Path) -> Arrays:
    """What the safetensors package reads."""
    loaded: Arrays = reference.load_file(path)
    return loaded


def same(ours: Arrays, theirs: Arrays) -> bool:
    return ours.keys() == theirs.keys() and all(
        # By name and bytes: MindSpore, once loaded, brings a bfloat16 of its own.
        ours[name].dtype.name == theirs[name].dtype.name
        and ours[name].shape == theirs[name].shape
        and ours[name].tobytes() == theirs[name].tobytes()
        for name in theirs
    )


VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("llama", {}),
    ("llama", {"tied": True}),
    ("llama", {"tied": True, "copy": True}),
    ("llama", {"base": ""}),
    ("gpt2", {}),
    ("gpt2", {"base": ""}),
    ("gpt2", {"buffers": True}),
    ("gpt2", {"base": "", "buffers": True, "copy": True}),
    ("bert", {}),
    ("bert", {"base": "bert."}),
    ("bert", {"pooler": False}),
    ("bert", {"old_norms": True, "base": "bert."}),
    ("bert", {"hf_class": "BertForMaskedLM", "base": "bert."}),
    ("bert", {"hf_class": "BertForMaskedLM", "base": "bert.", "copies": True}),
    ("bert", {"hf_class": "BertForMaskedLM", "base": "bert.", "copies": True, "old_norms": True}),
    ("deepseek_v3", {}),
    ("deepseek_v3", {"modules": 0, "query_rank": None}),
    ("deepseek_v3", {"modules": 2, "base": ""}),
    ("deepseek_v3", {"stacked": True}),
]


@pytest.fixture(params=VARIANTS, ids=lambda variant: "-".join([variant[0], *map(str, variant[1].values())]))
def tiny(request: pytest.FixtureRequest, make: Make) -> Any:
    """Every architecture in every spelling and with every optional part."""
    model_type, variant = request.param
    return make(model_type, **variant)


@pytest.mark.parametrize("shards", [1, 3])
def test_every_value_is_in_its_slot(tiny: Any, tmp_path: Path, shards: int) -> None:
    done = convert(tiny.save(tmp_path / "hf", shards=shards), tmp_path / "ms")
    written = read(tmp_path / "ms" / "model.safetensors")
    assert same(written, tiny.slots)
    assert done.plan is not None
    assert set(done.plan.skipped) == set(tiny.skipped)


def test_export_gives_back_the_file(tiny: Any, tmp_path: Path) -> None:
    """The same bytes as the source, which the safetensors package wrote; buffers that are recomputed are left out."""
    tiny.save(tmp_path / "hf")
    convert(tmp_path / "hf", tmp_path / "ms")
    export(tmp_path / "ms", tmp_path / "back")
    wanted = reference.save(tiny.tensors, metadata={"format": "pt"})
    assert (tmp_path / "back" / "model.safetensors").read_bytes() == wanted
    assert json.loads((tmp_path / "back" / "config.json").read_text()) == tiny.config
    assert sorted(path.name for path in tmp_path.iterdir()) == ["back", "hf", "ms"]


def test_sharded_input_is_exported_as_one_file(make: Make, tmp_path: Path) -> None:
    tiny = make("gpt2")
    convert(tiny.save(tmp_path / "hf", shards=4), tmp_path / "ms")
    export(tmp_path / "ms", tmp_path / "back")
    assert same(read(tmp_path / "back" / "model.safetensors"), tiny.tensors)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_values_keep_their_dtype(make: Make, tmp_path: Path, dtype: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    tiny = make("gpt2")
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    tiny.tensors = {name: array.astype(kind) for name, array in tiny.tensors.items()}
    convert(tiny.save(tmp_path / "hf"), tmp_path / "ms")
    assert same(
        read(tmp_path / "ms" / "model.safetensors"), {slot: array.astype(kind) for slot, array in tiny.slots.items()}
    )
    export(tmp_path / "ms", tmp_path / "back")
    assert same(read(tmp_path / "back" / "model.safetensors"), tiny.tensors)


def test_special_values_survive(make: Make, tmp_path: Path) -> None:
    tiny = make("gpt2")
    weight = tiny.tensors["transformer.h.0.mlp.c_fc.weight"]
    weight[0, :4] = [np.nan, np.inf, -np.inf, -0.0]
    convert(tiny.save(tmp_path / "hf"), tmp_path / "ms")
    assert read(tmp_path / "ms" / "model.safetensors")["layer.0.mlp.up.weight"].tobytes() == weight.T.tobytes()


def test_parameters_are_written_layer_by_layer(make: Make, tmp_path: Path) -> None:
    convert(make("llama").save(tmp_path / "hf"), tmp_path / "ms")
    names = list(safetensors.read_header(tmp_path / "ms" / "model.safetensors"))
    layers = [int(name.split(".")[1]) for name in names if name.startswith("layer.")]
    assert names[0] == "embedding.word.weight"
    assert layers == sorted(layers)


def test_ckpt_weights(make: Make, tmp_path: Path) -> None:
    ms = pytest.importorskip("mindspore")
    tiny = make("gpt2")
    convert(tiny.save(tmp_path / "hf"), tmp_path / "ms", Options("ckpt"))
    loaded = ms.load_checkpoint(str(tmp_path / "ms" / "model.ckpt"))
    assert same({name: parameter.asnumpy() for name, parameter in loaded.items()}, tiny.slots)
    export(tmp_path / "ms", tmp_path / "back")
    assert (tmp_path / "back" / "model.safetensors").read_bytes() == (
        tmp_path / "hf" / "model.safetensors"
    ).read_bytes()


def test_a_config_alone(make: Make, tmp_path: Path) -> None:
    folder = make("bert").save(tmp_path / "hf")
    done = convert(folder / "config.json", tmp_path / "ms")
    assert done.plan is None
    assert [path.name for path in (tmp_path / "ms").iterdir()] == ["ms_config.json"]
    assert read_native_config(tmp_path / "ms") == done.config


def test_files_of_the_tokenizer_come_along(make: Make, tmp_path: Path) -> None:
    folder = make("gpt2").save(tmp_path / "hf")
    (folder / "vocab.json").write_text('{"a": 0}')
    (folder / "README.md").write_text("not ours to copy")
    (folder / "modeling_evil.py").write_text("raise SystemExit")
    convert(folder, tmp_path / "ms")
    export(tmp_path / "ms", tmp_path / "back")
    for copy in (tmp_path / "ms", tmp_path / "back"):
        assert (copy / "vocab.json").read_text() == '{"a": 0}'
        assert not (copy / "README.md").exists()
        assert not (copy / "modeling_evil.py").exists()


# --- what does not fit -------------------------------------------------------------------------------------------


def refusal(folder: Path, out: Path) -> MindportError:
    """The error of a conversion, which must leave nothing behind."""
    before = sorted(out.parent.iterdir())
    with pytest.raises(MindportError) as error:
        convert(folder, out)
    assert sorted(out.parent.iterdir()) == before
    return error.value


def test_missing_and_unexpected_and_misshaped_tensors_all_at_once(make: Make, tmp_path: Path) -> None:
    tiny = make("llama")
    for layer in range(2):
        del tiny.tensors[f"model.layers.{layer}.mlp.up_proj.weight"]
        tiny.tensors[f"model.layers.{layer}.self_attn.q_proj.bias"] = np.zeros(12, np.float32)
    tiny.tensors["model.norm.weight"] = np.zeros(9, np.float32)
    error = refusal(tiny.save(tmp_path / "hf"), tmp_path / "ms")
    assert isinstance(error, PlanError)
    assert len(error.problems) == 5
    lines = [line.strip() for line in error.message.splitlines()[1:]]
    assert lines == [
        "model.layers.{0..1}.mlp.up_proj.weight: missing from the checkpoint",
        "model.norm.weight: has shape [9], the config implies [8]",
        "model.layers.{0..1}.self_attn.q_proj.bias: in the checkpoint, but the config gives it no place",
    ]


def test_a_transposed_matrix_is_noticed_where_it_can_be(make: Make, tmp_path: Path) -> None:
    tiny = make("gpt2")
    name = "transformer.h.1.attn.c_attn.weight"
    tiny.tensors[name] = np.ascontiguousarray(tiny.tensors[name].T)
    error = refusal(tiny.save(tmp_path / "hf"), tmp_path / "ms")
    assert f"{name}: has shape [18, 6], the config implies [6, 18]" in error.message


def test_names_are_matched_in_full(make: Make, tmp_path: Path) -> None:
    tiny = make("llama")
    for name in ("model.layers.00.mlp.up_proj.weight", "xmodel.norm.weight", "model.layers.2.mlp.up_proj.weight"):
        tiny.tensors[name] = np.zeros((10, 8), np.float32)
    error = refusal(tiny.save(tmp_path / "hf"), tmp_path / "ms")
    assert [line.split(":")[0].strip() for line in error.message.splitlines()[1:]] == [
        "model.layers.00.mlp.up_proj.weight",
        "model.layers.2.mlp.up_proj.weight",
        "xmodel.norm.weight",
    ]


def test_one_tensor_in_another_dtype_is_kept(make: Make, tmp_path: Path) -> None:
    tiny = make("llama")
    tiny.tensors["model.norm.weight"] = tiny.tensors["model.norm.weight"].astype(np.float16)
    convert(tiny.save(tmp_path / "hf"), tmp_path / "ms")
    export(tmp_path / "ms", tmp_path / "back")
    assert same(read(tmp_path / "back" / "model.safetensors"), tiny.tensors)


@pytest.mark.parametrize("variant", [{"tied": True}, {"tied": True, "copy": True}])
def test_a_tied_head_is_not_a_parameter(make: Make, tmp_path: Path, variant: dict[str, bool]) -> None:
    convert(make("llama", **variant).save(tmp_path / "hf"), tmp_path / "ms")
    assert "head.output.weight" not in read(tmp_path / "ms" / "model.safetensors")
    copies = read_native_config(tmp_path / "ms").copies
    assert copies == (("lm_head.weight",) if variant.get("copy") else ())


@pytest.mark.parametrize(("model_type", "name"), [("llama", "lm_head.weight"), ("gpt2", "lm_head.weight")])
def test_a_copy_that_differs_is_refused(make: Make, tmp_path: Path, model_type: str, name: str) -> None:
    variant = {"tied": True, "copy": True} if model_type == "llama" else {"copy": True}
    tiny = make(model_type, **variant)
    tiny.tensors[name] = tiny.tensors[name].copy()
    tiny.tensors[name][-1, -1] += 1e-6
    error = refusal(tiny.save(tmp_path / "hf"), tmp_path / "ms")
    assert "lm_head.weight differs from" in error.message
    assert "tie_word_embeddings" in error.fix


def test_a_copy_of_the_same_bytes_in_another_dtype_is_refused(make: Make, tmp_path: Path) -> None:
    tiny = make("llama", tied=True, copy=True)
    bits = tiny.tensors["model.embed_tokens.weight"].astype(np.float16)
    tiny.tensors["model.embed_tokens.weight"], tiny.tensors["lm_head.weight"] = bits, bits.view(np.int16)
    assert "lm_head.weight is int16" in refusal(tiny.save(tmp_path / "hf"), tmp_path / "ms").message


def test_a_second_copy_is_checked_too(make: Make, tmp_path: Path) -> None:
    tiny = make("bert", hf_class="BertForMaskedLM", base="bert.", copies=True)
    tiny.tensors["cls.predictions.decoder.bias"] = tiny.tensors["cls.predictions.decoder.bias"] + 1
    error = refusal(tiny.save(tmp_path / "hf"), tmp_path / "ms")
    assert "cls.predictions.decoder.bias differs from cls.predictions.bias" in error.message


def test_zero_and_minus_zero_are_different_bytes(make: Make, tmp_path: Path) -> None:
    tiny = make("llama", tied=True, copy=True)
    tiny.tensors["model.embed_tokens.weight"][0, 0] = 0.0
    tiny.tensors["lm_head.weight"] = tiny.tensors["lm_head.weight"].copy()
    tiny.tensors["lm_head.weight"][0, 0] = -0.0
    assert "differs from" in refusal(tiny.save(tmp_path / "hf"), tmp_path / "ms").message


def test_an_untied_head_is_not_a_copy(make: Make, tmp_path: Path) -> None:
    tiny = make("llama")
    plan = plan_conversion(tiny.save(tmp_path / "hf")).plan
    assert not plan.copies


def test_a_missing_head_is_reported_when_the_config_does_not_tie(make: Make, tmp_path: Path) -> None:
    tiny = make("llama")
    del tiny.tensors["lm_head.weight"]
    assert "lm_head.weight: missing" in refusal(tiny.save(tmp_path / "hf"), tmp_path / "ms").message


def test_a_base_mixed_into_another_is_refused(make: Make, tmp_path: Path) -> None:
    tiny = make("llama")
    tiny.tensors["norm.weight"] = tiny.tensors.pop("model.norm.weight")
    message = refusal(tiny.save(tmp_path / "hf"), tmp_path / "ms").message
    assert "model.norm.weight: missing" in message
    assert "norm.weight: in the checkpoint" in message


def test_heads_of_other_classes_are_skipped_with_a_reason(make: Make, tmp_path: Path) -> None:
    tiny = make("bert", base="bert.")
    tiny.tensors["cls.seq_relationship.weight"] = np.zeros((2, 6), np.float32)
    plan = plan_conversion(tiny.save(tmp_path / "hf")).plan
    assert plan.skipped["cls.seq_relationship.weight"]


def test_an_existing_folder_is_refused_before_anything_is_read(make: Make, tmp_path: Path) -> None:
    (tmp_path / "ms").mkdir()
    (tmp_path / "ms" / "migration.json").write_text("old")
    with pytest.raises(MindportError, match="already exists"):
        convert(tmp_path / "nowhere", tmp_path / "ms")
    convert(make("gpt2").save(tmp_path / "hf"), tmp_path / "ms", overwrite=True)
    names = ["mindport_manifest.json", "model.safetensors", "ms_config.json"]
    assert sorted(path.name for path in (tmp_path / "ms").iterdir()) == names


def test_the_source_is_never_overwritten(make: Make, tmp_path: Path) -> None:
    folder = make("gpt2").save(tmp_path / "hf")
    before = (folder / "model.safetensors").read_bytes()
    for source in (folder, folder / "config.json"):
        with pytest.raises(MindportError, match="holds the source"):
            convert(source, folder, overwrite=True)
    convert(folder, tmp_path / "ms")
    with pytest.raises(MindportError, match="holds the source"):
        export(tmp_path / "ms", tmp_path / "ms", overwrite=True)
    assert (folder / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize("cut", [0, 1, 7, 8, 100, -1])
def test_a_truncated_file(make: Make, tmp_path: Path, cut: int) -> None:
    folder = make("llama").save(tmp_path / "hf")
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[:cut])
    assert "truncated" in refusal(folder, tmp_path / "ms").message


def test_an_interrupted_conversion_leaves_nothing_but_what_may_go_on(make: Make, tmp_path: Path) -> None:
    folder = make("llama").save(tmp_path / "hf")

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(folder, tmp_path / "ms", progress=interrupt)
    assert {path.name for path in tmp_path.iterdir()} <= {"hf", ".ms.partial"}
    convert(folder, tmp_path / "ms")
    assert {path.name for path in tmp_path.iterdir()} == {"hf", "ms"}


def test_progress_counts_every_byte(make: Make, tmp_path: Path) -> None:
    counted: list[int] = []
    done = convert(make("gpt2").save(tmp_path / "hf"), tmp_path / "ms", progress=counted.append)
    assert done.plan is not None
    assert sum(counted) == done.plan.bytes_out == sum(s.nbytes for s in make("gpt2").slots.values())


# --- export ------------------------------------------------------------------------------------------------------


def test_export_refuses_weights_that_do_not_fit(make: Make, tmp_path: Path) -> None:
    convert(make("llama").save(tmp_path / "hf"), tmp_path / "ms")
    path = tmp_path / "ms" / "model.safetensors"
    tensors = read(path)
    tensors["extra"] = tensors.pop("final_norm.weight")
    reference.save_file(tensors, path)
    with pytest.raises(PlanError) as error:
        export(tmp_path / "ms", tmp_path / "back")
    assert {problem.tensor for problem in error.value.problems} == {"extra", "final_norm.weight"}
    assert not (tmp_path / "back").exists()


def test_export_of_a_folder_that_was_not_converted(make: Make, tmp_path: Path) -> None:
    folder = make("llama").save(tmp_path / "hf")
    with pytest.raises(MindportError, match=r"ms_config\.json does not exist"):
        export(folder, tmp_path / "back")


def test_export_of_a_config_alone(make: Make, tmp_path: Path) -> None:
    folder = make("llama").save(tmp_path / "hf")
    convert(folder / "config.json", tmp_path / "ms")
    with pytest.raises(MindportError, match="holds no weights"):
        export(tmp_path / "ms", tmp_path / "back")


def test_a_changed_field_is_written_to_the_exported_config(make: Make, tmp_path: Path) -> None:
    convert(make("gpt2").save(tmp_path / "hf"), tmp_path / "ms")
    path = tmp_path / "ms" / "ms_config.json"
    content = json.loads(path.read_text())
    content["transformer"]["layernorm_epsilon"] = 1e-3
    path.write_text(json.dumps(content))
    export(tmp_path / "ms", tmp_path / "back")
    assert json.loads((tmp_path / "back" / "config.json").read_text()) == {
        **make("gpt2").config,
        "layer_norm_epsilon": 1e-3,
    }


def test_a_field_the_architecture_cannot_say_stops_the_export(make: Make, tmp_path: Path) -> None:
    convert(make("gpt2").save(tmp_path / "hf"), tmp_path / "ms")
    path = tmp_path / "ms" / "ms_config.json"
    content = json.loads(path.read_text())
    content["transformer"]["rotary_base"] = 5.0
    path.write_text(json.dumps(content))
    with pytest.raises(MindportError, match="cannot express rotary_base"):
        export(tmp_path / "ms", tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_one_prefix_is_named(make: Make, tmp_path: Path) -> None:
    tiny = make("llama")
    tiny.tensors = {f"module.{name}": array for name, array in tiny.tensors.items()}
    assert (
        "Every name begins with module.: save the state dict"
        in refusal(tiny.save(tmp_path / "hf"), tmp_path / "ms").fix
    )


@pytest.mark.parametrize("kind", [np.int8, np.bool_, np.int64])
def test_whole_numbers_are_no_weights(make: Make, tmp_path: Path, kind: type) -> None:
    tiny = make("llama")
    name = "model.layers.0.mlp.gate_proj.weight"
    tiny.tensors[name] = tiny.tensors[name].astype(kind)
    message = refusal(tiny.save(tmp_path / "hf"), tmp_path / "ms").message
    assert f"{name}: has dtype {np.dtype(kind).name}, and weights are floating-point" in message


def test_a_copy_of_another_dtype(make: Make, tmp_path: Path) -> None:
    tiny = make("llama", tied=True, copy=True)
    tiny.tensors["lm_head.weight"] = tiny.tensors["lm_head.weight"].astype(np.float64)
    assert (
        "lm_head.weight is float64, and model.embed_tokens.weight"
        in refusal(tiny.save(tmp_path / "hf"), tmp_path / "ms").message
    )


def test_options_of_weights_need_weights(make: Make, tmp_path: Path) -> None:
    config = make("llama").save(tmp_path / "hf") / "config.json"
    with pytest.raises(MindportError, match="what was asked for is about weights"):
        convert(config, tmp_path / "ms", Options(vocab_size=20, vocab_rule="zeros"))


def test_a_link_is_written_through(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make("llama").save(tmp_path / "hf")
    (tmp_path / "elsewhere").mkdir()
    for link, target in (("old", "elsewhere/old"), ("new", "elsewhere/new")):
        (tmp_path / link).symlink_to(target)
    (tmp_path / "elsewhere" / "old").mkdir()
    for link in ("old", "new"):
        convert(folder, tmp_path / link)
        assert (tmp_path / link).is_symlink()
        assert (tmp_path / "elsewhere" / link / "model.safetensors").is_file()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(MindportError, match="is the current folder"):
        convert(folder, Path("."))
