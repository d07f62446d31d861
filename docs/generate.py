"""Writes the pages of this folder, and the tables in them, that say what the code says: `make docs`. A test compares
them with the code."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, NamedTuple

from mindport.architectures import architecture, model_types
from mindport.config.hf import with_defaults
from mindport.config.mindformers.lint import CHECKS
from mindport.i18n import tr
from mindport.schema import TransformerConfig
from mindport.targets.mindformers.versions import VERSIONS

HERE = Path(__file__).parent


class Words(NamedTuple):
    """What a page says that the code does not."""

    page: str
    language: str
    title: str
    introduction: str
    head: tuple[str, ...]
    required: str
    none: str
    fixed: str
    by_class: str
    computed: str
    listed: str


ENGLISH = Words(
    page="transformer_config.md",
    language="en",
    title="TransformerConfig",
    introduction="""\
Every field of `mindport.schema.TransformerConfig`, which is the section `transformer` of `ms_config.json`. This page is
written by `make docs` from the declarations, so it names what this version reads and nothing else.

- **Hugging Face**: the keys of `config.json` that determine the field. A key that only some architectures read has
  their model_types behind it. *Fixed*: the same in every model of an architecture. *By the class*: follows from
  `architectures`. *Computed*: some architectures have a formula in place of a key.
- **MindFormers (mcore)**: the name in `TransformerConfig` of MindFormers 1.9 (`use_legacy: False`).
- **MindFormers (legacy)**: the name in `LlamaConfig` of MindFormers 1.9, or in its `MoEConfig` (`use_legacy: True`).
- **none**: there is no counterpart. A name says that both set the same property, not that both spell its values alike:
  `window_size`, for example, is a pair in MindFormers.""",
    head=("Field", "Type", "Default", "Meaning", "Hugging Face", "MindFormers (mcore)", "MindFormers (legacy)"),
    required="required",
    none="none",
    fixed="*fixed*",
    by_class="*by the class*",
    computed="*computed*",
    listed=" ({})",
)

CHINESE = Words(
    page="transformer_config_CN.md",
    language="zh_CN",
    title="TransformerConfig",
    introduction="""\
`mindport.schema.TransformerConfig` 的全部字段，也就是 `ms_config.json` 中 `transformer` 一节的内容。本页由 `make docs`
根据架构声明生成，所列即本版本实际读取的内容。

- **Hugging Face**：`config.json` 中决定该字段的键。仅有部分架构读取的键，其后括号内列出对应的 model_type。
  *固定*：同一架构的所有模型都相同。*由类决定*：取决于 `architectures`。*计算得出*：部分架构不设键，而用公式计算。
- **MindFormers (mcore)**：在 MindFormers 1.9 的 `TransformerConfig` 中的名称（`use_legacy: False`）。
- **MindFormers (legacy)**：在 MindFormers 1.9 的 `LlamaConfig` 或其 `MoEConfig` 中的名称（`use_legacy: True`）。
- **无**：没有对应项。列出名称只表示两者设置同一属性，取值的写法未必相同：例如 `window_size` 在 MindFormers
  中是一对数。""",
    head=("字段", "类型", "默认值", "含义", "Hugging Face", "MindFormers (mcore)", "MindFormers (legacy)"),
    required="必需",
    none="无",
    fixed="*固定*",
    by_class="*由类决定*",
    computed="*计算得出*",
    listed="（{}）",
)


def keys_of_fields() -> dict[str, dict[str, list[str]]]:
    """Canonical field -> Hugging Face key, in any spelling -> model_types that read it so."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for model_type in model_types():
        declaration = architecture(model_type)
        defaults = with_defaults({}, declaration)
        for rule in declaration.rules:
            for name in rule.decode(defaults):
                for key in (*rule.keys, *rule.aliases):
                    found[name][key].append(model_type)
    return found


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Messages in a language for a while."""
    before = os.environ.get("MINDPORT_LANG")
    os.environ["MINDPORT_LANG"] = language
    try:
        yield
    finally:
        os.environ.pop("MINDPORT_LANG")
        if before is not None:
            os.environ["MINDPORT_LANG"] = before


def config_page(words: Words) -> str:
    """The reference of `TransformerConfig` in one language."""
    with speaking(words.language):
        meanings = TransformerConfig.describe()
    keys = keys_of_fields()
    lines = [f"# {words.title}", "", words.introduction, "", _line(words.head), _line("---" for _ in words.head)]
    for field in fields(TransformerConfig):
        lines.append(
            _line(
                (
                    f"`{field.name}`",
                    f"`{field.type}`",
                    words.required if field.default is MISSING else f"`{field.default!r}`",
                    meanings[field.name],
                    _hugging_face(field, keys.get(field.name, {}), words),
                    *(_codes(field.metadata[of].split()) or words.none for of in ("mcore", "legacy")),
                )
            )
        )
    return "\n".join(lines) + "\n"


def _hugging_face(field: Field[Any], keys: dict[str, list[str]], words: Words) -> str:
    """The keys, those that most architectures read first; then what else may determine the field."""
    shown = []
    for key, readers in sorted(keys.items(), key=lambda item: (-len(item[1]), item[0])):
        some = len(readers) * 2 <= len(model_types())
        shown.append(f"`{key}`" + (words.listed.format(", ".join(readers)) if some else ""))
    declared = [architecture(model_type) for model_type in model_types()]
    if any(field.name in a.computed for a in declared):
        shown.append(words.computed)
    if any(field.name in a.constants for a in declared):
        shown.append(words.fixed)
    if any(field.name in c.fields for a in declared for c in a.classes.values()):
        shown.append(words.by_class)
    return "; ".join(shown) or words.none


def _codes(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _line(cells: Iterator[str] | tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


class Tables(NamedTuple):
    """What the tables in a page on MindFormers say that the code does not."""

    page: str
    language: str
    versions: tuple[str, ...]
    losses: tuple[str, ...]
    all: str
    own: str
    since: str
    until: str
    running: str


ENGLISH_TABLES = Tables(
    page="mindformers.md",
    language="en",
    versions=("MindFormers", "MindSpore", "Generations", "What is known"),
    losses=("Code", "What happens", "What to do", "Generations", "Models"),
    all="all",
    own="all of MindFormers' own",
    since="from {} on",
    until="until {}",
    running="running too",
)
CHINESE_TABLES = Tables(
    page="mindformers_CN.md",
    language="zh_CN",
    versions=("MindFormers", "MindSpore", "世代", "了解程度"),
    losses=("代码", "会发生什么", "如何处理", "世代", "模型"),
    all="全部",
    own="MindFormers 自有的全部模型",
    since="自 {} 起",
    until="到 {} 为止",
    running="推理也适用",
)


def versions_table(words: Tables) -> str:
    """The versions of MindFormers, what each can train, and how that is known."""
    lines = [_line(words.versions), _line("---" for _ in words.versions)]
    for version in VERSIONS.values():
        generations = _codes([*version.generations])
        lines.append(_line((version.name, version.mindspore, generations, version.evidence_text)))
    return "\n".join(lines)


def losses_table(words: Tables) -> str:
    """Every check for a silent loss."""
    lines = [_line(words.losses), _line("---" for _ in words.losses)]
    for check in CHECKS:
        scope = [_codes([*check.generations])]
        scope += [words.since.format(check.since)] if check.since else []
        scope += [words.until.format(check.until)] if check.until else []
        scope += [] if check.training else [words.running]
        models = _codes([*check.families]) or (words.all if check.plugin else words.own)
        lines.append(_line((f"`{check.code}`", tr(check.consequence), tr(check.fix), "; ".join(scope), models)))
    return "\n".join(lines)


def with_tables(words: Tables) -> str:
    """A page as it is, with its tables written anew between their marks."""
    text = (HERE / words.page).read_text(encoding="utf-8")
    with speaking(words.language):
        tables = {"versions": versions_table(words), "losses": losses_table(words)}
    for name, table in tables.items():
        start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        text = re.sub(
            f"{start}.*?{end}", lambda found, t=table, s=start, e=end: f"{s}\n{t}\n\n{e}", text, flags=re.DOTALL
        )
    return text


def pages() -> dict[Path, str]:
    """Every page with something generated -> its text."""
    whole = {HERE / words.page: config_page(words) for words in (ENGLISH, CHINESE)}
    return whole | {HERE / words.page: with_tables(words) for words in (ENGLISH_TABLES, CHINESE_TABLES)}


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
