"""Settings of a training YAML that are other on a CPU: which, to what, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mindport.i18n import tr
from mindport.targets.mindformers import LEGACY

ROWS = 2
"""Sequences of a batch."""

FLOAT = "float32"


@dataclass(frozen=True)
class Override:
    """A key of `model.model_config` with another value than in the YAML.

    Args:
        key: its name.
        given: the YAML's value; None where it has none, so that MindFormers' default would count.
        value: what is computed with.
        reason: why.
    """

    key: str
    given: Any
    value: Any
    reason: str


def overrides_for(section: Mapping[str, Any], generation: str, length: int) -> tuple[Override, ...]:
    """What has to be set for two sequences of so many tokens in float32 on a CPU; what is so already is left out.

    Args:
        section: `model.model_config`.
        generation: LEGACY or MCORE.
    """
    wanted = _legacy(section, length) if generation == LEGACY else _mcore(section, length)
    found = (Override(key, section.get(key), value, reason) for key, value, reason in wanted)
    return tuple(o for o in found if o.key not in section or not _same(o.given, o.value))


def overridden(section: Mapping[str, Any], overrides: Iterable[Override]) -> dict[str, Any]:
    """The section as it is run."""
    return {**section, **{override.key: override.value for override in overrides}}


def _same(given: Any, value: Any) -> bool:
    return bool(given == value) and isinstance(given, bool) == isinstance(value, bool)


Rows = Iterator[tuple[str, Any, str]]


def _legacy(section: Mapping[str, Any], length: int) -> Rows:
    yield from _floats("compute_dtype param_init_type layernorm_compute_type softmax_compute_type rotary_dtype")
    yield "use_flash_attention", False, tr("the kernel exists on an NPU alone; MindFormers' own attention without it")
    yield "fused_rms_norm", False, tr("the kernel exists on an NPU alone; MindFormers' own norm without it")
    yield "use_rope_slice", True, tr("halves are turned by slices, as the other way is made for an NPU")
    yield "batch_size", ROWS, tr("sequences of the comparison")
    yield "seq_length", length, tr("tokens of the comparison")
    yield "input_sliced_sig", False, tr("the training step gets one token more, and slices it itself")
    yield from _one_process(section)


def _mcore(section: Mapping[str, Any], length: int) -> Rows:
    yield from _floats("compute_dtype params_dtype layernorm_compute_dtype softmax_compute_dtype rotary_dtype")
    yield from _floats(" ".join(key for key in ("moe_router_dtype", "router_dense_type") if key in section))
    yield "use_flash_attention", True, tr("the cell with the kernel, which a stand-in computes")
    for key in ("hidden_dropout", "attention_dropout"):
        yield key, 0.0, tr("dropout is random, and cannot be compared")
    if "moe_aux_loss_coeff" in section:
        yield (
            "moe_aux_loss_coeff",
            0.0,
            tr("the balance of experts is another loss in MindFormers than in transformers"),
        )
    if section.get("num_nextn_predict_layers"):
        yield "mtp_loss_factor", 0.0, tr("transformers has no modules for multi-token prediction to compare with")
    yield "seq_length", length, tr("tokens of the comparison")
    yield from _one_process(section)


def _floats(keys: str) -> Rows:
    for key in keys.split():
        yield key, FLOAT, tr("both sides compute in float32")


def _one_process(section: Mapping[str, Any]) -> Rows:
    for key, value in {"offset": 0, "pp_interleave_num": 1}.items():
        if key in section:
            yield key, value, tr("one process has no pipeline")
