"""Each release before the latest, itself: it takes what is emitted for it, and holds the model that was meant.

`make slow` makes their environments; `probe` is what runs there.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mindport.config.hf import ModelConfig
from mindport.config.mindformers.choice import chosen_graph
from mindport.config.mindformers.emit import emit
from mindport.config.mindformers.settings import (
    CPU,
    FINETUNE,
    MEGATRON,
    Data,
    Optimizer,
    Parallel,
    Precision,
    Recompute,
    RunSettings,
    Schedule,
)
from mindport.config.yaml_file import parse_yaml
from mindport.schema import TransformerConfig, slots_of
from mindport.targets.mindformers import default_layout, refusals, target
from mindport.targets.mindformers.choice import why_not
from mindport.targets.mindformers.graphs import GRAPHS, Graph
from mindport.targets.mindformers.versions import LEGACY, MCORE, SCHEMA, VERSIONS, Version, family_named

from ..config.mindformers.held import expected
from ..config.mindformers.models import trainable

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PROBE = Path(__file__).with_name("probe.py")
NO_WEIGHTS = ("router.expert_load", "router.fi_accu", "dropout.seed", "dropout.offset")
"""Ends of the names of parameters that count, or draw."""

WITHOUT_AN_ATTRIBUTE = ("scoring_func", "tie_word_embeddings", "topk_method")
"""Keys that are read and leave nothing behind."""

RENAMED = {"attention_bias": "add_qkv_bias"}
"""Key -> the attribute it becomes, where the graph is not told of it as a field."""

RELEASES = [version for version in VERSIONS.values() if version.evidence == SCHEMA]


def plans(config: TransformerConfig) -> list[RunSettings]:
    """Ways to train a model: both templates, both kinds of data, one device and several, what is recomputed as a list.

    Degrees of parallelism are those that divide the model.
    """
    tensor = (
        2 if not (config.num_attention_heads % 2 or config.num_query_groups % 2 or config.ffn_hidden_size % 2) else 1
    )
    tensor = tensor if config.vocab_size % 2 == 0 else 1
    expert = 2 if config.num_moe_experts and config.num_moe_experts % 2 == 0 else 1
    stages = Parallel(data=2, pipeline=2, micro_batches=4, optimizer_shard_size=2, offset=_offset(config.num_layers))
    slices = Parallel(data=2, tensor=tensor, expert=expert, sequence=tensor > 1)
    half = Precision(params="float32", compute="float16", norm="float32", softmax="float32", rotary="float32")
    return [
        RunSettings(device=CPU),
        RunSettings(
            task=FINETUNE, schedule=Schedule("linear", 3e-5, warmup_steps=7), precision=half, gradient_accumulation=2
        ),
        RunSettings(
            parallel=stages,
            data=Data(MEGATRON, "/data/text"),
            recompute=Recompute(full=[1, 0], select=[0, 1]),
            schedule=Schedule("constant", 1e-4),
        ),
        RunSettings(
            task=FINETUNE,
            parallel=slices,
            data=Data(MEGATRON, "/data/text"),
            recompute=Recompute(full=True, tensor_communication=False, optimizer_communication=True),
            optimizer=Optimizer(betas=[0.8, 0.99], eps=1e-7, weight_decay=0.0, max_grad_norm=None),
        ),
    ]


def _offset(layers: int) -> list[int]:
    """Layers of each of two stages beyond an even share: the last one has those that are left over."""
    return [0, layers % 2]


@dataclass(frozen=True)
class Case:
    """A YAML, and what it is of."""

    model: ModelConfig
    graph: Graph
    settings: RunSettings
    text: str

    @property
    def config(self) -> TransformerConfig:
        return self.model.transformer


def cases(version: Version) -> Iterator[Case]:
    """Every model that a release can train, each by two of the plans, so that every family meets all of them."""
    for number, (model, generation) in enumerate(trainable()):
        if generation in version.generations and not why_not(model.transformer, version, generation, weights=False):
            graph = chosen_graph(model, version, generation, None)
            ways = plans(model.transformer)
            for settings in (ways[number % len(ways)], ways[(number + 1) % len(ways)]):
                yield Case(model, graph, settings, emit(model, version.name, generation, settings))


Found = list[tuple[Case, dict[str, Any]]]


def asked(version: Version, texts: list[str], folder: Path) -> list[dict[str, Any]]:
    """What a release answers to YAMLs, in its environment."""
    python = ROOT / f".venv-mindformers-{version.name}" / "bin" / "python"
    if not python.is_file():
        pytest.fail(f"MindFormers {version.name} has no environment here; `make slow` makes it")
    paths = [str(folder / f"{number}.yaml") for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        Path(path).write_text(text, encoding="utf-8")
    target = folder / "answers.json"
    run = subprocess.run(
        [str(python), "-W", "ignore", str(PROBE), str(target), *paths],
        cwd=folder,  # where MindFormers leaves what it writes
        env={**os.environ, "LOCAL_DEFAULT_PATH": str(folder / "logs"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    found = json.loads(target.read_text(encoding="utf-8")) if target.is_file() else {}
    assert run.returncode == 0, f"at file {len(found)}: {run.stderr[-2000:]}"
    assert list(found) == paths
    return list(found.values())


@pytest.fixture(scope="module", params=RELEASES, ids=lambda version: version.name)
def version(request: pytest.FixtureRequest) -> Version:
    return request.param


@pytest.fixture(scope="module")
def found(version: Version, tmp_path_factory: pytest.TempPathFactory) -> Found:
    made = list(cases(version))
    return list(zip(made, asked(version, [case.text for case in made], tmp_path_factory.mktemp("run")), strict=True))


def test_every_graph_of_the_release_is_asked(version: Version, found: Found) -> None:
    described = {key for key in GRAPHS if (family := family_named(key[1], key[0])) and family.trains(version)}
    assert {(case.graph.generation, case.graph.name) for case, _ in found} == described
    assert {generation for generation, _ in described} == {LEGACY, MCORE}
    for _, answer in found:
        assert ".".join(map(str, answer["release"])) == version.name


def test_nothing_is_refused(version: Version, found: Found) -> None:
    """By the template, the validators, the classes of the model, the optimizer, the schedule and the callbacks."""
    for case, answer in found:
        assert not answer["refused"], answer["refused"]
        early = version.name == "1.6" and case.graph.generation == MCORE  # see `probe`
        assert answer["stage"] == ("components" if early else "training")


def test_nothing_is_called_useless(found: Found) -> None:
    """What the template does not know outside its sections it only warns of."""
    for _, answer in found:
        assert not [text for text in answer["warnings"] if "useless" in text or "will not take effect" in text]


def test_every_key_is_held_as_it_was_written(found: Found) -> None:
    """What MindFormers reads from the file is what stands there, with the types that are meant."""
    for case, answer in found:
        written = parse_yaml(case.text, Path("emitted.yaml")).values
        assert _within(written, answer["document"]) == []


def _within(written: Any, held: Any, at: str = "") -> list[str]:
    """The places at which a value is not held."""
    if isinstance(written, dict):
        if not isinstance(held, dict):
            return [at]
        return [place for key in written for place in _within(written[key], held.get(key), f"{at}.{key}")]
    if isinstance(written, list) and isinstance(held, list) and len(written) == len(held):
        return [place for number, part in enumerate(written) for place in _within(part, held[number], f"{at}.{number}")]
    return [] if written == held and type(written) is type(held) else [f"{at}: {written!r}, {held!r}"]


def test_it_holds_the_model_that_was_meant(version: Version, found: Found) -> None:
    """The configuration that the graph is built from, field by field against the canonical one."""
    differing, compared = set(), 0
    for case, answer in found:
        held = answer["held"]
        for name, value in _meant(case, version):
            if name not in WITHOUT_AN_ATTRIBUTE:
                compared += 1
                there = held.get(RENAMED.get(name, name), "nothing")
                if there != value:
                    differing.add((case.graph.name, name, str(value), str(there)))
    assert not differing
    assert compared > 12 * len(found)


def _meant(case: Case, version: Version) -> Iterator[tuple[str, Any]]:
    for key in case.graph.keys:
        if key.known(version):
            yield from expected(key.field, case.config, case.graph, version).items()
    yield from case.graph.written_in(version).items()
    yield from (_mcore_run if case.graph.generation == MCORE else _legacy_run)(case)


def _legacy_run(case: Case) -> Iterator[tuple[str, Any]]:
    settings, precision = case.settings, case.settings.precision
    yield "seq_length", settings.length(case.config.max_position_embeddings)
    yield "offset", settings.parallel.offset
    yield "use_flash_attention", settings.flash_attention and settings.device != CPU
    yield "compute_dtype", _dtype(precision.compute)
    yield "param_init_type", _dtype(precision.params)
    yield "layernorm_compute_type", _dtype(precision.norm)
    yield "softmax_compute_type", _dtype(precision.softmax)
    yield "rotary_dtype", _dtype(precision.rotary)


def _mcore_run(case: Case) -> Iterator[tuple[str, Any]]:
    settings, precision, plan, again = (
        case.settings,
        case.settings.precision,
        case.settings.parallel,
        case.settings.recompute,
    )
    yield "seq_length", settings.length(case.config.max_position_embeddings)
    yield "use_flash_attention", settings.flash_attention
    yield "compute_dtype", _dtype(precision.compute)
    yield "params_dtype", _dtype(precision.params)
    yield "layernorm_compute_dtype", _dtype(precision.norm)
    yield "attention_softmax_in_fp32", precision.softmax == "float32"
    yield "rotary_dtype", _dtype(precision.rotary)
    yield "data_parallel_size", plan.data
    yield "tensor_model_parallel_size", plan.tensor
    yield "pipeline_model_parallel_size", plan.pipeline
    yield "expert_model_parallel_size", plan.expert
    yield "micro_batch_num", plan.micro_batches
    yield "sequence_parallel", plan.sequence
    yield "gradient_aggregation_group", plan.gradient_aggregation
    yield "vocab_emb_dp", plan.embedding_data_parallel
    yield "offset", plan.offset
    yield "recompute", again.full
    yield "select_recompute", again.select
    yield "mp_comm_recompute", again.tensor_communication
    yield "parallel_optimizer_comm_recompute", again.optimizer_communication


def _dtype(name: str) -> str:
    """MindSpore's word for a dtype."""
    return {"float32": "Float32", "float16": "Float16", "bfloat16": "BFloat16"}[name]


def test_the_parameters_are_those_that_weights_are_written_for(version: Version, found: Found) -> None:
    compared = 0
    for case, answer in found:
        family = family_named(case.graph.name, case.graph.generation)
        assert family is not None
        if refusals(case.config, family, version):
            continue  # a YAML alone is all there is for it
        slots, layout = slots_of(case.config), target(version, default_layout(case.graph.generation))
        ours = {
            name: list(stored.shape([slots[part] for part in stored.parts]))
            for name, stored in layout.parameters(case.config).items()
        }
        held_in = "model." if case.graph.generation == MCORE else ""
        theirs = {
            name.removeprefix(held_in): shape
            for name, shape in answer["parameters"].items()
            if not name.endswith(NO_WEIGHTS)
        }
        assert ours == theirs
        compared += 1
    assert compared > 20


def test_the_run_is_the_one_that_was_meant(found: Found) -> None:
    for case, answer in found:
        built, schedule = answer["built"], case.settings.schedule
        assert built["callbacks"] == ["MFLossMonitor", "CheckpointMonitor"]
        assert max(built["rates"]) == pytest.approx(schedule.peak, rel=1e-6)
        assert built.get("optimizer", "AdamW") == "AdamW"
        assert built.get("wrapper", "MFTrainOneStepCell") == "MFTrainOneStepCell"


def test_what_is_wrong_would_be_refused(version: Version, found: Found, tmp_path: Path) -> None:
    """That each of these checks can fail, and at which stage."""
    texts = {case.graph.generation: case.text for case, _ in found}
    spoilt = {
        "template": texts[MCORE].replace("  sink_size: 1", "  sink_size: 1\n  learning_rate: 1.e-3"),
        "context": texts[MCORE].replace("  mode: 0", "  mode: 7"),
        "model": texts[MCORE].replace("    num_hidden_layers:", "    rope_parameters: 1\n    num_hidden_layers:"),
        "components": texts[LEGACY].replace('type: "CheckpointMonitor"', 'type: "CheckpointMointor"'),
        "training": texts[LEGACY].replace("  eps:", "  epsilon: 1.e-8\n  eps:"),
    }
    assert not {*spoilt.values()} & {*texts.values()}
    answers = asked(version, [*spoilt.values()], tmp_path)
    assert [answer["stage"] for answer in answers] == [*spoilt]
    assert all(answer["refused"] for answer in answers)
