"""`mindport list`."""

from __future__ import annotations

from collections.abc import Iterator

import typer

from mindport.architectures import architecture, model_types, source_of
from mindport.cli.options import Declarations, Json, with_declarations
from mindport.cli.output import print_json, print_table
from mindport.i18n import tr
from mindport.targets import TARGETS


def command(context: typer.Context, declarations: Declarations = None, as_json: Json = False) -> None:
    with_declarations(context, declarations)
    declared = [(architecture(name), source) for name in model_types() if (source := source_of(name))]
    if as_json:
        print_json(
            {
                "architectures": [
                    {
                        "model_type": a.model_type,
                        "title": a.title,
                        "classes": list(a.classes),
                        "source": {"kind": source.kind, "name": source.owner(a.model_type)},
                    }
                    for a, source in declared
                ],
                "targets": [{"name": name, "title": title} for name, title in _targets()],
            }
        )
        return
    print_table(
        ("model_type", "name", "declared by", "classes"),
        [(a.model_type, a.title, source.owner(a.model_type), ", ".join(a.classes)) for a, source in declared],
    )
    print_table(("target", "name"), list(_targets()))


def _targets() -> Iterator[tuple[str, str]]:
    """(name as after `--to`, title)."""
    from mindport.targets.mindformers import VERSIONS  # tables that most verbs start without

    for t in TARGETS.values():
        yield t.name, tr(t.title)
    for version in VERSIONS.values():
        yield version.target, f"MindFormers {version.name} ({', '.join(version.generations)})"
