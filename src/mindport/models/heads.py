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

    def construct(self, hidden_BTH: Tensor, pooled_BH: Any, mask_BT: Any, word_VE: Tensor) -> Tensor:
        return self.output(hidden_BTH, word_VE)


class TransformingHead(nn.Cell):
    """A head that begins with dense, activation and norm, as BERT's over the vocabulary does; or may begin so."""

    def __init__(self, config: TransformerConfig, *, transforms: bool) -> None:
        super().__init__()
        self.transforms = transforms
        if transforms:
            self.transform = Linear(
                config.hidden_size,
                config.embedding_width,
                bias=config.add_head_transform_bias,
                params_dtype=to_mindspore(config.params_dtype),
                compute_dtype=to_mindspore(config.compute_dtype),
            )
            self.activation = activation(config.head_activation)
            self.norm = norm(config, config.embedding_width)

    def transformed(self, x: Tensor) -> Tensor:
        """(..., H) -> (..., E)."""
        return self.norm(self.activation(self.transform(x))) if self.transforms else x


class MaskedLMHead(TransformingHead):
    """Logits of masked tokens: the transform, and a projection with bias; (B, T, H) -> (B, T, V)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config, transforms=True)
        self.output = VocabularyProjection(config, bias=config.add_masked_lm_bias)

    def construct(self, hidden_BTH: Tensor, pooled_BH: Any, mask_BT: Any, word_VE: Tensor) -> Tensor:
        return self.output(self.transformed(hidden_BTH), word_VE)


class ClassificationHead(TransformingHead):
    """The transform where the configuration says so, dropout and a linear classifier.

    On one state of a sequence, (B, H) -> (B, C), or on each token, (B, T, H) -> (B, T, C).
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config, transforms=config.add_classifier_transform)
        self.pooling = config.classifier_pooling if config.head == "sequence_classification" else "none"
        if self.pooling == "pooler" and not config.add_pooler:
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

    def construct(self, hidden_BTH: Tensor, pooled_BH: Any, mask_BT: Any, word_VE: Tensor) -> Tensor:
        state = hidden_BTH
        if self.pooling == "pooler":
            state = pooled_BH
        elif self.pooling == "cls":
            state = hidden_BTH[:, 0]
        elif self.pooling == "mean":
            state = mean(hidden_BTH, mask_BT)
        return self.classifier(self.dropout(self.transformed(state)))


def mean(hidden_BTH: Tensor, mask_BT: Any) -> Tensor:
    """The mean over all positions, or over those whose mask is not 0; (B, H)."""
    if mask_BT is None:
        return hidden_BTH.mean(1)
    real_BT1 = cast(mask_BT != 0, hidden_BTH.dtype).expand_dims(-1)
    return (hidden_BTH * real_BT1).sum(1) / real_BT1.sum(1)


class QuestionAnsweringHead(nn.Cell):
    """Where an answer starts and where it ends, a score of each position for both: (B, T, H) -> (B, 2, T)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.span = Linear(
            config.hidden_size,
            2,
            bias=True,
            params_dtype=to_mindspore(config.params_dtype),
            compute_dtype=to_mindspore(config.compute_dtype),
        )

    def construct(self, hidden_BTH: Tensor, pooled_BH: Any, mask_BT: Any, word_VE: Tensor) -> Tensor:
        return self.span(hidden_BTH).swapaxes(1, 2)


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
        return ClassificationHead(config)
    if kind == "question_answering":
        return QuestionAnsweringHead(config)
    raise MindportError(
        tr("The native model does not know the head '{name}'.", name=kind),
        tr(
            "Known heads: {known}.",
            known="none, causal_lm, masked_lm, sequence_classification, token_classification, question_answering",
        ),
    )
