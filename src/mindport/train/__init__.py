"""Native training: the exact pieces a comparison with PyTorch needs."""

from mindport.train.losses import causal_lm_loss, contrastive_loss, masked_lm_loss, sentence_embeddings
from mindport.train.objectives import CausalLMObjective, ContrastiveObjective, MaskedLMObjective
from mindport.train.optimizer import AdamW, AdamWSettings, decays
from mindport.train.step import StepResult, TrainStep

__all__ = [
    "AdamW",
    "AdamWSettings",
    "CausalLMObjective",
    "ContrastiveObjective",
    "MaskedLMObjective",
    "StepResult",
    "TrainStep",
    "causal_lm_loss",
    "contrastive_loss",
    "decays",
    "masked_lm_loss",
    "sentence_embeddings",
]
