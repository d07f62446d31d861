"""The check-up: every key once, with what happens to it."""

from __future__ import annotations

from typing import Any

import pytest

from mindport.architectures import model_types
from mindport.config.audit import DERIVED, IGNORED, MAPPED, UNHANDLED, Row, audit
from mindport.config.hf import from_hf


def rows(hf: dict[str, Any]) -> dict[str, Row]:
    found = audit(from_hf(hf))
    assert len({(row.key, row.origin) for row in found}) == len(found), "a key is listed twice"
    return {row.key: row for row in found}


def test_what_happens_to_each_key_of_a_file() -> None:
    found = rows(
        {
            "model_type": "gpt2",
            "n_embd": 96,
            "n_head": 4,
            "n_inner": None,
            "resid_pdrop": 0.2,
            "use_cache": True,
            "torch_dtype": "float16",
            "strange": {"a": [1]},
        }
    )
    assert found["n_embd"] == Row("n_embd", 96, "structure", "file", MAPPED, {"hidden_size": 96})
    assert found["n_inner"] == Row("n_inner", None, "structure", "file", DERIVED, {"ffn_hidden_size": 384})
    assert found["resid_pdrop"] == Row("resid_pdrop", 0.2, "training", "file", MAPPED, {"hidden_dropout": 0.2})
    assert found["torch_dtype"] == Row("torch_dtype", "float16", "runtime", "file", MAPPED, {"params_dtype": "float16"})
    assert found["strange"] == Row("strange", {"a": [1]}, "", "file", UNHANDLED, {})
    cache = found["use_cache"]
    assert (cache.status, cache.layer, cache.to) == (IGNORED, "runtime", {})
    assert cache.note
    assert found["model_type"].layer == "record"


def test_class_defaults_that_matter_are_listed() -> None:
    found = rows({"model_type": "gpt2", "n_embd": 96, "n_head": 4})
    assert found["n_layer"] == Row("n_layer", 12, "structure", "class default", MAPPED, {"num_layers": 12})
    assert "n_embd" in found
    assert found["n_embd"].origin == "file"
    assert "summary_type" not in found, "an ignored default is no news"


def test_a_default_is_not_listed_beside_its_alias() -> None:
    found = audit(from_hf({"model_type": "gpt2", "hidden_size": 96, "n_head": 4}))
    about_width = [row.key for row in found if "hidden_size" in row.to]
    assert about_width == ["hidden_size"]


def test_formulas_are_listed_last() -> None:
    found = audit(from_hf({"model_type": "llama", "hidden_size": 512, "num_attention_heads": 8}))
    last = found[-1]
    assert (last.key, last.value, last.origin, last.status) == ("softmax_scale", 64**-0.5, "formula", DERIVED)


def test_a_rule_with_several_keys_lists_those_of_the_file() -> None:
    found = rows({"model_type": "llama", "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e6}})
    assert found["rope_parameters"].to["rotary_base"] == 1e6
    assert "rope_theta" not in found


def test_what_only_one_value_is_supported_of_determines_nothing() -> None:
    found = rows({"model_type": "bert", "is_decoder": False})
    assert (found["is_decoder"].status, found["is_decoder"].to) == (MAPPED, {})


@pytest.mark.parametrize("model_type", model_types())
def test_every_canonical_field_is_accounted_for(model_type: str) -> None:
    """Fields of the config come from rows, from the class, from constants, or are how Mindport computes."""
    model = from_hf({"model_type": model_type})
    said = {name for row in audit(model) for name in row.to}
    declared = {*model.declaration.constants, *model.declared_class.fields}
    expected = {**model.declaration.constants, **model.declared_class.fields}
    for row in audit(model):
        for name, value in row.to.items():
            assert getattr(model.transformer, name) == expected.get(name, value)
    changed = {
        name
        for name in type(model.transformer).describe()
        if getattr(model.transformer, name) != type(model.transformer).__dataclass_fields__[name].default
    }
    assert changed <= said | declared
