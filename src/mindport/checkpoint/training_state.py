"""What a training checkpoint holds besides the model: state of the optimizer, counters, the loss scale."""

from __future__ import annotations

from collections.abc import Container, Mapping

from mindport.checkpoint.source import TensorEntry

OPTIMIZER = "state of the optimizer"
RUN = "a counter or setting of the training run"

_STATE = (
    "accu_grads", "accum", "accum_update", "adam_m", "adam_v", "exp_avg", "exp_avg_sq", "exp_inf", "lamb_m", "lamb_v",
    "linear", "max_exp_avg_sq", "mean_grad", "mean_square", "moment", "moment1", "moment2", "moments", "momentum_buf",
    "prev", "stat", "step_size", "vhat",
)  # fmt: skip
"""Prefixes under which the optimizers of MindSpore 2.10 and MindFormers 1.9 clone the parameters, followed by a dot."""

_COUNTERS = (
    "accumulation_step", "aux_loss", "beta1_power", "beta2_power", "current_iterator_step", "epoch_num",
    "global_batch_size", "global_step", "indexer_loss", "last_overflow_iterator_step", "learning_rate", "lm_loss",
    "loss_scale", "momentum", "mtp_loss", "scale_sense", "scale_value", "scale_window", "scale_window_down_count",
    "scale_window_up_count", "step", "step_num",
)  # fmt: skip
"""Entries of their own that optimizers, loss scaling, training graphs and checkpoint callbacks of both write."""

STATISTICS = (".expert_load", ".expert_load_history", ".expert_load_history_cnt", ".fi_accu", ".max_logits_val")
"""Ends of names under which MindFormers' routers and attention note what they see."""


def without_training_state(
    entries: Mapping[str, TensorEntry], parameters: Container[str]
) -> tuple[dict[str, TensorEntry], dict[str, str]]:
    """The checkpoint as it is, and which of its tensors are training state -> reason.

    A name counts as state of the optimizer only if what follows its first word is, in full, a parameter of the model.
    """
    reasons = {}
    for name in entries:
        if name in parameters:
            continue
        state, _, parameter = name.partition(".")
        if state in _STATE and parameter in parameters:
            reasons[name] = OPTIMIZER
        elif name in _COUNTERS or name.endswith(STATISTICS):
            reasons[name] = RUN
    return dict(entries), reasons
