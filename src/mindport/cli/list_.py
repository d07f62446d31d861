"""`mindport list`."""

from __future__ import annotations

from mindport.architectures import architecture, model_types
from mindport.cli.options import Json
from mindport.cli.output import print_json, print_table
from mindport.i18n import tr
from mindport.targets import TARGETS


def command(as_json: Json = False) -> None:
    declared = [architecture(name) for name in model_types()]
    if as_json:
        print_json(
            {
                "architectures": [
                    {"model_type": a.model_type, "title": a.title, "classes": list(a.classes)} for a in declared
                ],
                "targets": [{"name": t.name, "title": t.title} for t in TARGETS.values()],
            }
        )
        return
    print_table(("model_type", "name", "classes"), [(a.model_type, a.title, ", ".join(a.classes)) for a in declared])
    print_table(("target", "name"), [(t.name, tr(t.title)) for t in TARGETS.values()])
