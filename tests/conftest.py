"""Settings of the frameworks, made before any test imports one, and a summary of what the tests measured."""

from __future__ import annotations

import os
from typing import Any

from mindport.verify.frameworks import prepare

if "PYTEST_XDIST_WORKER" in os.environ:  # several processes share the cores
    os.environ.setdefault("OMP_NUM_THREADS", "1")
prepare()

_OURS = "mindport:"
"""Start of the names under which measurements travel with a test's report, from whatever process it ran in."""


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
