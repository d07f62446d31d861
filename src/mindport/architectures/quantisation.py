"""`quantization_config`: the one kind of quantised weights that conversion undoes, and what to do about the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mindport.architectures.vocabulary import RUNTIME, HFConfig, checked
from mindport.errors import MindportError, brief
from mindport.i18n import tr
from mindport.schema import TransformerConfig

KEY = "quantization_config"

ORIGINAL = "Convert the unquantised original, which the model card names (base_model)."
DEQUANTISE = "Load it with transformers, call model.dequantize(), save_pretrained() the result and convert that."
MXFP4 = "Load it with transformers and Mxfp4Config(dequantize=True), save_pretrained() the result and convert that."
FP8 = "Load it with transformers and FineGrainedFP8Config(dequantize=True), save_pretrained() the result, convert that."
COMPRESSED = (
    "Load it with transformers and CompressedTensorsConfig(run_compressed=False), save_pretrained() the result and "
    "convert that."
)
UNKNOWN = "Dequantise the model first, or convert the unquantised original, which the model card names (base_model)."

FIXES: dict[str, str] = {
    "bitsandbytes": DEQUANTISE,
    "higgs": DEQUANTISE,
    "mxfp4": MXFP4,
    "compressed-tensors": COMPRESSED,
    **dict.fromkeys(
        ("aqlm", "auto-round", "awq", "bitnet", "eetq", "fbgemm_fp8", "fp_quant", "gptq", "hqq", "modelopt", "mxfp8"),
        ORIGINAL,
    ),
    **dict.fromkeys(("nvfp4", "quanto", "quark", "sinq", "spqr", "torchao", "vptq"), ORIGINAL),
}
"""Method, as `quant_method` spells it -> what to do. `dequantize()` is there for those only of which transformers 4.57
and 5 implement it."""


@dataclass(frozen=True)
class Quantisation:
    """`quantization_config`: null, or block-scaled fp8, which conversion undoes; all else is refused by name.

    It determines no canonical field: what the model computes is what its dequantised weights say. What is written
    back has plain weights, so the key is not written again.
    """

    keys: tuple[str, ...] = (KEY,)
    layer: str = RUNTIME
    aliases: tuple[str, ...] = ()

    def decode(self, hf: HFConfig) -> dict[str, Any]:
        block_size(hf)
        return {}

    def encode(self, config: TransformerConfig) -> dict[str, Any]:
        return {}


def block_size(hf: HFConfig) -> tuple[int, int] | None:
    """Rows and columns of the blocks of an fp8 checkpoint, as DeepSeek-V3 and Qwen3 have it; None where the config
    says nothing of quantisation.

    Raises:
        MindportError: the weights are quantised otherwise.
    """
    said = hf.get(KEY)
    if said is None:
        return None
    method = _method(checked(KEY, said, dict))
    if method != "fp8":
        raise refusal(method)
    block = said.get("weight_block_size")
    if block is None:
        raise _refused(tr("{key}: fp8 weights without weight_block_size are not read.", key=KEY), FP8)
    if not (isinstance(block, list) and len(block) == 2 and all(type(n) is int and n > 0 for n in block)):
        raise MindportError(
            tr("weight_block_size must be two positive integers, not {value}.", value=brief(block)),
            tr("Correct it in config.json."),
        )
    for setting, values in _AS_READ.items():
        value = said.get(setting)
        if value is not None and value not in values:
            raise _refused(
                tr(
                    "{key}: fp8 weights with {setting} = {value} are not read.",
                    key=KEY,
                    setting=setting,
                    value=brief(value),
                ),
                FP8,
            )
    return block[0], block[1]


_AS_READ: dict[str, tuple[str, ...]] = {
    "fmt": ("e4m3",),
    "activation_scheme": ("dynamic",),
    "scale_fmt": ("float", "ue8m0"),  # how scales were rounded; what they are, the file says
    "expert_dtype": ("fp8",),
}
"""Settings of block-scaled fp8 -> the values with which weights are what is read here."""


def refusal(method: str | None) -> MindportError:
    """The error for weights quantised by a method, as `quant_method` spells it; None: it is not said by which."""
    if method is None:
        return _refused(tr("{key}: the weights are quantised, and it does not say how.", key=KEY), UNKNOWN)
    name = method if method in FIXES else brief(method)
    return _refused(
        tr("{key}: the weights are quantised with {method}, which is not read.", key=KEY, method=name),
        FIXES.get(method, UNKNOWN),
    )


def _refused(message: str, fix: str) -> MindportError:
    return MindportError(message, tr(fix))


def _method(said: Mapping[str, Any]) -> str | None:
    """The method in one spelling. Two of them have files that do not name it."""
    named = said.get("quant_method")
    if named is not None:
        spelled = str(checked("quant_method", named, str)).lower()
        return _SPELLINGS.get(spelled, spelled)
    if said.get("load_in_4bit") or said.get("load_in_8bit"):
        return "bitsandbytes"
    return "modelopt" if "quant_algo" in said else None


_SPELLINGS = {"auto_round": "auto-round", "intel/auto-round": "auto-round", "compressed_tensors": "compressed-tensors"}
