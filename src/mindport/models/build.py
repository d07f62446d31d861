"""`TransformerConfig` -> a network ready to load weights into."""

from __future__ import annotations

import mindspore as ms

from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.models.initialise import initialise as fill
from mindport.models.transformer import Transformer
from mindport.models.words import check_words
from mindport.schema import TransformerConfig
from mindport.targets.native import computed_parameters

_DTYPE_FIELDS = (
    "params_dtype",
    "compute_dtype",
    "layernorm_compute_dtype",
    "softmax_compute_dtype",
    "rotary_dtype",
)


def build_model(
    config: TransformerConfig, *, initialise: bool = True, seed: int = 0, keep_hidden_states: bool = False
) -> Transformer:
    """The native model of a configuration, not in training mode.

    Args:
        initialise: draw initial values. False leaves matrices and biases 0 and norm weights 1: where weights
            are loaded anyway, drawing a hundred million normals would be wasted seconds.
        seed: of the initial values.
        keep_hidden_states: also return the state after every block.

    Raises:
        MindportError: the configuration says something that the native model cannot express or the CPU cannot
            compute.
    """
    check_words(config)
    _check_layers(config)
    _check_dropout(config)
    _check_device(config)
    network = Transformer(config, keep_hidden_states=keep_hidden_states)
    for slot, parameter in network.parameters_and_names():
        parameter.name = slot
    shapes = {name: tuple(parameter.shape) for name, parameter in network.parameters_and_names()}
    assert shapes == computed_parameters(config), "the model's parameters are not those of the native target"
    if initialise:
        fill(network, config, seed)
    network.set_train(False)
    return network


_LAYER_FIELDS = ("layer_types", "layer_weights", "moe_layer_freq")


def _check_layers(config: TransformerConfig) -> None:
    for field in _LAYER_FIELDS:
        entries = getattr(config, field)
        if entries is not None and len(entries) != config.num_layers:
            raise MindportError(
                tr("{field} has {count} entries.", field=field, count=len(entries)),
                tr("It needs one for each of the {count} layers.", count=config.num_layers),
            )
    differ = config.layer_types or config.moe_layer_freq or config.scale_attention_by_inverse_layer_idx
    if config.layer_weights is not None and (differ or not config.first_attention_layernorm):
        raise MindportError(
            tr("Layers that share weights cannot differ in what they compute."),
            tr("Set layer_weights to null, or what sets the layers apart."),
        )


def _check_dropout(config: TransformerConfig) -> None:
    for field in TransformerConfig.describe():
        if field.endswith("dropout") and (getattr(config, field) or 0) >= 1:
            raise MindportError(
                tr("MindSpore has no dropout that leaves nothing: {field} = {value}.", field=field, value=1.0),
                tr("Set {field} to less than 1.", field=field),
            )


def _check_device(config: TransformerConfig) -> None:
    # MindSpore has no bfloat16 product, gather or softmax on a CPU; its own error comes late and is obscure.
    fields = [field for field in _DTYPE_FIELDS if getattr(config, field) == "bfloat16"]
    if fields and ms.get_context("device_target") == "CPU":
        raise MindportError(
            tr("MindSpore cannot compute in bfloat16 on a CPU ({fields})", fields=", ".join(fields)),
            tr("Set these fields to float32; bfloat16 weights widen to float32 without loss."),
        )
