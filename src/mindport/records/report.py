"""The record and the report of a migration: `migration.json`, `MIGRATION.md` and `report.html`."""

from __future__ import annotations

from pathlib import Path

from mindport.config.strict_json import strict_json
from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.records import markdown, plots
from mindport.records.blocks import Curves, Document
from mindport.records.document import describe
from mindport.records.formats import printable
from mindport.records.migration import Migration

DATA, RECORD, REPORT = "migration.json", "MIGRATION.md", "report.html"

_TEMPLATES = Path(__file__).parent / "templates"


def write_report(migration: Migration, folder: Path) -> Path:
    """Write the three files, in the active language, into a folder that may exist and hold other files.

    Returns:
        The path of `report.html`.

    Raises:
        MindportError: Jinja2 or matplotlib is missing, or the folder cannot be written.
    """
    document = describe(migration)
    # All three are made before the first is written: a failure leaves no half of a report.
    files = {
        DATA: as_json(migration),
        RECORD: markdown.render(document),
        REPORT: as_html(document),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            # Only JSON can still hold half a surrogate pair, and there the replacement is its escape.
            (folder / name).write_bytes(text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise MindportError(
            tr("{folder} could not be written: {error}.", folder=folder, error=error.strerror or error),
            tr("Free some space, or choose another folder."),
        ) from None
    return folder / REPORT


def as_json(migration: Migration) -> str:
    """The migration as JSON that any parser reads: the verdict first, versions by name, NaN as a string."""
    data = migration.to_json()
    data["versions"] = dict(sorted(data["versions"].items()))
    return strict_json(data) + "\n"


def as_html(document: Document) -> str:
    """The document as one HTML page that needs nothing else.

    Raises:
        MindportError: Jinja2 or matplotlib is missing.
    """
    try:
        import jinja2
        import markupsafe
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MindportError(
            tr("The report needs {package}, which is not installed.", package=error.name),
            tr("Install it with: pip install 'mindport[report]'"),
        ) from None

    def draw(curves: Curves) -> markupsafe.Markup:
        # Made of our own numbers and names only.
        return markupsafe.Markup(
            plots.curves(curves.name, curves.ours, curves.reference, curves.differences, curves.bound)
        )

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # A Markup is escaped already and must stay what it is.
        finalize=lambda value: printable(value, lines=True) if type(value) is str else value,
    )
    environment.globals["_"] = tr
    environment.filters |= {"draw": draw, "line": printable}
    return environment.get_template("report.html").render(document=document) + "\n"
