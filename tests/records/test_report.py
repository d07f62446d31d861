"""The record and the report: complete, in both languages, and safe against what a config may hold."""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from mindport.config.audit import Row
from mindport.errors import MindportError
from mindport.records import formats
from mindport.records.migration import Migration, Stage, WeightsRecord
from mindport.verify.alignment import Alignment, Settings
from mindport.verify.compare import Difference
from mindport.verify.gates import STRICT
from mindport.verify.text import Text

jinja2 = pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

from mindport.records.report import write_report  # noqa: E402

HOSTILE = "<script>alert('x')</script>|`**b**` \n# heading\u202e\ud800"
VOID = {"meta", "br", "link", "img", "hr", "input"}
CHINESE = re.compile("[\u4e00-\u9fff]")

LOSSES = (10.9276543, 10.4213219, 9.9132011, 9.5120077, 9.1730034)


def _row(key: str, value: Any, to: dict[str, Any] | None = None, **more: Any) -> Row:
    return Row(key, value, **{"layer": "structure", "origin": "file", "status": "mapped", **more}, to=to or {})


def _difference(what: str, **more: Any) -> Difference:
    values = {
        "max_abs": 2.9e-6,
        "mean_abs": 3.1e-7,
        "scale": 21.4,
        "cosine": 0.9999999987,
        "top1": None,
        "top1_gap": None,
    }
    return Difference(what, 192, **{**values, **more})


@pytest.fixture
def migration() -> Migration:
    """A migration that passed, with a bit of everything."""
    batches = ("unpadded", "right-padded", "left-padded")
    parity = tuple(_difference(f"logits, {batch}", top1=1.0, top1_gap=0.0) for batch in batches)
    return Migration(
        source="tiny-llama",
        target="native",
        model_type="llama",
        hf_class="LlamaForCausalLM",
        parameters=134515008,
        fields=(
            _row("vocab_size", 49152, {"vocab_size": 49152}),
            _row("hidden_size", 576, {"hidden_size": 576}),
            _row("rope_scaling", {"type": "linear", "factor": 2.0}, {"rope_scaling": {"type": "linear"}}),
            _row("head_dim", None, {"kv_channels": 64}, origin="class default", status="derived"),
            _row("softmax_scale", 0.125, {"softmax_scale": 0.125}, origin="formula", status="derived"),
            _row("transformers_version", "4.42.3", layer="record", status="ignored", note="recorded, does not count"),
            _row("use_cache", True, layer="runtime", status="ignored", note="a default of text generation"),
        ),
        weights=WeightsRecord(
            tensors_in=273,
            tensors_out=272,
            nbytes=538_060_032,
            dtypes=("float32",),
            file="model.safetensors",
            skipped={"model.layers.{L}.self_attn.rotary_emb.inv_freq": "recomputed"},
            tied_copies=("lm_head.weight",),
            placed=(
                ("model.embed_tokens.weight", "embedding.word.weight"),
                ("model.layers.{L}.self_attn.q_proj.weight", "layers.{L}.attention.qkv.weight"),
            ),
            seconds=1.42,
            peak_mb=61.0,
        ),
        gate=STRICT,
        parity={"pynative": parity, "graph": parity},
        text=Text("Gravity is", " a force\nthat pulls.", " a force\nthat pulls.", 32, True),
        embeddings=None,
        alignment=Alignment(
            "causal_lm",
            Settings(steps=5),
            losses=LOSSES,
            reference_losses=(LOSSES[0], *(x + 1.3e-6 for x in LOSSES[1:])),
            grad_norms=(4.1234567, 3.9, 3.7, 3.4, 3.2),
            reference_grad_norms=(4.1234569, 3.9, 3.7, 3.4, 3.2),
        ),
        stages=(
            Stage("config", True, "7 keys, none unhandled", 0.02),
            Stage("weights", True, "273 tensors", 1.42),
            Stage("training", True, "5 steps", 64.0),
        ),
        versions={"torch": "2.6.0", "mindspore": "2.10.0"},
        remarks=("Dropout is off on both sides.",),
    )


@pytest.fixture
def hostile(migration: Migration) -> Migration:
    """Every string a stranger decides about, hostile."""
    return replace(
        migration,
        source=HOSTILE,
        model_type=HOSTILE,
        hf_class=HOSTILE,
        fields=(
            _row(HOSTILE, {HOSTILE: [HOSTILE, math.inf]}, {HOSTILE: HOSTILE}, layer=HOSTILE, origin=HOSTILE),
            _row("键|名", "x" * 9999, status="unhandled", layer="", note=HOSTILE),
            _row("__proto__", "</td></table>{{ 7*7 }}", status="ignored", note=HOSTILE),
        ),
        weights=replace(
            migration.weights,
            file=HOSTILE,
            dtypes=(HOSTILE,),
            skipped={HOSTILE: HOSTILE},
            tied_copies=(HOSTILE,),
            placed=((HOSTILE, HOSTILE),),
        ),
        parity={HOSTILE: (_difference(HOSTILE),)},
        text=Text(HOSTILE, HOSTILE, f"```\n{HOSTILE}\n````", 3, False),
        embeddings=_difference(HOSTILE),
        stages=(Stage(HOSTILE, False, HOSTILE, 0.5),),
        versions={HOSTILE: HOSTILE},
        remarks=(HOSTILE, "# not a heading", "1. not a list"),
    )


class _Page(HTMLParser):
    """Tags in balance, elements counted, text collected."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: Counter[str] = Counter()
        self.attributes: list[tuple[str, str]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)


@pytest.fixture(autouse=True)
def english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDPORT_LANG", "en")


@pytest.fixture
def write(tmp_path: Path) -> Callable[[Migration], tuple[dict[str, Any], str, str]]:
    """write(migration) -> the JSON, the Markdown and the HTML."""

    def written(migration: Migration) -> tuple[dict[str, Any], str, str]:
        report = write_report(migration, tmp_path / "deep" / "report")
        assert report == tmp_path / "deep" / "report" / "report.html"
        names = ("migration.json", "MIGRATION.md", "report.html")
        assert sorted(path.name for path in report.parent.iterdir()) == sorted(names)
        data, markdown, html = ((report.parent / name).read_text(encoding="utf-8") for name in names)
        return json.loads(data, parse_constant=pytest.fail), markdown, html

    return written


def _points(html: str, name: str) -> int:
    """Points of the first path of a drawn line."""
    path = re.search(rf'<g id="{name}">\s*<path d="([^"]*)"', html)
    assert path, name
    return len(re.findall("[ML]", path[1]))


def _tables(markdown: str) -> list[list[list[str]]]:
    """Tables as a GitHub-like renderer sees them: rows of cells."""
    tokens = pytest.importorskip("markdown_it").MarkdownIt("commonmark").enable("table").parse(markdown)
    tables: list[list[list[str]]] = []
    for token, after in pairwise(tokens):
        if token.type == "table_open":
            tables.append([])
        elif token.type == "tr_open":
            tables[-1].append([])
        elif token.type in ("th_open", "td_open"):
            tables[-1][-1].append("".join(c.content for c in after.children or ()))
    return tables


def test_everything_is_said(write: Any, migration: Migration) -> None:
    data, markdown, html = write(migration)
    assert next(iter(data)) == "passed"
    assert data["passed"] is True
    assert data["alignment"]["losses"] == list(LOSSES)
    assert list(data["versions"]) == ["mindspore", "torch"]
    page = _Page(html)
    for text in (markdown, page.text):
        for wanted in (
            "The migration passed every check that was run.",
            "134,515,008",
            "538 MB",
            "2.9e-06",  # the error
            "4.28e-04",  # its bound, 2e-5 at scale 21.4
            "0.999999999",
            "100%",
            "10.9277",
            "1.3e-06",
            "1e-04",
            "LlamaForCausalLM",
            "2.10.0",
            "lm_head.weight",
            "recomputed",
            "kv_channels = 64",
            "recorded, does not count",
            "layers.{L}.attention.qkv.weight",
            "64.0 s",
            "that pulls.",
            "Dropout is off on both sides.",
        ):
            assert wanted in text
        assert "Unhandled" not in text
        assert "was not checked" not in text


def test_html_stands_alone(write: Any, migration: Migration) -> None:
    _, _, html = write(migration)
    page = _Page(html)
    assert not re.search(r"https?:|//", html.replace("</", ""))
    assert not page.elements["script"] | page.elements["link"] | page.elements["img"]
    assert page.elements["svg"] == 2
    assert "prefers-color-scheme: dark" in html
    assert "@media print" in html
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    referred = re.findall(r'(?:url\(#|href="#)([^)"]+)', html)
    assert set(referred) <= set(ids)


def test_curves_have_every_step(write: Any, migration: Migration) -> None:
    _, _, html = write(migration)
    for name in ("loss-ours", "loss-reference", "loss-difference", "norm-ours", "norm-difference"):
        assert _points(html, name) == 5
    assert _points(html, "loss-bound") == 2
    # The losses agree exactly at the first step, the norms at all but the first.
    assert len(re.findall("<use", html.split('id="loss-zeros"')[1].split("</g>")[0])) == 1
    assert len(re.findall("<use", html.split('id="norm-zeros"')[1].split("</g>")[0])) == 4
    assert not re.search("#0([1-6])0\\1", html)  # no stand-in for a colour is left


def test_same_bytes_every_time(write: Any, migration: Migration) -> None:
    assert write(migration) == write(migration)


@pytest.mark.parametrize("steps", [1, 120])
def test_few_and_many_steps(write: Any, migration: Migration, steps: int) -> None:
    assert migration.alignment
    losses = tuple(10 / i for i in range(1, steps + 1))
    alignment = Alignment("x", Settings(steps), losses, losses, losses, losses)
    _, markdown, html = write(replace(migration, alignment=alignment))
    assert html.count('<g id="loss-ours">') == 1
    if steps > 1:
        assert _points(html, "loss-ours") == steps
    else:
        assert "the weights may not have been updated" in markdown


def test_hostile_strings_stay_text(write: Any, hostile: Migration) -> None:
    data, markdown, html = write(hostile)
    assert data["source"] == HOSTILE
    assert data["fields"][0]["value"] == {HOSTILE: [HOSTILE, "Infinity"]}
    page = _Page(html)
    assert not page.elements["script"]
    assert page.text.count("<script>alert") > 15
    assert "49" not in re.findall(r"\{\{.*?\}\}", html)[0]
    assert {"\u202e"}.isdisjoint(html + markdown)
    assert page.elements["h1"] == 1
    assert not [name for name, _ in page.attributes if name.startswith("on")]


def test_hostile_strings_leave_markdown_whole(write: Any, hostile: Migration) -> None:
    _, markdown, _ = write(hostile)
    tokens = pytest.importorskip("markdown_it").MarkdownIt("commonmark").enable("table").parse(markdown)
    assert not [t for t in tokens if t.type == "html_block"]
    children = [child for token in tokens for child in token.children or ()]
    assert {c.type for c in children} <= {"text", "text_special", "code_inline", "strong_open", "strong_close"}
    assert sum(t.type == "heading_open" and t.tag == "h1" for t in tokens) == 1
    assert sum(t.type == "ordered_list_open" for t in tokens) == 0
    fences = [t.content for t in tokens if t.type == "fence"]
    assert len(fences) == 3
    assert fences[2].startswith("```\n<script>")
    for table in _tables(markdown):
        assert {len(row) for row in table} == {len(table[0])}
    config = next(table for table in _tables(markdown) if table[0][0] == "Hugging Face key")
    assert config[1][0] == formats.printable(HOSTILE).strip()
    assert config[2][0] == "键|名"
    assert config[3][0] == "__proto__"
    assert config[2][1].endswith("… (10,001)")


def test_a_failure_shows(write: Any, migration: Migration) -> None:
    alignment = migration.alignment
    assert alignment
    failing = replace(
        migration,
        fields=(*migration.fields, _row("mystery", 3, layer="", status="unhandled")),
        parity={
            "graph": (_difference("logits, unpadded", max_abs=4.2801e-4, top1=0.99999, top1_gap=0.1), _difference("x"))
        },
        text=Text("p", "a", "b", 32, False),
        alignment=replace(alignment, losses=(*LOSSES[:3], math.nan, LOSSES[4]), grad_norms=(4.1, math.inf)),
        stages=(*migration.stages, Stage("forward parity", False, "too far apart", 3.0)),
    )
    data, markdown, html = write(failing)
    assert data["passed"] is False
    assert data["alignment"]["losses"][3] == "NaN"
    page = _Page(html)
    for text in (markdown, page.text):
        assert "The migration did not pass: forward parity." in text
        assert "4.3e-04" in text
        assert "4.28e-04" in text
        assert "99.99%" in text
        assert "NaN" in text
        assert "∞" in text
        assert "mystery" in text
        assert "Mindport has no rule for them" in text
        assert "Unhandled config keys: 1." in text
        assert "The two sides continue the prompt differently" in text
        assert "Some step did not keep the bounds" in text
    assert '<header class="bad">' in html
    assert "❌" in markdown
    assert _points(html, "loss-ours") == 4


def test_encoder_with_embeddings(write: Any, migration: Migration) -> None:
    embeddings = _difference("embeddings", cosine=0.99999987)
    _, markdown, html = write(replace(migration, text=None, embeddings=embeddings))
    for text in (markdown, _Page(html).text):
        assert "Sentence embeddings" in text
        assert "0.999999870" in text
        assert "Prompt" not in text


def test_what_did_not_run_is_said(write: Any, migration: Migration) -> None:
    _, markdown, html = write(replace(migration, text=None, alignment=None, parity={}, remarks=(), versions={}))
    page = _Page(html)
    assert not page.elements["svg"]
    for text in (markdown, page.text):
        assert "Training was not checked." in text
        assert "Forward parity was not checked." in text
        assert "Remarks" not in text


def test_chinese(write: Any, migration: Migration, hostile: Migration, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDPORT_LANG", "zh_CN")
    _, markdown, html = write(migration)
    page = _Page(html)
    assert ("lang", "zh-CN") in page.attributes
    for text in (markdown, page.text):
        assert "迁移通过了所有已执行的检查。" in text
        assert "梯度范数" in text
    headings = re.findall("^#+ (.*)$", markdown, re.MULTILINE) + re.findall("<h2>(.*?)</h2>", html)
    heads = [cell for table in _tables(markdown) for cell in table[0]]
    assert len(heads) > 30
    assert [text for text in headings + heads if not CHINESE.search(text)] == ["Top-1"]
    _Page(write(hostile)[2])


@pytest.mark.parametrize("package", ["jinja2", "matplotlib"])
def test_missing_packages(migration: Migration, tmp_path: Path, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MindportError, match=package) as raised:
        write_report(migration, tmp_path / "out")
    assert "pip install 'mindport[report]'" in raised.value.fix
    assert not (tmp_path / "out").exists()


def test_folder_that_cannot_be_written(migration: Migration, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MindportError, match="could not be written"):
        write_report(migration, tmp_path / "file")


@pytest.mark.parametrize(
    ("number", "bound", "shown"),
    [
        (2.9e-6, 2e-5, "2.9e-06"),
        (2.001e-5, 2e-5, "2.001e-05"),
        (1.999999e-5, 2e-5, "2.0e-05"),
        (0.0, 1e-4, "0"),
        (4.2801e-4, 4.28e-4, "4.3e-04"),
        (4.2799e-4, 4.28e-4, "4.28e-04"),
        (math.nan, 1e-4, "NaN"),
        (math.inf, 1e-4, "∞"),
    ],
)
def test_an_error_is_seen_on_its_side_of_the_bound(number: float, bound: float, shown: str) -> None:
    assert formats.error(number, bound) == shown


def test_other_numbers() -> None:
    assert [formats.size(n) for n in (999, 90_868_224, 538_060_032, 2.2e9)] == ["999 B", "90.9 MB", "538 MB", "2.20 GB"]
    assert [formats.percent(x) for x in (1.0, 0.999999, 0.29, 0.0)] == ["100%", "99.99%", "29%", "0%"]
    assert [formats.significant(x) for x in (10.0, 0.00123456789, 123456.7)] == ["10.0000", "0.00123457", "123457"]
    assert [formats.duration(x) for x in (0.031, 64.2, 4000)] == ["0.03 s", "64.2 s", "4,000.0 s"]
