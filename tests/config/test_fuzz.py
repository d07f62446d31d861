"""Configs that are almost right: whatever is changed in them, they are read or refused in one sentence."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mindport.architectures import class_defaults, model_types
from mindport.config.audit import audit, unhandled_keys
from mindport.config.hf import from_hf, read_hf_config, to_hf
from mindport.config.native import NativeConfig, read_native_config, to_json
from mindport.errors import MindportError

WHOLE: list[dict[str, Any]] = [{"model_type": name, **class_defaults(name)} for name in model_types()]
COMPOSITE = [
    {"model_type": "x_vl", "dtype": "float16", "text_config": hf, "vision_config": {"model_type": "y"}} for hf in WHOLE
]
DEEPER = [{"model_type": "x_omni", "thinker_config": hf, "talker_config": {"a": 1}} for hf in COMPOSITE]
OTHERS: list[dict[str, Any]] = [
    {"model_type": "t5", "is_encoder_decoder": True, "relative_attention_num_buckets": 32},
    {"model_type": "new", "num_experts": 8, "rms_norm_eps": 1e-6, "layer_types": ["full_attention"]},
    {"type_vocab_size": 2, "architectures": ["BertModel"]},
]
KEYS = sorted({key for hf in WHOLE for key in hf} | {"text_config", "architectures", "rope_parameters", "torch_dtype"})

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-2, 4)
    | st.sampled_from([10**18, -(10**18), 10**4000, 2**53])
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from([*model_types(), "llama3", "yarn", "default", "float16", "full_attention", "\udcff", "\x00"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner),
    max_leaves=6,
)


@st.composite
def almost_right(draw: st.DrawFn) -> dict[str, Any]:
    """A whole config with a few keys removed or given another value, at any level."""
    hf: dict[str, Any] = copy.deepcopy(draw(st.sampled_from([*WHOLE, *COMPOSITE, *DEEPER, *OTHERS])))
    for _ in range(draw(st.integers(1, 4))):
        place = hf
        while nested := [key for key, value in place.items() if isinstance(value, dict)]:
            if draw(st.booleans()):
                break
            place = place[draw(st.sampled_from(nested))]
        key = draw(st.sampled_from(sorted(place) or KEYS) | st.sampled_from(KEYS) | st.text(max_size=3))
        if draw(st.booleans()):
            place[key] = draw(VALUES)
        else:
            place.pop(key, None)
    return hf


def outcome(read: Callable[[Any], Any], source: Any) -> Any:
    """What reading ends in; anything but a result and a `MindportError` fails the test."""
    try:
        return read(source)
    except MindportError as error:
        return error


SETTINGS = settings(
    max_examples=400,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@given(almost_right())
@SETTINGS
def test_a_config_is_a_model_or_one_sentence(hf: dict[str, Any]) -> None:
    before = repr(hf)
    model = outcome(from_hf, hf)
    assert repr(hf) == before, "reading changes nothing"
    if isinstance(model, MindportError):
        assert model.message
        assert model.fix
        assert len(str(model)) < 2000
        assert json.dumps(model.as_dict())
        return
    assert repr(to_hf(model)) == before
    assert {row.key for row in audit(model)} >= {*model.part.config}
    assert set(unhandled_keys(model)) <= {*model.part.config}
    assert to_json(NativeConfig(model))["source"]["config"] is hf


@given(almost_right(), st.randoms(use_true_random=False))
@SETTINGS
def test_a_file_that_was_cut_or_stirred(tmp_path: Path, hf: dict[str, Any], random: Any) -> None:
    text = bytearray(json.dumps(hf, ensure_ascii=True).encode()) if "\udcff" not in repr(hf) else bytearray(b"{}")
    for _ in range(random.randint(0, 3)):
        place = random.randrange(len(text) + 1)
        text[place : place + random.randint(0, 4)] = random.choice(
            [b"", b"{", b'"', b"NaN", b"\xff", b",", b"\r\n", b"9"]
        )
    path = tmp_path / "config.json"
    path.write_bytes(random.choice([b"", b"\xef\xbb\xbf"]) + text)
    for read in (read_hf_config, read_native_config):
        outcome(read, path)
