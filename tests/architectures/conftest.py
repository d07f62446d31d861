"""One folder for each test model, made when first asked for, and a summary of what the tests measured."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mindport.verify.frameworks import prepare

prepare()

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("mindspore")

from .generator import Variant, all_variants  # noqa: E402
from .random_model import Prepared  # noqa: E402

_OURS = "mindport:"
"""Start of the names under which measurements travel with a test's report."""


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
    return lambda what, value: request.node.user_properties.append((f"{_OURS}{variant.model_type}:{what}", value))


@pytest.fixture
def set_mode() -> Any:
    """set_mode("graph" or "pynative"); put back afterwards."""
    import mindspore as ms

    before = ms.get_context("mode")
    modes = {"graph": ms.GRAPH_MODE, "pynative": ms.PYNATIVE_MODE}
    yield lambda name: ms.set_context(mode=modes[name])
    ms.set_context(mode=before)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What was measured, by architecture."""
    measured: dict[str, dict[str, list[Any]]] = {}
    for reports in (terminalreporter.stats.get(kind, []) for kind in ("passed", "failed")):
        for report in reports:
            for name, value in getattr(report, "user_properties", []):
                if name.startswith(_OURS):
                    model_type, what = name.removeprefix(_OURS).split(":")
                    measured.setdefault(model_type, {}).setdefault(what, []).append(value)
    if not measured:
        return
    terminalreporter.section("architectures")
    for model_type, values in sorted(measured.items()):
        parts = []
        if "error" in values:
            parts.append(f"{len(values['error'])} models, largest error {max(values['error']):.1e}")
        if "modes" in values:
            parts.append(f"graph - pynative {max(values['modes']):.1e}")
        if "made" in values:
            parts.append(f"{sum(values['caught'])} of {sum(values['made'])} mutations caught")
        terminalreporter.write_line(f"{model_type}: {', '.join(parts)}")
        reasons: dict[str, int] = {}
        for counts in values.get("invisible", []):
            for reason, count in counts.items():
                reasons[reason] = reasons.get(reason, 0) + count
        for reason, count in reasons.items():
            terminalreporter.write_line(f"    {count} cannot show and were seen not to: {reason}")
