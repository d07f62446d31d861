"""The pynative generation: a YAML of its own, with declared types, and other rules for what fits together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mindport.config.mindformers.findings import ERROR, NOTE
from mindport.config.mindformers.judge import Findings, listed
from mindport.config.mindformers.known import in_span, table, versions_in
from mindport.config.mindformers.value_rules import numbers
from mindport.config.mindformers.yaml_case import YamlCase
from mindport.errors import brief
from mindport.i18n import tr
from mindport.schema.parallel_plan import divisors, next_multiple

SINCE = "1.9"


def version(case: YamlCase) -> Findings:
    if not case.since(SINCE):
        yield case.find(
            "generation",
            ERROR,
            "",
            tr("MindFormers {version} has no pynative models.", version=case.version.name),
            tr("they came with {version}", version=SINCE),
        )


def keys(case: YamlCase) -> Findings:
    """Every key is declared, with its type, but for those of open sections."""
    if case.since(SINCE):
        yield from _section(case, "", case.values)


def _section(case: YamlCase, path: str, content: Mapping[Any, Any]) -> Findings:
    declared: dict[str, dict[str, str]] = table("pynative")["keys"]
    span = table("pynative")["open"].get(path)
    is_open = span is not None and in_span(case.version, span)
    for key, value in content.items():
        way = f"{path}.{key}" if path else str(key)
        kinds = declared.get(way, {})
        kind = next((kind for span, kind in kinds.items() if in_span(case.version, span)), None)
        if kind is None:
            if not is_open or not path:
                yield case.find(
                    "unknown-key" if not kinds else "key-of-another-version",
                    NOTE if is_open else ERROR,
                    way,
                    tr("MindFormers {version} has no setting {key}.", version=case.version.name, key=brief(way)),
                    tr("it has no effect") if is_open else tr("MindFormers stops at a key it does not know here"),
                    f"MindFormers {versions_in(next(iter(kinds)))}" if kinds else "",
                )
        elif kind == "section":
            if isinstance(value, Mapping):
                yield from _section(case, way, value)
            elif value is not None:
                yield case.find(
                    "section-shape",
                    ERROR,
                    way,
                    tr("{key} is not {kind}.", key=way, kind=tr("a mapping")),
                    tr("its keys are read by name"),
                )
        elif not _is(value, kind):
            yield case.find(
                "wrong-type",
                ERROR,
                way,
                tr("{key} = {value} is no {kind}.", key=way, value=brief(value), kind=kind),
                tr("MindFormers checks the type"),
            )


_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (float, int),
    "bool": (bool,),
    "list": (list,),
    "tuple": (list,),
    "dict": (dict,),
}


def _is(value: Any, kind: str) -> bool:
    """Whether a value is of a declared type: names, `Optional[...]`, `Union[...]` and `List[...]` of these."""
    if kind.startswith("Optional["):
        return value is None or _is(value, kind[9:-1])
    if kind.startswith("Union["):
        return any(_is(value, part) for part in _parts(kind[6:-1]))
    if kind.startswith("List["):
        return isinstance(value, list) and all(_is(item, kind[5:-1]) for item in value)
    allowed = _TYPES.get(kind, (object,))
    return isinstance(value, allowed) and (kind == "bool" or not isinstance(value, bool))


def _parts(text: str) -> list[str]:
    """The parts of a union: cut at commas outside brackets."""
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            parts.append(text[start:place].strip())
            start = place + 1
    return [*parts, text[start:].strip()]


def _size(case: YamlCase, key: str, default: int | None = 1) -> Any:
    value = case.at(key)
    return value if type(value) is int else default


def layout(case: YamlCase) -> Findings:
    """Degrees of parallelism: `data_parallel_shard` -1 takes what the others leave."""
    if not case.since("2.0"):
        return
    tp, cp, pp, ep = (
        _size(case, f"parallelism.{name}_parallel") for name in ("tensor", "context", "pipeline", "expert")
    )
    shard, devices = _size(case, "parallelism.data_parallel_shard", -1), case.devices
    others = tp * cp * pp
    if min(tp, cp, pp, ep) < 1:
        return
    if devices is not None and (devices % others or (shard > 0 and devices % (shard * others))):
        yield case.find(
            "devices",
            ERROR,
            "parallelism",
            tr(
                "tensor * context * pipeline parallelism = {product} does not divide {devices} devices.",
                product=others * max(shard, 1),
                devices=devices,
            ),
            tr("data parallelism gets a whole number of devices"),
            tr("one that divides {devices}: {numbers}", devices=devices, numbers=listed(divisors(devices))),
        )
        return
    if shard < 1 and devices is not None:
        shard = devices // others
    if shard >= 1 and (shard * cp * tp) % ep:
        yield case.find(
            "ep-ranks",
            ERROR,
            "parallelism.expert_parallel",
            tr(
                "expert_parallel = {ep} does not divide {product} = {ranks}.",
                ep=ep,
                product="data_parallel_shard * context_parallel * tensor_parallel",
                ranks=shard * cp * tp,
            ),
            tr("experts are spread over these devices"),
            f"expert_parallel: {listed(divisors(shard * cp * tp))}",
        )
    dense = _size(case, "parallelism.dense_fsdp_shard_size", None)
    if dense is not None and shard >= 1 and (dense < 1 or (shard * cp) % dense):
        yield case.find(
            "dense-shard",
            ERROR,
            "parallelism.dense_fsdp_shard_size",
            tr(
                "dense_fsdp_shard_size {size} does not divide data_parallel_shard * context_parallel = {ranks}.",
                size=dense,
                ranks=shard * cp,
            ),
            tr("dense weights are spread over groups of that many"),
            tr(
                "one that divides {devices}: {numbers}",
                devices=shard * cp,
                numbers=listed(divisors(shard * cp)),
            ),
        )


def context_parallel(case: YamlCase) -> Findings:
    if not case.since("2.0"):
        return
    cp, length = _size(case, "parallelism.context_parallel"), _size(case, "model.seq_length", None)
    if cp <= 1:
        return
    if length is not None and length % cp:
        yield case.find(
            "cp-seq",
            ERROR,
            "model.seq_length",
            tr("seq_length {length} is not a multiple of context_parallel = {cp}.", length=length, cp=cp),
            tr("the sequence is cut into equal parts"),
            f"seq_length: {next_multiple(length, cp)}",
        )
    degree = _size(case, "parallelism.ulysses_degree_in_cp", None)
    method = case.at("parallelism.context_parallel_method")
    if method == "hybrid" and degree is not None and not (1 < degree < cp and cp % degree == 0):
        yield case.find(
            "ulysses-degree",
            ERROR,
            "parallelism.ulysses_degree_in_cp",
            tr("ulysses_degree_in_cp {degree} does not divide context_parallel = {cp}.", degree=degree, cp=cp),
            tr("the devices are a grid of the two ways"),
            f"ulysses_degree_in_cp: {listed(divisors(cp)[1:-1])}",
        )
    if case.at("parallelism.context_parallel_mask_type") not in (None, "causal"):
        yield case.find(
            "cp-mask",
            ERROR,
            "parallelism.context_parallel_mask_type",
            tr("context_parallel_mask_type is not causal."),
            tr("no other mask can be split yet"),
            "causal",
        )


def sequence(case: YamlCase) -> Findings:
    if _size(case, "parallelism.tensor_parallel") > 1 and case.at("parallelism.sequence_parallel") is False:
        yield case.find(
            "tp-without-sp",
            ERROR,
            "parallelism.sequence_parallel",
            tr("tensor_parallel = {tp} without sequence_parallel.", tp=case.at("parallelism.tensor_parallel")),
            tr("pynative models have tensor parallelism only together with it"),
            "sequence_parallel: True",
        )


def recomputation(case: YamlCase) -> Findings:
    mode = case.at("recompute.mode")
    needed = {"full": "full_recompute_layer", "select": "select_module"}
    if case.since("2.0") and isinstance(mode, str) and mode in needed and not case.at(f"recompute.{needed[mode]}"):
        yield case.find(
            "recompute-form",
            ERROR,
            f"recompute.{needed[mode]}",
            tr("recompute.mode {mode} without {key}.", mode=mode, key=needed[mode]),
            tr("it says which layers are computed again"),
        )
    if case.at("swap.enable") is True and _size(case, "parallelism.pipeline_parallel") > 1:
        yield case.find(
            "swap-pipeline",
            ERROR,
            "swap.enable",
            tr("swap with a pipeline."),
            tr("pynative models have one or the other"),
            "swap.enable: False",
        )


PYNATIVE_RULES = (version, keys, numbers, layout, context_parallel, sequence, recomputation)
