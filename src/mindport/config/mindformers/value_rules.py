"""What MindFormers asks of single values: numbers, dtypes, dropout, experts, positions, learning rates, checkpoints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from mindport.config.mindformers.findings import ERROR, NOTE, WARNING
from mindport.config.mindformers.judge import Findings
from mindport.config.mindformers.yaml_case import YamlCase, dotted
from mindport.config.yaml_file import KeyPath, Node, resolved
from mindport.errors import brief
from mindport.i18n import tr

MODEL = "model.model_config"

DTYPES = ("float32", "fp32", "float16", "fp16", "bfloat16", "bf16")

_DTYPE_KEYS = re.compile(
    r"(compute_dtype|param_init_type|params_dtype|(layernorm|softmax)_compute_(d?type)|rotary_dtype|router_dense_type"
    r"|moe_router_dtype|residual_dtype|res_dtype)"
)

_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+")
"""A number to everybody but a reader of YAML 1.1, which wants both a point and a sign: 1.0e-3."""

POSITIONS = ("rope", "yarn", "none", "relative", "learned_absolute", "partial_rope")


def numbers(case: YamlCase) -> Findings:
    """`1e-3` is a string to PyYAML."""
    for way, node in _scalars(case.file.root, ()):
        word = node.value
        if node.plain and _NUMBER.fullmatch(word) and isinstance(resolved(word), str):
            # Some layers turn a text into a number; learning rates and optimizers check the type.
            yield case.find(
                "number-is-text",
                ERROR if way[0] in ("lr_schedule", "grouped_lr_schedule", "optimizer") else WARNING,
                dotted(way),
                tr("{key} = {value} is a text to MindFormers, not a number.", key=dotted(way), value=word),
                tr("its YAML reader knows a number by a point and a signed exponent"),
                _spelled(word),
            )


def _spelled(word: str) -> str:
    mantissa, exponent = re.split("[eE]", word)
    point = "" if "." in mantissa else "."
    sign = "" if exponent[0] in "+-" else "+"
    return f"{mantissa}{point}e{sign}{exponent}"


def _scalars(node: Node, way: KeyPath) -> Iterator[tuple[KeyPath, Node]]:
    if node.kind == "scalar":
        yield way, node
    elif node.kind == "list":
        for number, item in enumerate(node.value):
            yield from _scalars(item, (*way, number))
    elif node.kind == "map":
        for key, value in node.value:
            yield from _scalars(value, (*way, key.value))


def dtypes(case: YamlCase) -> Findings:
    model = case.at(MODEL)
    if not isinstance(model, Mapping):
        return
    for key, value in model.items():
        if isinstance(key, str) and _DTYPE_KEYS.fullmatch(key) and value is not None and value not in DTYPES:
            yield case.find(
                "dtype",
                ERROR,
                f"{MODEL}.{key}",
                tr("{key} = {value} is no dtype of MindFormers.", key=key, value=brief(value)),
                tr("it takes a few names only"),
                ", ".join(DTYPES[::2]),
            )
    if case.mcore and model.get("rotary_dtype") in ("float16", "fp16"):
        yield case.find(
            "rotary-float16",
            ERROR,
            f"{MODEL}.rotary_dtype",
            tr("rotary_dtype is float16."),
            tr("the training graph refuses it"),
            "float32",
        )
    yield from _scaling(case, model)


def _scaling(case: YamlCase, model: Mapping[str, Any]) -> Findings:
    """Gradients in float16 need a scale; in the other dtypes it is of no use."""
    if not case.trains:
        return
    scale = case.at("runner_wrapper.scale_sense")
    compute = model.get("compute_dtype")
    fixed = isinstance(scale, int | float) and not isinstance(scale, bool)
    if compute in ("float16", "fp16") and fixed and scale <= 1:
        yield case.find(
            "scale-float16",
            WARNING,
            "runner_wrapper.scale_sense",
            tr("compute_dtype float16 with a fixed loss scale of {scale}.", scale=scale),
            tr("small gradients become zero in float16"),
            "DynamicLossScaleUpdateCell",
        )
    if (
        compute in ("bfloat16", "bf16")
        and isinstance(scale, Mapping)
        and scale.get("type") == "DynamicLossScaleUpdateCell"
    ):
        yield case.find(
            "scale-bfloat16",
            NOTE,
            "runner_wrapper.scale_sense",
            tr("compute_dtype bfloat16 with a dynamic loss scale."),
            tr("bfloat16 has the range of float32 and needs none; steps are skipped while the scale is found"),
            "1.0",
        )


def dropouts(case: YamlCase) -> Findings:
    if not case.mcore:
        return
    for key in ("hidden_dropout", "attention_dropout"):
        value = case.at(f"{MODEL}.{key}")
        if value is not None and not (isinstance(value, float) and 0 <= value < 1):
            yield case.find(
                "dropout",
                ERROR,
                f"{MODEL}.{key}",
                tr("{key} = {value} is no number with a point from 0.0 and below 1.0.", key=key, value=brief(value)),
                tr("mcore refuses it, be it the whole number 0"),
                "0.0",
            )


def structure(case: YamlCase) -> Findings:
    """Fields of `TransformerConfig` that its own check refuses."""
    model = case.at(MODEL)
    if not case.mcore or not isinstance(model, Mapping):
        return
    plan = case.plan_case.plan
    flash = model.get("use_flash_attention", True)
    compressed = [key for key in ("use_attn_mask_compression", "use_eod_attn_mask_compression") if model.get(key)]
    for key in compressed:
        if flash is False:
            yield _refused(case, key, tr("{key} without flash attention.", key=key), "use_flash_attention: True")
        elif plan.seq_length is not None and plan.seq_length < 2048:
            yield _refused(
                case,
                key,
                tr("{key} with seq_length {length}.", key=key, length=plan.seq_length),
                tr("seq_length from 2048"),
            )
    if (plan.mtp_num_layers or 0) > 1:
        yield _refused(
            case,
            "num_nextn_predict_layers",
            tr("{count} layers for multi-token prediction.", count=plan.mtp_num_layers),
            "0, 1",
        )
    positions = model.get("position_embedding_type")
    if positions is not None and positions not in POSITIONS:
        yield _refused(
            case,
            "position_embedding_type",
            tr("There is no position_embedding_type {name}.", name=brief(positions)),
            ", ".join(POSITIONS),
        )
    if model.get("bias_swiglu_fusion") and model.get("hidden_act") != "swiglu":
        yield _refused(
            case, "bias_swiglu_fusion", tr("bias_swiglu_fusion without hidden_act swiglu."), "hidden_act: swiglu"
        )
    if plan.multi_latent_attention and not case.since("2.1") and model.get("apply_rope_fusion"):
        yield _refused(case, "apply_rope_fusion", tr("apply_rope_fusion with latent attention."), "False")
    if plan.multi_latent_attention and model.get("rotary_interleaved"):
        yield _refused(case, "rotary_interleaved", tr("rotary_interleaved with latent attention."), "False")
    yield from _experts(case, model)


def _experts(case: YamlCase, model: Mapping[str, Any]) -> Findings:
    experts = case.plan_case.plan.num_moe_experts
    if experts is None:
        return
    if case.trains and model.get("moe_grouped_gemm") is False:
        yield _refused(case, "moe_grouped_gemm", tr("moe_grouped_gemm is off."), "True")
    if model.get("add_bias_linear"):
        yield _refused(case, "add_bias_linear", tr("add_bias_linear in a model of experts."), "False")
    kinds = (
        ("aux_loss", "seq_aux_loss", "none")
        if not case.since("1.7")
        else ("sub_seq_aux_loss", "seq_aux_loss", "gbs_aux_loss")
    )
    kind = model.get("moe_router_load_balancing_type")
    if kind is not None and kind not in kinds:
        yield _refused(
            case,
            "moe_router_load_balancing_type",
            tr("There is no moe_router_load_balancing_type {name} in this version.", name=brief(kind)),
            ", ".join(kinds),
        )
    groups, chosen = (
        _number(model, "n_group", "moe_router_num_groups"),
        _number(model, "topk_group", "moe_router_group_topk"),
    )
    topk = _number(model, "num_experts_per_tok", "moe_router_topk", "num_experts_chosen")
    if groups and experts % groups:
        yield _refused(case, "n_group", tr("{experts} experts in {groups} groups.", experts=experts, groups=groups), "")
    if groups and chosen and chosen > groups:
        yield _refused(
            case, "topk_group", tr("topk_group {chosen} of {groups} groups.", chosen=chosen, groups=groups), ""
        )
    if topk and chosen and topk % chosen:
        yield _refused(
            case, "topk_group", tr("{topk} experts for a token from {chosen} groups.", topk=topk, chosen=chosen), ""
        )
    dense, every = _number(model, "first_k_dense_replace"), _number(model, "moe_layer_freq")
    if dense and every and every > 1:
        yield _refused(
            case, "moe_layer_freq", tr("first_k_dense_replace together with moe_layer_freq {every}.", every=every), "1"
        )


def _number(model: Mapping[str, Any], *keys: str) -> int | None:
    found = next((model[key] for key in keys if model.get(key) is not None), None)
    return found if type(found) is int else None


def _refused(case: YamlCase, key: str, message: str, fix: str) -> Any:
    return case.find("mcore-refuses", ERROR, f"{MODEL}.{key}", message, tr("mcore refuses it"), fix)


def learning_rates(case: YamlCase) -> Findings:
    schedule = case.at("lr_schedule")
    if not isinstance(schedule, Mapping):
        return
    for key in ("warmup_ratio", "decay_ratio"):
        value = schedule.get(key)
        if isinstance(value, int | float) and not 0 <= value <= 1:
            yield case.find(
                "lr-ratio",
                ERROR,
                f"lr_schedule.{key}",
                tr("{key} = {value} is no part of the steps.", key=key, value=value),
                tr("it goes from 0 to 1"),
            )
    for key in ("warmup_steps", "decay_steps", "total_steps"):
        value = schedule.get(key)
        if value is not None and (type(value) is not int or value < (-1 if key == "total_steps" else 0)):
            yield case.find(
                "lr-steps",
                ERROR,
                f"lr_schedule.{key}",
                tr("{key} = {value} is no number of steps.", key=key, value=brief(value)),
                tr("it is a whole number from 0; total_steps may be -1, for all of the data"),
            )
    peak, end = schedule.get("learning_rate"), schedule.get("lr_end")
    falling = schedule.get("type") in ("PolynomialWithWarmUpLR", "polynomial", "LinearWithWarmUpLR", "linear")
    if falling and isinstance(peak, float) and isinstance(end, int | float) and end >= peak:
        yield case.find(
            "lr-end",
            ERROR,
            "lr_schedule.lr_end",
            tr("lr_end = {end} is not below learning_rate = {peak}.", end=end, peak=peak),
            tr("this schedule falls from one to the other"),
        )


def checkpoints(case: YamlCase) -> Findings:
    loads = bool(case.at("load_checkpoint"))
    section = case.at("checkpoint.load_path")
    for key in ("auto_trans_ckpt", "resume_training"):
        if case.at(key) is True and not loads and not section:
            yield case.find(
                "load-nothing",
                WARNING,
                key,
                tr("{key} is on, and load_checkpoint is empty.", key=key),
                tr("MindFormers stops, unless the command line gives a checkpoint"),
                tr("{key}: False, or a checkpoint", key=key),
            )
    if loads and case.version.loads_safetensors:
        yield from _loading(case)
    if case.at("use_legacy_format") is False and case.since("1.8"):
        resume = case.at("resume_training")
        if resume is not None and not isinstance(resume, bool):
            yield case.find(
                "resume-form",
                ERROR,
                "resume_training",
                tr("resume_training = {value} is no switch.", value=brief(resume)),
                tr("the new format of checkpoints finds the newest by itself"),
                "True, False",
            )
        if case.at("only_save_strategy") is True:
            yield case.find(
                "only-strategy",
                ERROR,
                "only_save_strategy",
                tr("only_save_strategy is on."),
                tr("the new format of checkpoints has no strategy files"),
                "False",
            )
    callbacks = case.at("callbacks")
    for number, callback in enumerate(callbacks if isinstance(callbacks, list) else []):
        if isinstance(callback, Mapping) and callback.get("type") == "CheckpointMonitor":
            yield from _saving(case, f"callbacks[{number}]", callback)


def _loading(case: YamlCase) -> Findings:
    """Weights under `load_checkpoint`, which MindFormers 1.9 refuses so, and 1.6 to 1.8 by their code."""
    path, ckpt = str(case.at("load_checkpoint")), case.at("load_ckpt_format") in (None, "ckpt")
    if ckpt and ((case.mcore and case.mode == "predict") or path.endswith(".safetensors")):
        yield case.find(
            "ckpt-format",
            ERROR,
            "load_ckpt_format",
            tr("load_ckpt_format is ckpt, by default if not said."),
            tr("MindFormers would not read these weights as such"),
            "safetensors",
        )
    if case.at("use_parallel") is not True or case.at("use_legacy_format") is False or not case.trains:
        return
    if path.endswith(".safetensors"):
        yield case.find(
            "load-file",
            ERROR,
            "load_checkpoint",
            tr("load_checkpoint is a single file, for several devices."),
            tr("each reads its share of a folder"),
            tr("the folder, and auto_trans_ckpt: True"),
        )
    if case.at("runner_config.sink_mode") is False and case.since("1.6"):
        yield case.find(
            "load-sink",
            ERROR,
            "runner_config.sink_mode",
            tr("sink_mode is off while several devices load weights."),
            tr("the graph is compiled before it is given its weights, which needs it"),
            "True",
        )


def _saving(case: YamlCase, path: str, callback: Mapping[str, Any]) -> Findings:
    if "rank" in str(callback.get("prefix", "")) and case.since("1.6"):
        yield case.find(
            "prefix-rank",
            ERROR,
            f"{path}.prefix",
            tr("The prefix {name} holds the word rank.", name=brief(callback["prefix"])),
            tr("MindFormers tells the files of ranks by it"),
        )
    if (
        callback.get("remove_redundancy") is True
        and callback.get("checkpoint_format", "ckpt") == "ckpt"
        and case.since("1.6")
    ):
        yield case.find(
            "redundancy-ckpt",
            ERROR,
            f"{path}.remove_redundancy",
            tr("remove_redundancy with the format ckpt."),
            tr("only safetensors can be saved without repetitions"),
            "checkpoint_format: safetensors",
        )


def data(case: YamlCase) -> Findings:
    """The data's sequences and the model's."""
    loader = case.at("train_dataset.data_loader")
    if not isinstance(loader, Mapping) or not case.trains:
        return
    given, length = loader.get("config"), case.plan_case.plan.seq_length
    of_data = given.get("seq_length") if isinstance(given, Mapping) else None
    if type(of_data) is int and length is not None and of_data != length:
        yield case.find(
            "data-seq",
            ERROR,
            "train_dataset.data_loader.config.seq_length",
            tr("The data has sequences of {data} tokens, the model of {model}.", data=of_data, model=length),
            tr("the graph is compiled for one length"),
            f"seq_length: {length}",
        )
    shifted = loader.get("type") == "BlendedMegatronDatasetDataLoader"
    if case.legacy and shifted and case.since("1.6") and case.at(f"{MODEL}.input_sliced_sig") is not True:
        yield case.find(
            "sliced-inputs",
            ERROR,
            f"{MODEL}.input_sliced_sig",
            tr("The loader {name} without input_sliced_sig.", name=loader["type"]),
            tr("its labels are already shifted"),
            "input_sliced_sig: True",
        )


VALUE_RULES = (numbers, dtypes, dropouts, structure, learning_rates, checkpoints, data)
