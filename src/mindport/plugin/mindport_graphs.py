"""Training graphs for the mcore generation of MindFormers 1.9 that it does not have itself, for the families of
`families.py`.

They are put together from MindFormers' own modules, by its specs, and stand in its registry; in use are its embedding,
its layers, its attention with grouped queries, its MLP and experts, its loss. What is added: a RoPE scaling, and a bias
of the output projection of attention. They train alone: where MindFormers is to infer (`RUN_MODE=predict`), its own
classes stay in charge.

MindFormers finds a model in here by `auto_register: mindport_graphs.LlamaConfig` in its `model_config`, and this folder
by `run_mindformer.py --register_path FOLDER` or the variable REGISTER_PATH. Where a program imports this module itself,
a YAML without `auto_register` will do. The folder needs nothing but MindFormers, and may be copied.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mindformers
import numpy as np
from mindformers.models.configuration_utils import PretrainedConfig
from mindformers.models.modeling_utils import PreTrainedModel
from mindformers.models.qwen3_moe.config_converter_qwen3_moe import Qwen3MoeConfigConverter
from mindformers.parallel_core.training_graph.base_models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from mindformers.parallel_core.training_graph.base_models.gpt.gpt_model import GPTModel
from mindformers.parallel_core.training_graph.tensor_parallel.layers import RowParallelLinear
from mindformers.parallel_core.transformer_config import TransformerConfig
from mindformers.parallel_core.utils.model_mixin import TrainModelMixin
from mindformers.parallel_core.utils.spec_utils import ModuleSpec
from mindformers.tools.register import MindFormerModuleType, MindFormerRegister
from mindspore import Tensor

from .families import FAMILIES, VERSION, PluginFamily, settings
from .rope import steady

if not mindformers.__version__.startswith(f"{VERSION}."):
    raise ImportError(f"Mindport's plug-in is made for MindFormers {VERSION}, not {mindformers.__version__}.")

_OWN = ("rope_scaling", "add_attention_output_bias")
"""Keys that MindFormers' configuration has another use for, or none."""


class DecoderConfig(PretrainedConfig):
    """A model config of one of the families.

    Args:
        given: see `families.settings`, also for what is refused.
    """

    family: PluginFamily

    def __init__(self, **given: Any) -> None:
        super().__init__(**settings(self.family, given))

    def convert_to_transformer_config(self, is_mla_model: bool = False) -> TransformerConfig:
        """What MindFormers' modules are built from; its own rules know all the keys that are left."""
        keys = {key: value for key, value in self.to_dict().items() if key not in _OWN}
        return Qwen3MoeConfigConverter.convert(keys, is_mla_model)


class BiasedRowParallelLinear(RowParallelLinear):
    """With a bias, whatever the switch for all linear layers says."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "bias": True})


def layer_spec(config: TransformerConfig, scores: float, output_bias: bool) -> ModuleSpec:
    """A layer of Llama's kind.

    Args:
        scores: factor on the scores of attention, besides the usual one.
        output_bias: of the output projection of attention.
    """
    spec = get_gpt_layer_local_spec(
        num_experts=config.num_moe_experts,
        moe_grouped_gemm=config.moe_grouped_gemm,
        qk_layernorm=False,
        use_contiguous_weight_layout_attention=config.use_contiguous_weight_layout_attention,
        use_interleaved_weight_layout_mlp=config.use_interleaved_weight_layout_mlp,
    )
    attention = spec.submodules.self_attention
    parts = attention.submodules
    scaled = ModuleSpec(module=parts.core_attention, params={"softmax_scale": scores * config.kv_channels**-0.5})
    attention.submodules = replace(
        parts,
        core_attention=scaled,
        linear_proj=BiasedRowParallelLinear if output_bias else parts.linear_proj,
    )
    return spec


class Decoder(TrainModelMixin, PreTrainedModel):
    """A model of one of the families, for training."""

    config_class = DecoderConfig
    base_model_prefix = "decoder"

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__(config, auto_prefix=False)
        self.template = None  # by which `checkpoint.load_path` would convert Hugging Face's weights
        converted = self.convert_to_transformer_config(config)
        # MindFormers multiplies angles, not cos and sin, by YaRN's factor. As all of a head is turned, both queries and
        # keys have it as a whole, and so may the scores, twice.
        frequencies, factor = None, 1.0
        if config.rope_scaling:
            frequencies, factor = steady(config.rope_theta, converted.kv_channels, config.rope_scaling)
        self.model = GPTModel(
            config=converted,
            transformer_layer_spec=layer_spec(converted, factor**2, config.add_attention_output_bias),
            vocab_size=converted.vocab_size,
            max_sequence_length=converted.max_position_embeddings,
            position_embedding_type="rope",
            rotary_base=converted.rotary_base,
            share_embeddings_and_output_weights=config.tie_word_embeddings,
            post_process=converted.post_process,
        )
        if frequencies is not None:
            self.model.rotary_pos_emb.inv_freq = Tensor(frequencies.astype(np.float32))

    def construct(
        self,
        input_ids: Tensor,
        position_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input: Tensor | None = None,
        labels: Tensor | None = None,
        extra_block_kwargs: Any = None,
        prefix_keys_values: Any = None,
        loss_mask: Tensor | None = None,
        actual_seq_len: Tensor | None = None,
    ) -> Any:
        """In training the loss and its parts, else the logits (batch * sequence, vocabulary)."""
        return self.model(
            input_ids=input_ids,
            position_ids=position_ids,
            attention_mask=attention_mask,
            decoder_input=decoder_input,
            labels=labels,
            extra_block_kwargs=extra_block_kwargs,
            prefix_keys_values=prefix_keys_values,
            loss_mask=loss_mask,
            actual_seq_len=actual_seq_len,
        )

    def convert_name(self, weight_name: str) -> str:
        """The name of a weight of a file in here. MindFormers finds out by it whether a file is as Hugging Face has it.

        Raises:
            ValueError: it is.
        """
        if weight_name.startswith(("model.", "lm_head.")):
            raise ValueError(f"{weight_name} is a weight as Hugging Face has it: convert the weights with Mindport.")
        return weight_name

    @classmethod
    def can_generate(cls) -> bool:
        """MindFormers asks this before it looks for settings of text generation."""
        return False


def _registered(kind: str, name: str, training: Callable[..., Any], search_names: str | None = None) -> None:
    """Put a class into MindFormers' registry and this module, in front of the one that had the name.

    Args:
        kind: of `MindFormerModuleType`.
        search_names: a further name it is found by.
    """
    former = MindFormerRegister.registry.get(kind, {}).get(f"mcore_{name}")

    def made(cls: type, *args: Any, **kwargs: Any) -> Any:
        if os.environ.get("RUN_MODE") != "predict":
            return training(*args, **kwargs)
        if former is None:
            raise NotImplementedError(f"MindFormers has no inference graph for {name} in its mcore generation.")
        return former(*args, **kwargs)

    entry = type(name, (), {"__new__": made, "__doc__": training.__doc__})  # the registry gives out classes alone
    globals()[name] = MindFormerRegister.register_cls(entry, kind, legacy=False, search_names=search_names)


for _family in FAMILIES:
    _config = type(_family.config_class, (DecoderConfig,), {"family": _family, "model_type": _family.model_type})
    _registered(MindFormerModuleType.CONFIG, _family.config_class, _config, _family.model_type)
    _registered(MindFormerModuleType.MODELS, _family.model_class, Decoder)
