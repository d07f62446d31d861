"""A MindFormers YAML back to a `TransformerConfig` and a Hugging Face config.json."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

from mindport.architectures import Architecture, architecture, class_defaults, model_types
from mindport.architectures.vocabulary import Only
from mindport.config.hf import ModelConfig, from_hf
from mindport.config.json_file import read_json_object
from mindport.config.mindformers.misplaced import model_strays
from mindport.config.mindformers.plan import generation_of, value_at
from mindport.config.mindformers.settings import is_a
from mindport.config.sanity import MOST_LAYERS
from mindport.config.yaml_file import YamlFile, parse_yaml
from mindport.config.yaml_file import read_yaml as parse_file
from mindport.errors import MindportError, brief
from mindport.i18n import tr
from mindport.plugin.families import family_of, respelled
from mindport.schema import TransformerConfig
from mindport.schema.transformer_config import TRAINING
from mindport.targets.mindformers import Destination, layout_of
from mindport.targets.mindformers.graphs import FREE, GRAPHS, REQUIRED, Graph
from mindport.targets.mindformers.limits import BEYOND, within
from mindport.targets.mindformers.versions import (
    FAMILIES,
    LATEST_EXECUTED,
    LEGACY,
    MCORE,
    PYNATIVE,
    Version,
    family_named,
    version_named,
)

SOURCE = "mindport-source:"
"""Start of the comment in which an emitted YAML keeps what no key can hold."""


@dataclass(frozen=True)
class Reading:
    """What a YAML says of a model.

    Args:
        generation: LEGACY, MCORE or PYNATIVE.
        graph: MindFormers' name of the graph.
        transformer: the model in canonical terms.
        model: the nearest that a Hugging Face config can say: it differs in `unsaid`, and in nothing else.
        unsaid: canonical fields, all about training alone, that the architecture's config has no key for.
        unknown: keys of the model's section that say nothing that is known here.
        destination: the graph, with the layout that the section asks for.
    """

    generation: str
    graph: str
    transformer: TransformerConfig
    model: ModelConfig
    unsaid: list[str]
    unknown: list[str]
    destination: Destination


_RUN_WORDS = """
    batch_size seq_length compute_dtype param_init_type params_dtype layernorm_compute_type layernorm_compute_dtype
    softmax_compute_type softmax_compute_dtype rotary_dtype router_dense_type moe_router_dtype embedding_init_type
    residual_dtype fp32_residual_connection use_past is_dynamic use_flash_attention use_ring_attention
    use_rope_slice use_attn_mask_compression use_eod_attn_mask_compression use_eod_reset input_sliced_sig
    fine_grain_interleave pp_interleave_num offset qkv_concat fused_rms_norm parallel_optimizer ignore_token_id
    checkpoint_name_or_path repetition_penalty max_decode_length max_length block_size num_blocks top_k top_p
    do_sample temperature use_contiguous_weight_layout_attention use_interleaved_weight_layout_mlp mla_qkv_concat
    moe_grouped_gemm moe_token_drop_policy moe_router_load_balancing_type moe_router_bias_update_rate
    moe_token_dispatcher_type moe_permute_fusion moe_router_fusion use_fused_ops_topkrouter use_pad_tokens
    print_separate_loss mtp_loss_factor mtp_loss_scaling_factor calculate_per_token_loss bias_swiglu_fusion
    apply_rope_fusion use_cache torch_dtype transformers_version auto_map model_type architectures type
    auto_register multiple_of ffn_dim_multiplier untie_embeddings_and_output_weights scoring_func ep_size
    select_recompute parallel_optimizer_comm_recompute mp_comm_recompute
"""
RUN_KEYS = frozenset(_RUN_WORDS.split())
"""Keys of a model's section that are about the run, or only repeat what others say."""

_ALIKE = {"hidden_act": ("silu", "swiglu", "fusedswiglu"), "topk_method": ("noaux_tc",)}
"""Values that MindFormers treats as it does the one this package writes."""
_NOT_READ = ("qk_layernorm", "moe_router_pre_softmax")
"""Keys that a graph does not read; where the class decides."""


def read_yaml(path: Path, pretrained: Path | None = None, version: str | None = None) -> Reading:
    """`read` of a file.

    Args:
        pretrained: folder, or config.json, of the YAML's `pretrained_model_dir`; None = the one it names, if it exists.

    Raises:
        MindportError: as `read`, or a file that cannot be read.
    """
    file = parse_file(path)
    named = pretrained or Path(str(file.values.get("pretrained_model_dir") or ""))
    folder = named if named.is_absolute() or pretrained else path.parent / named
    config = folder / "config.json" if folder.is_dir() else folder
    return _read(file, read_json_object(config) if config.is_file() else None, version)


def read(text: str, hf: Mapping[str, Any] | None = None, version: str | None = None, name: str = "YAML") -> Reading:
    """The model that a YAML describes.

    Args:
        text: the file.
        hf: config.json of its `pretrained_model_dir`; keys of the YAML overrule it, as they do in MindFormers.
        version: MindFormers version the YAML is for; None = the newest that Mindport has run.
        name: what to call the file in messages.

    Raises:
        MindportError: no YAML, no graph that is known, a key without which the model is not known, or one with a value
            that no declared architecture has.
    """
    return _read(parse_yaml(text, Path(name)), hf, version)


def _read(file: YamlFile, hf: Mapping[str, Any] | None, version: str | None) -> Reading:
    document = file.values
    generation, section = model_section(document)
    section = {**(model_strays(document) if generation != PYNATIVE else {}), **section}
    whole = {**(hf or {}), **section}
    graph = _graph(whole, generation)
    brought = family_of(graph.name) if generation == MCORE else None
    whole = respelled(brought, whole) if brought else whole
    _check_written(whole, graph)
    meant = version_named(version or LATEST_EXECUTED)
    found = fields_of(whole, graph, meant)
    source = _source(file.text)
    hints = get_type_hints(TransformerConfig)
    for field, value in source.get("fields", {}).items():
        if field not in (*graph.told, "params_dtype") or not is_a(value, hints[field]):
            continue
        # Only while the keys still say it: somebody may have changed them.
        key = graph.key_of(field)
        if key is None or key.name not in section:
            found[field] = value
            continue
        written = key.spelling.write(key.name, field, _partial(graph, {**found, field: value}))
        if all(section.get(name) == said for name, said in written.items()):
            found[field] = value
    found.update(_beyond(source.get("beyond", {}), graph, found, section.get("seq_length")))
    arch = document.get("model", {}).get("arch")
    model = _model(found, graph, source, arch if isinstance(arch, Mapping) else {})
    told = {key.name for key in graph.keys} | {name for key in graph.keys for name in key.spelling.keys}
    unknown = [key for key in section if key not in told | set(graph.written) | RUN_KEYS]
    wanted = _partial(graph, found)
    unsaid = _differing(model.transformer, wanted)
    transformer = replace(model.transformer, **{field: getattr(wanted, field) for field in unsaid})
    family = family_named(graph.name, generation)
    assert family is not None  # every graph is one's
    layout = None if generation == PYNATIVE else layout_of(generation, whole)
    return Reading(generation, graph.name, transformer, model, unsaid, unknown, Destination(meant, family, layout))


def model_section(document: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The generation of a YAML, and what it says of the model.

    Raises:
        MindportError: there is no such section.
    """
    generation = generation_of(document)
    section = value_at(document, "model" if generation == PYNATIVE else "model.model_config")
    if isinstance(section, dict):
        return generation, section
    raise MindportError(tr("The YAML has no section model.model_config."), tr("Give a training YAML of MindFormers."))


def _graph(section: Mapping[str, Any], generation: str) -> Graph:
    if generation == LEGACY:
        named = section.get("type")
        names = [family.name for family in FAMILIES if (family.generation, family.config_class) == (generation, named)]
    else:
        named = section.get("model_type")
        names = [str(named)]
    graph = GRAPHS.get((generation, names[0])) if names else None
    if named is None:
        raise _lacking("type" if generation == LEGACY else "model_type")
    if graph is None:
        raise MindportError(
            tr("The {generation} graph {name} is not one that is read here.", generation=generation, name=brief(named)),
            tr("Graphs that are: {names}.", names=", ".join(name for of, name in GRAPHS if of == generation)),
        )
    return graph


def fields_of(section: Mapping[str, Any], graph: Graph, version: Version) -> dict[str, Any]:
    """Canonical fields that a section tells a graph, by key or by default.

    Raises:
        MindportError: a size is missing, or a value is not of a kind that can be read.
    """
    found: dict[str, Any] = {}
    hints = get_type_hints(TransformerConfig)
    for key in graph.keys:
        try:
            if key.name in section:
                found.update(key.spelling.read(key.name, key.field, section, found))
            elif key.absent is REQUIRED:
                raise _lacking(key.name)
            else:
                found[key.field] = key.absent(section, found) if callable(key.absent) else key.absent
        except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError):
            raise _unreadable(key.name, section) from None
        value, wanted = found.get(key.field), hints[key.field]
        number = wanted is float and isinstance(value, int) and not isinstance(value, bool)
        too_many = key.field == "num_layers" and isinstance(value, int) and value > MOST_LAYERS
        if too_many or not (number or is_a(value, wanted)):
            raise _unreadable(key.name, section)
    return found


def _unreadable(key: str, section: Mapping[str, Any]) -> MindportError:
    return MindportError(
        tr("{key} = {value} cannot be read.", key=key, value=brief(section.get(key))), tr("Correct it in the file.")
    )


def _lacking(key: str) -> MindportError:
    return MindportError(
        tr("The model's section lacks {key}.", key=key),
        tr("Add it, or give the config.json of pretrained_model_dir."),
    )


def _check_written(section: Mapping[str, Any], graph: Graph) -> None:
    for key, constant in graph.written.items():
        wanted = constant.value
        if key in section and key not in RUN_KEYS and key not in _NOT_READ:
            alike = _ALIKE.get(key, (wanted,))
            if section[key] not in alike:
                raise MindportError(
                    tr(
                        "{key} = {value}: only {wanted} can be read of the {graph} graph.",
                        key=key,
                        value=brief(section[key]),
                        wanted=wanted,
                        graph=graph.name,
                    ),
                    tr("Correct it in the file."),
                )


def _partial(graph: Graph, found: Mapping[str, Any]) -> TransformerConfig:
    """The config that a YAML describes: what its keys say, what the graph always has, and else the defaults."""
    values: dict[str, Any] = {**graph.fixed, **found}
    heads, hidden = values["num_attention_heads"], values["hidden_size"]
    latent = values.get("qk_head_dim", 0) + values.get("qk_pos_emb_head_dim", 0)
    values.setdefault("kv_channels", latent or hidden // (heads or 1))
    values.setdefault("softmax_scale", 1.0)
    return TransformerConfig(**values)


def _beyond(kept: Mapping[str, Any], graph: Graph, found: Mapping[str, Any], seq_length: Any) -> dict[str, Any]:
    """Of fields that sequences of this length do not show, what an emitted YAML has kept of them; only while the file
    still says the same model."""
    hints = get_type_hints(TransformerConfig)
    if not kept or not isinstance(seq_length, int) or not set(kept) <= set(BEYOND):
        return {}
    if not all(is_a(value, hints[name]) for name, value in kept.items()):
        return {}
    whole = _partial(graph, {**found, **kept})
    return dict(kept) if within(whole, seq_length) == _partial(graph, found) else {}


def _source(text: str) -> dict[str, Any]:
    """What an emitted YAML keeps in its comment; {} where there is none."""
    for line in text.splitlines()[:20]:
        _, mark, rest = line.partition(f"# {SOURCE}")
        if mark:
            try:
                kept = json.loads(rest)
            except ValueError:
                return {}
            told = isinstance(kept, dict) and all(isinstance(kept.get(key, {}), dict) for key in ("fields", "beyond"))
            return kept if told else {}
    return {}


def _model(found: Mapping[str, Any], graph: Graph, source: Mapping[str, Any], arch: Mapping[str, Any]) -> ModelConfig:
    """The first declared architecture whose config says what the YAML says."""
    wanted = _partial(graph, found)
    first: MindportError | None = None
    for model_type, hf_class in _candidates(graph, source, arch):
        constants = architecture(model_type).constants.items()
        differing = [name for name, value in constants if name in _COMPARED and getattr(wanted, name) != value]
        if not differing:
            try:
                model = from_hf(encoded(model_type, hf_class, wanted))
            except MindportError as error:
                first = first or error
                continue
            effects = TransformerConfig.effects()
            differing = [name for name in _differing(model.transformer, wanted) if effects[name] != TRAINING]
            if not differing:
                return model
        first = first or MindportError(
            tr("A {model_type} config cannot say {fields}.", model_type=model_type, fields=", ".join(differing)),
            tr("Correct it in the file."),
        )
    assert first is not None  # there are candidates
    raise first


def _differing(config: TransformerConfig, other: TransformerConfig) -> list[str]:
    return [name for name in _COMPARED if getattr(config, name) != getattr(other, name)]


_COMPARED = [name for name in TransformerConfig.__dataclass_fields__ if name not in FREE]
"""Fields in which a config must say what the YAML says."""


def _candidates(graph: Graph, source: Mapping[str, Any], arch: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(model_type, class) of architectures a YAML may have come from, the likeliest first."""
    declared = model_types()
    named, classes = source.get("model_type"), source.get("architectures")
    if isinstance(named, str) and named in declared and isinstance(classes, list):
        yield from ((named, name) for name in classes[:1] if _has_class(architecture(named), name))
    if graph.name in declared and graph.generation != LEGACY:
        yield graph.name, _causal(architecture(graph.name))
    for model_type in sorted(declared, key=lambda name: not _has_class(architecture(name), arch.get("type"))):
        if _causal(architecture(model_type)):
            yield model_type, _causal(architecture(model_type))


def _has_class(declaration: Architecture, name: Any) -> bool:
    """Whether an architecture has a class of this name, which a file may give as anything."""
    return isinstance(name, str) and name in declaration.classes


def _causal(declaration: Architecture) -> str:
    """The class of a causal language model; "" where there is none."""
    named = (name for name, declared in declaration.classes.items() if declared.fields.get("head") == "causal_lm")
    return next(named, "")


def encoded(model_type: str, hf_class: str, config: TransformerConfig) -> dict[str, Any]:
    """The Hugging Face config that says what a canonical one does, by the declaration's own rules.

    Raises:
        MindportError: a rule cannot say it.
    """
    defaults = class_defaults(model_type)
    hf: dict[str, Any] = {"model_type": model_type, "architectures": [hf_class]}
    for rule in architecture(model_type).rules:
        if not isinstance(rule, Only) or rule.key in defaults:
            hf.update(rule.encode(config))
    return hf
