"""What each launch spent its start on: one bar a launch, one part a phase; medians by arm when there are many."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.sglang_log import PHASES

from controller.report.charts.frame import SMALL, x_axis
from controller.report.charts.scale import Scale
from controller.report.charts.shapes import Box, Drawing, Mark, Shape, Text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controller.report.facts import CellFacts

START_PHASES = PHASES[:-1]
"""Serving is no part of the start."""
MOST_BARS = 40
ROW, FOOT, LABEL = 22.0, 44.0, 118.0


def phases_chart(cells: Sequence[CellFacts], styles: Mapping[str, tuple[str, str]], *, width: float) -> Drawing | None:
    """Return the timeline; None when no launch told its phases."""
    told = [cell for cell in cells if cell.phase_seconds]
    if not told:
        return None
    single = len(told) <= MOST_BARS
    bars = [(cell.cell_id, cell.arm, cell.phase_seconds) for cell in told] if single else _medians(told)
    used = [name for name in START_PHASES if any(name in seconds for _, _, seconds in bars)]
    legend, top = _legend(used, width)
    height = top + ROW * len(bars) + FOOT
    longest = max(sum(seconds.values()) for _, _, seconds in bars)
    x = Scale(0.0, max(longest * 1.05, 1e-3), LABEL, width - 16)
    shapes: list[Shape] = [*legend]
    shapes += x_axis(x, height - FOOT, top, "seconds since the process started", about=6 if width > 500 else 4)
    for number, (label, arm, seconds) in enumerate(bars):
        y = top + ROW * number
        ink, form = styles[arm]
        shapes += [Mark(8, y + 11, form, ink, 4), Text(18, y + 15, _short(label), "ink", SMALL)]
        begin = 0.0
        for name in used:
            length = seconds.get(name, 0.0)
            if length > 0:
                words = f"{label}: {name.replace('_', ' ')} {length:.1f} s"
                shapes.append(Box(x(begin), y + 3, max(0.5, x(length) - x(0) - 1), ROW - 6, _ink(name), title=words))
            begin += length
    kind = "each launch" if single else "the median of each arm"
    return Drawing(
        width,
        height,
        f"Phases of {kind}",
        f"Start-up of {kind} in seconds: "
        + "; ".join(f"{label} {sum(seconds.values()):.1f}" for label, _, seconds in bars)
        + ".",
        tuple(shapes),
    )


def _medians(cells: Sequence[CellFacts]) -> list[tuple[str, str, dict[str, float]]]:
    """Return the median of each phase by arm."""
    arms: dict[str, list[CellFacts]] = {}
    for cell in cells:
        arms.setdefault(cell.arm, []).append(cell)
    return [
        (
            f"{arm} ({len(members)})",
            arm,
            {name: statistics.median(cell.phase_seconds.get(name, 0.0) for cell in members) for name in START_PHASES},
        )
        for arm, members in arms.items()
    ]


def _ink(phase: str) -> str:
    return f"phase-{START_PHASES.index(phase)}"


def _short(label: str) -> str:
    """Return a label that fits beside the bars."""
    return label if len(label) <= 16 else label[:15] + "…"


def _legend(used: Sequence[str], width: float) -> tuple[list[Shape], float]:
    """Return the phases with their colours, wrapped to the width, and where the bars may start."""
    shapes: list[Shape] = []
    x, y = 4.0, 6.0
    for name in used:
        words = name.replace("_", " ")
        needed = 22 + 7.0 * len(words)
        if x + needed > width and x > 4:
            x, y = 4.0, y + 20
        shapes += [Box(x, y, 12, 12, _ink(name)), Text(x + 17, y + 11, words, "ink", SMALL)]
        x += needed + 8
    return shapes, y + 26
