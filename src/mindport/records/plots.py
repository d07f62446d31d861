"""Curves as SVG that stands inside an HTML page and takes its colours from there."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from typing import Any

_COLOURS = {
    "#010101": "var(--text)",
    "#020202": "var(--rule)",
    "#030303": "var(--ours)",
    "#040404": "var(--reference)",
    "#050505": "var(--bound)",
    "#060606": "var(--difference)",
}
"""Stand-ins that matplotlib writes into the SVG -> the page's colours, which differ between light and dark."""

_TEXT, _RULE, _OURS, _REFERENCE, _BOUND, _DIFFERENCE = _COLOURS

_STYLE = {
    "axes.edgecolor": _RULE,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 9,
    "grid.color": _RULE,
    "grid.linewidth": 0.5,
    "path.simplify": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "mindport",
    "text.color": _TEXT,
    "xtick.color": _TEXT,
    "ytick.color": _TEXT,
}


def curves(
    name: str,
    ours: Sequence[float],
    reference: Sequence[float],
    differences: Sequence[float],
    bound: float,
) -> str:
    """Two curves on top of each other, and below them their difference on a logarithmic scale.

    The thick translucent line is ours, the thin dashed one the reference: equal curves still show both. Numbers are
    the only text, so that no language needs a font. Differences of zero sit on the lower edge as triangles.

    Args:
        name: starts every id, so that several drawings can share a page.
        bound: drawn as a line across the differences.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    steps = range(1, len(ours) + 1)
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(5.8, 4.0), layout="constrained")
        figure.patch.set_alpha(0)
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
        for axes in (top, bottom):
            axes.patch.set_alpha(0)
            axes.grid(True)
            axes.tick_params(length=0)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        marker = "o" if len(ours) <= 50 else ""
        top.plot(
            steps,
            _finite(ours),
            color=_OURS,
            alpha=0.45,
            linewidth=6,
            solid_capstyle="round",
            marker=marker,
            markersize=7,
            markeredgewidth=0,
            gid="ours",
        )
        top.plot(
            steps,
            _finite(reference),
            color=_REFERENCE,
            linewidth=1.5,
            linestyle=(0, (4, 2)),
            marker=marker,
            markersize=2.5,
            gid="reference",
        )
        _differences(bottom, steps, differences, bound)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return _inline(buffer.getvalue(), name)


def _differences(axes: Any, steps: Sequence[int], differences: Sequence[float], bound: float) -> None:
    values = _finite(differences)
    above = [v for v in (*values, bound) if v > 0 and math.isfinite(v)] or [1.0]
    low, high = 10.0 ** math.floor(math.log10(min(above)) - 1), max(above) * 4
    zeros = [low if v == 0 else math.nan for v in values]
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda number, _: f"{number:.0e}")
    axes.minorticks_off()
    # Half a decade of room below, or the triangles would be cut by the edge.
    axes.set_ylim(low / 3, high)
    axes.plot(
        steps,
        [v or low for v in values],
        color=_DIFFERENCE,
        linewidth=1.3,
        marker="o" if len(values) <= 50 else "",
        markersize=3,
        gid="difference",
    )
    if any(v == 0 for v in values):
        axes.plot(steps, zeros, color=_DIFFERENCE, linestyle="", marker="v", markersize=6, gid="zeros")
    if bound > 0:
        axes.axhline(bound, color=_BOUND, linewidth=1.5, linestyle=(0, (1, 1.5)), gid="bound")


def _finite(values: Sequence[float]) -> list[float]:
    return [float(v) if math.isfinite(v) else math.nan for v in values]


def _inline(svg: str, name: str) -> str:
    svg = svg[svg.index("<svg") :]
    # Neither is needed inside HTML, and each names an address.
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\s+xmlns(:\w+)?="[^"]*"', "", svg).replace("xlink:href=", "href=")
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg)
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)
    for stand_in, colour in _COLOURS.items():
        svg = svg.replace(stand_in, colour)
    return svg.strip()
