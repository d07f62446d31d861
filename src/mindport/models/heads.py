"""What turns hidden states into logits."""

from __future__ import annotations

from typing import Any

from mindspore import Parameter, Tensor, nn
from mindspore.common.initializer import initializer

from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.models.activations import activation
from mindport.models.dtypes import cast, to_mindspore
from mindport.models.linear import Linear, project
from mindport.models.norms import norm
from mindport.schema import TransformerConfig


class VocabularyProjection(nn.Cell):
    """(..., E) -> (..., V) by its own `weight` (V, E), or by the word embedding where the two are tied.

    E is the width of the embedding: H, but where embeddings are factorised.

    Tied means one parameter: the embedding's weight is handed in, never copied, so its gradient is the sum of
    both uses.
    """

    def __init__(self, config: TransformerConfig, *, bias: bool) -> None:
        super().__init__()
        params_dtype = to_mindspore(config.params_dtype)
        vocab, width = config.vocab_size, config.embedding_width
        tied = config.tie_word_embeddings
        self.weight = None if tied else Parameter(initializer("zeros", (vocab, width), params_dtype), name="weight")
        self.bias = Parameter(initializer("zeros", (vocab,), params_dtype), name="bias") if bias else None
        self.compute_dtype = to_mindspore(config.compute_dtype)

    def construct(self, x: Tensor, word_VE: Tensor) -> Tensor:
        weight = word_VE if self.weight is None else self.weight
        logits = project(x, weight, self.compute_dtype)
        return logits if self.bias is None else logits + cast(self.bias, self.compute_dtype)


class CausalLMHead(nn.Cell):
    """Next-token logits: (B, T, H) -> (B, T, V)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.output = VocabularyProjection(config, bias=False)

    def construct(self, hidden_BTH: Tensor, pooled_BH: Any, word_VE: Tensor) -> Tensor:
        return self.output(hidden_BTH, word_VE)


class MaskedLMHead(nn.Cell):
    """BERT's masked-token logits: dense, activation, norm, projection with bias; (B, T, H) -> (B, T, V)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.transform = Linear(
            config.hidden_size,
            config.embedding_width,
            bias=True,
            params_dtype=to_mindspore(config.params_dtype),
            compute_dtype=to_mindspore(config.compute_dtype),
        )
        self.activation = activation(config.head_activation)
        self.norm = norm(config, config.embedding_width)
        self.output = VocabularyProjection(config, bias=True)

    def construct(self, hidden_BTH: Tensor, pooled_BH: Any, word_VE: Tensor) -> Tensor:
        return self.output(self.norm(self.activation(self.transform(hidden_BTH))), word_VE)


class ClassificationHead(nn.Cell):
    """Dropout and a linear classifier.

    On the pooled state, (B, H) -> (B, C), or on each token, (B, T, H) -> (B, T, C).
    """

    def __init__(self, config: TransformerConfig, *, on_pooled: bool) -> None:
        super().__init__()
        if on_pooled and not config.add_pooler:
            raise MindportError(
                tr("Sequence classification needs the pooler, and this configuration has none."),
                tr("Set add_pooler, or take the head 'token_classification'."),
            )
        self.dropout = nn.Dropout(p=config.classifier_dropout)
        self.classifier = Linear(
            config.hidden_size,
            config.num_labels,
            bias=True,
            params_dtype=to_mindspore(config.params_dtype),
            compute_dtype=to_mindspore(config.compute_dtype),
        )
        self.on_pooled = on_pooled

    def construct(self, hidden_BTH: Tensor, pooled_BH: Any, word_VE: Tensor) -> Tensor:
        return self.classifier(self.dropout(pooled_BH if self.on_pooled else hidden_BTH))


def head(config: TransformerConfig) -> nn.Cell | None:
    """The head the configuration names; None for the bare backbone.

    Raises:
        MindportError: an unknown head, or one that this backbone cannot feed.
    """
    kind = config.head
    if kind == "none":
        return None
    if kind == "causal_lm":
        return CausalLMHead(config)
    if kind == "masked_lm":
        return MaskedLMHead(config)
    if kind in ("sequence_classification", "token_classification"):
        return ClassificationHead(config, on_pooled=kind == "sequence_classification")
    raise MindportError(
        tr("The native model does not know the head '{name}'.", name=kind),
        tr(
            "Known heads: {known}.",
            known="none, causal_lm, masked_lm, sequence_classification, token_classification",
        ),
    )
