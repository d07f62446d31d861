"""CPU stand-ins for the kernels of MindFormers that exist on Ascend only.

MindFormers' own classes build the graph, hold the parameters and call each other; what is replaced here is single
operations, each by what its documentation says it computes. So a comparison says that configuration, weights and their
layout, and the wiring of the graph are right. It says nothing of the Ascend kernels themselves, of mixed precision, or
of several devices. The legacy generation needs `SingleProcessStep` alone, and with `use_flash_attention` and
`fused_rms_norm` off nothing else. `notes` says in one line each what stands in for what.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

import mindspore as ms
from mindspore import Tensor, nn, ops

from mindport.i18n import tr
from mindport.verify.mindformers import wide_dtypes

_GRAPH = "mindformers.parallel_core.training_graph."

_used: set[str] = set()


def notes() -> dict[str, str]:
    """Name -> what it replaces and what that computes, in the user's language."""
    return {
        "Outer": tr("positions times frequencies in RoPE: the same products, by a plain multiplication"),
        "FlashAttentionScore": tr(
            "the fused attention kernel: softmax of scaled and masked scores, times values, all in float32; heads, "
            "scale and mask are MindFormers' own"
        ),
        "FusedNorm": tr("the fused RMSNorm: MindFormers' own unfused one, in float32"),
        "Experts": tr(
            "grouped matrix products and the dispatch of tokens: every expert on every token, times the weights of "
            "MindFormers' router"
        ),
        "Embedding": tr("the embedding: the same rows, by an operation whose gradient exists on a CPU"),
        "TopkExt": tr("the choice of experts: the same largest scores"),
        "MeanExt": tr("the mean in the balance of experts: the same mean"),
        "OneHotExt": tr("counting what each expert has to do: the same counts"),
        "SingleProcessStep": tr("the training step: MindFormers' own, without the overflow flags of a device"),
    }


def used() -> list[str]:
    """The stand-ins that the models of this process are made of, as `notes` names them."""
    return [name for name in notes() if name in _used]


class _StandIn(nn.Cell):
    """Sharding and recomputation are settings of a kernel, without a meaning in one process."""

    def __init__(self) -> None:
        super().__init__()
        _used.add(type(self).__name__)

    def shard(self, *_: Any, **__: Any) -> _StandIn:
        return self

    def recompute(self, *_: Any, **__: Any) -> _StandIn:
        return self

    def add_prim_attr(self, *_: Any, **__: Any) -> _StandIn:
        return self


class Outer(_StandIn):
    """For the Ascend `Outer`, positions times frequencies in RoPE: each product is one multiplication in both."""

    def construct(self, left: Tensor, right: Tensor) -> Tensor:
        return left.reshape(-1, 1) * right.reshape(1, -1)


class FlashAttentionScore(_StandIn):
    """For the fused attention kernel, layout BNSD: softmax(scale * q k^T, masked where the mask is 1) v, in float32.

    The kernel computes the same without holding the scores; head grouping, scale and mask come from MindFormers' cell.
    """

    def __init__(self, head_num: int = 1, keep_prob: float = 1.0, scale_value: float = 1.0, *_: Any, **__: Any) -> None:
        super().__init__()
        self.heads, self.scale = head_num, scale_value
        self.scores = ops.BatchMatMul(transpose_b=True)
        self.mix = ops.BatchMatMul()
        self.softmax = ops.Softmax(-1)

    def construct(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        real_shift: Tensor | None = None,
        drop_mask: Tensor | None = None,
        padding_mask: Tensor | None = None,
        mask: Tensor | None = None,
        prefix: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        key, value = self.for_each_head(key), self.for_each_head(value)
        scores = self.scores(ops.cast(query, ms.float32), key) * self.scale
        scores = scores + ops.cast(mask, ms.float32) * -1e30
        return scores, scores, scores, self.mix(self.softmax(scores), value)

    def for_each_head(self, states: Tensor) -> Tensor:
        batch, groups, length, width = states.shape
        shared = self.heads // groups
        states = ops.cast(states, ms.float32).reshape(batch, groups, 1, length, width)
        states = ops.broadcast_to(states, (batch, groups, shared, length, width))
        return states.reshape(batch, self.heads, length, width)


class TopkExt(_StandIn):
    """For the extended top-k, which picks the experts: largest first along the last axis, as it is called there."""

    def __init__(self) -> None:
        super().__init__()
        self.topk = ops.TopK(sorted=True)

    def construct(self, x: Tensor, k: int, dim: int = -1, largest: bool = True, in_order: bool = True) -> Any:
        return self.topk(x, k)


class MeanExt(_StandIn):
    """For the extended mean, in the auxiliary loss of the router."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = ops.ReduceMean(keep_dims=False)

    def construct(self, x: Tensor, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Tensor:
        return self.mean(x, ()) if axis is None else self.mean(x, axis)


class OneHotExt(_StandIn):
    """For the extended one-hot, in the auxiliary loss and in counting how much each expert has to do."""

    def __init__(self) -> None:
        super().__init__()
        self.one_hot = ops.OneHot()
        self.on, self.off = Tensor(1, ms.int32), Tensor(0, ms.int32)

    def construct(self, x: Tensor, depth: int, on: Any = None, off: Any = None, axis: int = -1) -> Tensor:
        return self.one_hot(ops.cast(x, ms.int32), depth, self.on, self.off)


@cache
def _experts() -> type:
    """For the experts: MindFormers' cell with its parameters, every expert evaluated on every token.

    GroupedMatmul and the token dispatcher save the products that the router does not ask for; here they are multiplied
    by 0. How the parameters are cut into experts, gate and up is written as MindFormers' own forward does it.
    """
    ffn = importlib.import_module(_GRAPH + "transformer.moe.ffn")

    class Experts(ffn.FFNGroupedGEMM):  # type: ignore[name-defined]
        def __init__(self, config: Any) -> None:
            super().__init__(config)
            _used.add("Experts")
            self.experts, self.width = config.num_moe_experts, config.moe_ffn_hidden_size
            self.product = ops.BatchMatMul()
            self.one_hot, self.total, self.sigmoid = ops.OneHot(), ops.ReduceSum(), ops.Sigmoid()
            self.on, self.off = Tensor(1.0, ms.float32), Tensor(0.0, ms.float32)

        def construct(self, tokens: Tensor, probs: Tensor, routing_map: Tensor) -> Tensor:
            states = ops.cast(tokens, ms.float32).reshape(-1, self.hidden_size)
            count, chosen = states.shape[0], routing_map.shape[-1]
            first = ops.cast(self.weight1, ms.float32).reshape(self.experts, self.hidden_size, self.width * 2)
            second = ops.cast(self.weight2, ms.float32).reshape(self.experts, self.width, self.hidden_size)
            picked = self.one_hot(routing_map.reshape(count, chosen), self.experts, self.on, self.off)
            share = self.total(picked * ops.cast(probs, ms.float32).reshape(count, chosen, 1), 1)
            every = ops.broadcast_to(
                states.reshape(1, count, self.hidden_size), (self.experts, count, self.hidden_size)
            )
            inner = self.product(every, first)
            gate, up = inner[:, :, : self.width], inner[:, :, self.width :]
            outer = self.product(gate * self.sigmoid(gate) * up, second)
            outer = self.total(outer * share.transpose(1, 0).reshape(self.experts, count, 1), 0)
            return ops.cast(outer.reshape(tokens.shape), tokens.dtype)

    return Experts


@cache
def _embeddings() -> tuple[type, type]:
    """For the embedding, of the model and of multi-token prediction: the same table, looked up by Gather, whose
    gradient exists on a CPU."""
    layers = importlib.import_module(_GRAPH + "tensor_parallel.layers")
    modules = importlib.import_module(_GRAPH + "transformer.multi_token_prediction")

    class Embedding(layers.VocabParallelEmbedding):  # type: ignore[name-defined]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            _used.add("Embedding")
            self.gather = ops.Gather()

        def construct(self, ids: Tensor) -> Tensor:
            return self.gather(self.weight, ids, 0)

    class SharedEmbedding(modules.MtpSharedVocabParallelEmbedding):  # type: ignore[name-defined]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            _used.add("Embedding")
            self.gather = ops.Gather()

        def construct(self, weight: Tensor, ids: Tensor) -> Tensor:
            return self.gather(weight, ids, 0)

    return Embedding, SharedEmbedding


@cache
def single_process_step() -> type:
    """For MindFormers' training step: without the overflow flags of the device, which matter to float16 alone."""
    wrapper = importlib.import_module("mindformers.wrapper.wrapper")

    class SingleProcessStep(wrapper.MFTrainOneStepCell):  # type: ignore[name-defined]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            _used.add("SingleProcessStep")

        def start_overflow_check(self, pre_cond: Any, compute_input: Any) -> Any:
            return False, compute_input

        def get_overflow_status(self, status: Any, compute_output: Any) -> bool:
            return False

        def process_loss_scale(self, overflow: Any) -> Any:
            return overflow

    return SingleProcessStep


def _unfused(made: Any) -> Any:
    """MindFormers' own unfused norm."""

    def make(*args: Any, **kwargs: Any) -> Any:
        _used.add("FusedNorm")
        return made(*args, **kwargs)

    return make


@cache
def stand_in_step() -> None:
    """Have MindFormers' Trainer take the single-process step where a YAML names MFTrainOneStepCell, in this process."""
    register = importlib.import_module("mindformers.tools.register")
    steps = register.MindFormerRegister.registry[register.MindFormerModuleType.WRAPPER]
    assert "MFTrainOneStepCell" in steps, "no MFTrainOneStepCell is registered: another version of MindFormers?"
    steps["MFTrainOneStepCell"] = single_process_step()


@cache
def stand_in() -> None:
    """Put the stand-ins in the place of the mcore generation's kernels, in this process, once."""

    def replace(module: str, name: str, value: Any) -> None:
        found = importlib.import_module(_GRAPH + module)
        assert hasattr(found, name), f"{module} has no {name}: another version of MindFormers?"
        setattr(found, name, value)

    norm = importlib.import_module(_GRAPH + "transformer.norm")
    norm.FusedNorm.__new__ = _unfused(norm.Norm.__new__)  # where MindFormers does not ask for it itself
    replace("base_models.common.embeddings.rotary_pos_embedding", "Outer", Outer)
    embedding, shared_embedding = _embeddings()
    replace("base_models.common.embeddings.language_model_embedding", "VocabParallelEmbedding", embedding)
    replace("transformer.multi_token_prediction", "MtpSharedVocabParallelEmbedding", shared_embedding)
    replace("transformer.flash_attention", "FlashAttentionScore", FlashAttentionScore)
    # The fused kernel knows half precision only, so that MindFormers rounds float32 to float16 before it.
    replace("transformer.attention", "mstype", wide_dtypes)
    replace("base_models.gpt.moe_module_specs", "FFNGroupedGEMM", _experts())
    for name, value in {"TopkExt": TopkExt, "MeanExt": MeanExt, "OneHotExt": OneHotExt}.items():
        replace("transformer.moe.router", name, value)
    for module in ("token_dispatcher", "moe_layer"):
        replace(f"transformer.moe.{module}", "get_rank", lambda *_, **__: 0)
