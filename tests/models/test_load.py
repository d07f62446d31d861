"""Loading is exact, complete, and reports everything at once."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

ms = pytest.importorskip("mindspore")

from mindport.checkpoint.load_report import LoadError, LoadReport, Misfit  # noqa: E402
from mindport.errors import MindportError  # noqa: E402
from mindport.models import build_model, load_parameters  # noqa: E402
from mindport.models.load import Given, load  # noqa: E402
from mindport.schema import TransformerConfig, slots_of  # noqa: E402

CONFIG = TransformerConfig(
    vocab_size=17,
    hidden_size=12,
    num_layers=2,
    num_attention_heads=3,
    num_query_groups=1,
    kv_channels=6,
    ffn_hidden_size=20,
    max_position_embeddings=32,
    softmax_scale=6**-0.5,
    head="causal_lm",
)


def arrays(config: TransformerConfig = CONFIG) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    return {name: generator.standard_normal(shape, np.float32) for name, shape in slots_of(config).items()}


def given(values: dict[str, np.ndarray]) -> list[Given]:
    return [
        Given(name, str(array.dtype), array.shape, array.nbytes, lambda array=array: array)  # type: ignore[misc]
        for name, array in values.items()
    ]


def test_every_value_arrives() -> None:
    network = build_model(CONFIG, initialise=False)
    values = arrays()
    report = load_parameters(network, values.items())
    assert (report.tensors, report.nbytes) == (len(values), sum(array.nbytes for array in values.values()))
    for name, parameter in network.parameters_and_names():
        np.testing.assert_array_equal(parameter.asnumpy(), values[name])


def test_all_problems_in_one_message() -> None:
    network = build_model(CONFIG, initialise=False)
    values = arrays()
    del values["final_norm.weight"]
    values["model.final_norm.weight"] = np.ones(12, np.float32)
    values["layer.0.attention.q.weight"] = values["layer.0.attention.q.weight"].T
    values["layer.1.mlp.up.weight"] = values["layer.1.mlp.up.weight"].astype(np.float16)
    with pytest.raises(MindportError) as caught:
        load_parameters(network, [*values.items(), ("embedding.word.weight", values["embedding.word.weight"])])
    message = str(caught.value)
    assert message.count("\n") == 5
    for name in (
        "final_norm.weight",
        "model.final_norm.weight",
        "layer.0.attention.q.weight",
        "layer.1.mlp.up.weight",
        "embedding.word.weight",
    ):
        assert f"\n  {name}: " in message


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_only_half_precision_is_widened_and_only_when_asked(dtype: Any) -> None:
    network = build_model(CONFIG, initialise=False)
    values = {name: array.astype(dtype) for name, array in arrays().items()}
    name = str(np.dtype(dtype))
    with pytest.raises(MindportError, match=f"dtype {name}, the network needs float32"):
        load_parameters(network, values.items())
    report = load(network, given(values), widen=True)
    if dtype is np.float64:
        assert len(report.dtypes) == report.count == len(values)
        return
    assert (report.count, report.widened, report.stored_dtypes) == (0, (name,), (name,))
    for name, parameter in network.parameters_and_names():
        np.testing.assert_array_equal(parameter.asnumpy(), values[name].astype(np.float32))


def test_the_findings_are_data() -> None:
    network = build_model(CONFIG, initialise=False)
    values = arrays()
    del values["final_norm.weight"]
    values["more"] = np.ones(3, np.float32)
    values["layer.0.mlp.up.weight"] = values["layer.0.mlp.up.weight"].T
    values["layer.1.mlp.up.weight"] = values["layer.1.mlp.up.weight"].astype(np.int32)
    with pytest.raises(LoadError) as caught:
        load_parameters(network, values.items())
    assert caught.value.report == LoadReport(
        not_loaded=("final_norm.weight",),
        extra=("more",),
        shapes=(Misfit("layer.0.mlp.up.weight", (12, 20), (20, 12)),),
        dtypes=(Misfit("layer.1.mlp.up.weight", "int32", "float32"),),
    )


def test_layers_are_collapsed_in_the_message() -> None:
    network = build_model(CONFIG, initialise=False)
    values = {name: array for name, array in arrays().items() if ".attention_norm." not in name}
    with pytest.raises(LoadError) as caught:
        load_parameters(network, values.items())
    assert caught.value.report.count == 2
    assert "\n  layer.{0..1}.attention_norm.weight: not loaded" in str(caught.value)


def test_a_long_message_is_cut() -> None:
    network = build_model(CONFIG, initialise=False)
    more = {f"{'abcdefghijklmnopqrstuvwxyz'[i % 26]}{i}": np.ones(1, np.float32) for i in range(100)}
    with pytest.raises(LoadError, match=r"100 weights do not fit the network:(.|\n)*\.\.\. and 60 more"):
        load_parameters(network, {**arrays(), **more}.items())


def test_nothing_is_read_where_something_does_not_fit() -> None:
    """What does not fit is known from names, shapes and dtypes, without waiting for the weights."""
    network = build_model(CONFIG, initialise=False)

    def unread() -> np.ndarray:
        raise AssertionError

    tensors = [replace(tensor, read=unread) for tensor in given(arrays())[1:]]
    assert load(network, tensors).not_loaded == (given(arrays())[0].name,)


def test_one_tensor_in_memory_at_a_time() -> None:
    network = build_model(CONFIG, initialise=False)
    read: list[weakref.ref[np.ndarray]] = []
    alive = []

    def reading(array: np.ndarray) -> np.ndarray:
        gc.collect()
        alive.append(sum(old() is not None for old in read))
        fresh = array.copy()
        read.append(weakref.ref(fresh))
        return fresh

    values = arrays()
    tensors = [replace(t, read=lambda t=t: reading(values[t.name])) for t in given(values)]  # type: ignore[misc]
    sizes: list[int] = []
    assert load(network, tensors, progress=sizes.append).tensors == len(values)
    assert set(alive) == {0}
    assert sizes == [tensor.nbytes for tensor in tensors]


def test_what_is_carried_has_to_be_there_in_its_shape() -> None:
    network = build_model(CONFIG, initialise=False)
    values = {**arrays(), "mtp.0.a": np.ones((2, 3), np.float32), "mtp.0.b": np.ones(4, np.float16)}
    report = load(network, given(values), carried={"mtp.0.a": (2, 3), "mtp.0.b": (4,)})
    assert (report.count, report.carried, report.tensors) == (0, 2, len(arrays()))
    report = load(network, given(values), carried={"mtp.0.a": (3, 2), "mtp.0.c": (4,)})
    assert (report.not_loaded, report.extra) == (("mtp.0.c",), ("mtp.0.b",))
    assert report.shapes == (Misfit("mtp.0.a", (2, 3), (3, 2)),)


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        ("a.{}", "{}", "would fit with the prefix 'a.'"),
        ("{}", "a.b.{}", "would fit without their prefix 'a.b.'"),
        ("a.{}", "b.{}", ""),
        ("{}", "a{}", ""),
    ],
)
def test_a_prefix_is_named_only_if_it_is_all(ours: str, theirs: str, said: str) -> None:
    names = ("x.weight", "weight", "y.bias")
    report = LoadReport(not_loaded=tuple(map(ours.format, names)), extra=tuple(map(theirs.format, reversed(names))))
    assert said in report.hint
    assert bool(said) == bool(report.hint)
    assert not replace(report, extra=(*report.extra, "another")).hint


def test_half_precision_parameters() -> None:
    config = replace(CONFIG, params_dtype="float16", compute_dtype="float16")
    network = build_model(config, initialise=False)
    load_parameters(network, ((name, array.astype(np.float16)) for name, array in arrays().items()))
    assert network.embedding.word.weight.dtype == ms.float16
    logits = network(ms.Tensor(np.arange(10, dtype=np.int32).reshape(1, 10))).logits
    assert logits.dtype == ms.float16
    assert np.isfinite(logits.asnumpy()).all()
