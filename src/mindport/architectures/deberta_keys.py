"""Keys of DeBERTa that mean something only together: relative positions, convolution, factorised embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mindport.architectures.common import ACTIVATION_NAMES, head_width
from mindport.architectures.vocabulary import STRUCTURE, HFConfig, checked
from mindport.errors import MindportError, brief
from mindport.i18n import tr
from mindport.schema import TransformerConfig

TYPES = ("c2p", "p2c")


@dataclass(frozen=True)
class RelativePositions:
    """Which relative positions there are, in how many buckets, through which projections; and the scale of scores.

    The scale counts the kinds that `pos_att_type` names, even where `relative_attention` is off and none is computed.
    """

    keys: tuple[str, ...] = (
        "relative_attention",
        "pos_att_type",
        "max_relative_positions",
        "position_buckets",
        "share_att_key",
        "norm_rel_ebd",
    )
    layer: str = STRUCTURE
    aliases: tuple[str, ...] = ()

    def decode(self, hf: HFConfig) -> dict[str, Any]:
        types = position_types(hf)
        scale = {"softmax_scale": (head_width(hf) * (1 + len(types))) ** -0.5}
        # Keys that the config class does not have, and their values in the modelling code.
        normed = _norms(hf.get("norm_rel_ebd", "none"))
        share = checked("share_att_key", hf.get("share_att_key", False), bool)
        buckets = checked("position_buckets", hf.get("position_buckets", -1), int)
        reach = checked("max_relative_positions", hf["max_relative_positions"], int)
        on = checked("relative_attention", hf["relative_attention"], bool)
        if not on:
            _require(not normed, "norm_rel_ebd = layer_norm", "relative_attention = true")
            return {
                **scale,
                "pos_att_type": "none",
                "max_relative_positions": 0,
                "position_buckets": None,
                "share_att_key": False,
                "norm_rel_ebd": "none",
            }
        _require(bool(types), "relative_attention = true", "pos_att_type")
        if reach < 1:
            reach = hf["max_position_embeddings"]
        if buckets > 0:
            # A logarithm is divided by that of the greatest distance over half of the buckets.
            least = buckets // 2 + 2
            _require(buckets > 1, f"position_buckets = {buckets}", "position_buckets >= 2")
            _require(reach >= least, f"position_buckets = {buckets}", f"max_relative_positions >= {least}")
        return {
            **scale,
            "pos_att_type": "|".join(types),
            "max_relative_positions": reach,
            "position_buckets": buckets if buckets > 0 else None,
            "share_att_key": share,
            "norm_rel_ebd": "layer_norm" if normed else "none",
        }

    def encode(self, config: TransformerConfig) -> dict[str, Any]:
        if config.pos_att_type == "none":
            named = round(config.softmax_scale**-2 / config.kv_channels) - 1
            return {"relative_attention": False, "pos_att_type": list(TYPES[: max(named, 0)])}
        return {
            "relative_attention": True,
            "pos_att_type": config.pos_att_type.split("|"),
            "max_relative_positions": config.max_relative_positions,
            "position_buckets": -1 if config.position_buckets is None else config.position_buckets,
            "share_att_key": config.share_att_key,
            "norm_rel_ebd": config.norm_rel_ebd,
        }


def position_types(hf: HFConfig) -> list[str]:
    """The kinds that `pos_att_type` names: a list, or words with | between them."""
    given = hf["pos_att_type"]
    if isinstance(given, str):
        given = [word.strip() for word in given.lower().split("|")]
    elif given is None:
        given = []
    if not isinstance(given, list) or any(word not in TYPES for word in given):
        raise MindportError(
            tr("{key} = {value} is not supported.", key="pos_att_type", value=brief(hf["pos_att_type"])),
            tr("Supported values: {allowed}.", allowed="c2p, p2c, c2p|p2c"),
        )
    return [word for word in TYPES if word in given]


def _norms(given: Any) -> bool:
    words = [word.strip() for word in checked("norm_rel_ebd", given, str).lower().split("|")]
    for word in words:
        checked("norm_rel_ebd", word, ("none", "layer_norm"))
    return "layer_norm" in words


@dataclass(frozen=True)
class Convolution:
    """A convolution beside the first layer, where `conv_kernel_size` is not 0."""

    keys: tuple[str, ...] = ("conv_kernel_size", "conv_groups", "conv_act")
    layer: str = STRUCTURE
    aliases: tuple[str, ...] = ()

    def decode(self, hf: HFConfig) -> dict[str, Any]:
        # The config class has none of these keys; the values are those of the modelling code.
        width = checked("conv_kernel_size", hf.get("conv_kernel_size", 0), int)
        groups = checked("conv_groups", hf.get("conv_groups", 1), int, 1)
        act = checked("conv_act", hf.get("conv_act", "tanh"), ACTIVATION_NAMES)
        if width <= 0:
            return {"conv_kernel_size": 0, "conv_groups": 1, "conv_act": "tanh"}
        _require(width % 2 == 1, f"conv_kernel_size = {width}", "conv_kernel_size % 2 = 1")
        _require(hf["hidden_size"] % groups == 0, f"conv_groups = {groups}", f"hidden_size % {groups} = 0")
        return {"conv_kernel_size": width, "conv_groups": groups, "conv_act": act}

    def encode(self, config: TransformerConfig) -> dict[str, Any]:
        if config.conv_kernel_size == 0:
            return {"conv_kernel_size": 0}
        return {key: getattr(config, key) for key in self.keys}


def embedding_size(width: int, hf: HFConfig) -> dict[str, int | None]:
    """Embeddings of another width than the hidden states' are projected; the newer head cannot read them."""
    factorised = checked("embedding_size", width, int, 1) != hf["hidden_size"]
    _require(hf["legacy"] or not factorised, "legacy = false", "embedding_size = hidden_size")
    return {"embedding_size": width if factorised else None}


def classifier_dropout(given: float, hf: HFConfig) -> dict[str, float]:
    """`cls_dropout` is read by the classifier of sequences only."""
    probability = checked("cls_dropout", given, float, 0, 1)
    tokens = "DebertaV2ForTokenClassification" in (hf.get("architectures") or ())
    return {"classifier_dropout": hf["hidden_dropout_prob"] if tokens else probability}


def _require(met: bool, what: str, needs: str) -> None:
    if not met:
        raise MindportError(tr("{what} needs {needs}.", what=what, needs=needs), tr("Correct it in config.json."))
