"""One folder for each test model, made when first asked for."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mindport.verify.frameworks import prepare

prepare()

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("mindspore")

from .generator import Variant, all_variants  # noqa: E402
from .random_model import Prepared  # noqa: E402


@pytest.fixture(scope="session", params=all_variants(), ids=str)
def variant(request: pytest.FixtureRequest) -> Variant:
    """Every test model in turn. Of session scope, so that all tests of one run before the next is made."""
    return request.param


@pytest.fixture(scope="session")
def model(variant: Variant, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prepared]:
    """Its folders and networks, shared by all tests and then let go."""
    folder = tmp_path_factory.mktemp(str(variant))
    yield Prepared(variant, folder)
    shutil.rmtree(folder)


@pytest.fixture
def record(request: pytest.FixtureRequest, variant: Variant) -> Callable[[str, Any], None]:
    """record(what, value) of this model for the summary."""
    # Not `record_property`: it warns where a report in the default format is asked for.
    return lambda what, value: request.node.user_properties.append((f"mindport:{variant.model_type}:{what}", value))


@pytest.fixture
def set_mode() -> Any:
    """set_mode("graph" or "pynative"); put back afterwards."""
    import mindspore as ms

    before = ms.get_context("mode")
    modes = {"graph": ms.GRAPH_MODE, "pynative": ms.PYNATIVE_MODE}
    yield lambda name: ms.set_context(mode=modes[name])
    ms.set_context(mode=before)


GENERATION_4 = json.loads((Path(__file__).parent / "transformers_4.json").read_text(encoding="utf-8"))
"""Test -> model_type -> what transformers 4 does otherwise. It has to, or the test says so."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of one model in one process, where there are several: each would make the model anew.

    The tests are about transformers 5. Under 4, where `make conformance` runs some of them, known differences are
    expected.
    """
    import transformers

    older = transformers.__version__.startswith("4.")
    for item in items:
        parameters = getattr(item, "callspec", None)
        if (
            parameters is None or item.path.parent != Path(__file__).parent
        ):  # the hook sees the other folders' tests, too
            continue
        variant = parameters.params.get("variant")
        if variant is not None:
            item.add_marker(pytest.mark.xdist_group(str(variant)))
        model_type = parameters.params.get("model_type", getattr(variant, "model_type", None))
        differs = GENERATION_4.get(getattr(item, "originalname", ""), {}).get(model_type)
        if older and differs:
            item.add_marker(pytest.mark.xfail(reason=f"transformers 4: {differs}", strict=True))
