"""The generated pages are what the generator writes now, and every field of `TransformerConfig` is documented."""

from __future__ import annotations

import runpy
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

import pytest

from mindport.schema import TransformerConfig

DOCS = Path(__file__).parents[2] / "docs"
GENERATOR = runpy.run_path(str(DOCS / "generate.py"))
PAGES: dict[Path, str] = GENERATOR["pages"]()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_generated_page_is_up_to_date(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == PAGES[path], "run `make docs`"


@pytest.mark.parametrize("field", fields(TransformerConfig), ids=lambda field: field.name)
def test_a_field_says_what_it_means_and_what_mindformers_calls_it(field: Field[Any]) -> None:
    """Chinese meanings are asked for in tests/structure/test_messages.py, real names in tests/conformance."""
    assert field.metadata["doc"]
    assert field.metadata["mcore"] is not None, 'say mcore="..." (and legacy="..."), "" where there is no counterpart'
