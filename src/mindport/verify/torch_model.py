"""The PyTorch side: the source model through transformers, in float32, without any code from its folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mindport.config.hf import read_hf_config
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.schema import TransformerConfig
from mindport.verify.batches import Batch
from mindport.verify.frameworks import require

_AUTO_CLASS = {
    "none": "AutoModel",
    "causal_lm": "AutoModelForCausalLM",
    "masked_lm": "AutoModelForMaskedLM",
    "sequence_classification": "AutoModelForSequenceClassification",
    "token_classification": "AutoModelForTokenClassification",
    "question_answering": "AutoModelForQuestionAnswering",
}


def load_torch_model(model: Path, config: TransformerConfig, attention: str = "eager") -> Any:
    """The model in evaluation mode, float32.

    Args:
        attention: transformers' implementation of it; "eager" is the plain one.

    Raises:
        MindportError: torch or transformers is missing, or transformers cannot load the folder completely.
    """
    require("torch", "transformers")
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    auto = getattr(transformers, _AUTO_CLASS[config.head])
    extra = (
        {"add_pooling_layer": config.add_pooler}
        if "add_pooler" in read_hf_config(model).declared_class.optional
        else {}
    )
    try:
        network, info = auto.from_pretrained(
            model,
            dtype=torch.float32,
            attn_implementation=attention,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
            **extra,
        )
    except Exception as error:  # whatever transformers raises, the user needs its sentence
        raise MindportError(
            tr(
                "transformers cannot load {model}: {error}.",
                model=model,
                error=str(error).strip().split("\n")[0],
            ),
            tr("The comparison needs a folder that transformers loads."),
        ) from error
    if info["missing_keys"] or info["mismatched_keys"]:
        raise MindportError(
            tr(
                "transformers does not find these weights in {model}: {names}.",
                model=model,
                names=", ".join(sorted(map(str, [*info["missing_keys"], *info["mismatched_keys"]]))[:5]),
            ),
            tr("The comparison needs a folder that transformers loads."),
        )
    return network.eval()


def torch_outputs(network: Any, batch: Batch) -> Mapping[str, np.ndarray]:
    """Outputs of one forward pass by name, as `arrays_of` gives them."""
    import torch

    with torch.no_grad():
        mask = torch.from_numpy(batch.attention_mask).long()
        output = network(input_ids=torch.from_numpy(batch.input_ids).long(), attention_mask=mask)
    return arrays_of(output)


def arrays_of(output: Any) -> dict[str, np.ndarray]:
    """What a transformers model returned: logits, or last_hidden_state and pooler_output."""
    found = {"logits": logits_of(output), **{name: output.get(name) for name in ("last_hidden_state", "pooler_output")}}
    return {name: value.numpy() for name, value in found.items() if value is not None}


def logits_of(output: Any) -> Any:
    """The logits of a transformers model's output; start and end of an answer as one, (B, 2, T)."""
    import torch

    if "start_logits" in output:
        return torch.stack((output.start_logits, output.end_logits), 1)
    return output.get("logits")
