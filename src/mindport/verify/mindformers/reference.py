"""One process of a comparison: the source model through transformers, in float32, in a Python that has it."""

from __future__ import annotations

from pathlib import Path

from mindport.architectures import register_classes
from mindport.config.native import read_native_config
from mindport.verify.batches import Batch, load_tokenizer
from mindport.verify.frameworks import require
from mindport.verify.mindformers.exchange import REFERENCE, Job, write_answer, write_logits
from mindport.verify.mindformers.resources import peak_mb
from mindport.verify.mindformers.tokens import in_source, tokens_for


def compute_reference(exchange: Path, job: Job) -> None:
    """Choose the tokens, and write what transformers computes of them.

    Raises:
        MindportError: transformers is missing, or cannot load the model completely.
    """
    require("torch", "transformers")
    from mindport.verify.torch_model import load_torch_model, torch_outputs
    from mindport.verify.torch_training import first_step

    config = read_native_config(Path(job.folder))
    described, change = config.model, config.vocab
    register_classes(described.model_type)
    model = Path(job.model)
    network = load_torch_model(model, described.transformer, described.declaration.reference_attention)
    tokens = tokens_for(described.transformer, load_tokenizer(model), job.length, change)
    tokens.write(exchange)
    logits = {}
    for batch in tokens.batches:
        theirs = Batch(batch.name, in_source(batch.input_ids, change), batch.attention_mask)
        found = torch_outputs(network, theirs)["logits"]
        logits[batch.name] = found if change is None else found[..., [row for row in change.origins if row >= 0]]
    write_logits(exchange, REFERENCE, logits)
    step = None
    if job.step:
        loss, norm = first_step(network, in_source(tokens.step, change))
        step = {"loss": loss, "gradient_norm": norm}
    write_answer(exchange, REFERENCE, {"step": step, "peak_mb": peak_mb()})
