"""Throughput by arm: every launch as a mark, the interval over launches as a bar."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from controller.report.arm_words import verdict_word
from controller.report.charts.frame import SMALL, interval_bar, x_axis
from controller.report.charts.scale import Scale, span
from controller.report.charts.shapes import Drawing, Line, Mark, Shape, Text
from controller.report.numbers import interval

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.analysis.result import ArmAnalysis, LevelAnalysis

ROW = 58.0
FOOT = 44.0
MOST_ROOM_FOR_INTERVALS = 1.0  # of the spread of the launches, on either side; a wider interval gets an arrow


def throughput_chart(
    level: LevelAnalysis, styles: Mapping[str, tuple[str, str]], *, width: float, confidence: float, simulated: bool
) -> Drawing:
    """Return decode speed of one stream by arm. The axis need not start at 0: positions are compared, not lengths."""
    rows = [arm for arm in level.arms if arm.points]
    height = ROW * max(1, len(rows)) + FOOT
    low, high = _range(rows)
    scale = Scale(low, high, 14.0, width - 14.0)
    unit = "tok/s, decode speed of one stream" + (", simulated" if simulated else "")
    shapes: list[Shape] = x_axis(scale, height - FOOT, 0, unit, about=6 if width > 500 else 4)
    base = next((arm.tokens_per_s for arm in rows if arm.is_baseline), None)
    if base is not None:
        x = scale(base.value)
        shapes.append(Line(x, 0, x, height - FOOT, "arm-0", 1, dashed=True))
    for number, arm in enumerate(rows):
        shapes += _row(arm, scale, ROW * number, styles[arm.arm])
    words = "; ".join(f"{arm.arm} {interval(arm.tokens_per_s, 1)}" for arm in rows)
    return Drawing(
        width,
        height,
        f"Throughput by arm at concurrency {level.concurrency}" + (", simulated" if simulated else ""),
        f"Tokens per second with {confidence:.0%} intervals over launches: {words}. Each mark is one launch.",
        tuple(shapes),
    )


def _range(rows: list[ArmAnalysis]) -> tuple[float, float]:
    """Return the axis: all launches, and the intervals as far as they do not squeeze the launches together."""
    speeds = [point.tokens_per_s for arm in rows for point in arm.points]
    if not speeds:
        return 0.0, 1.0
    room = max(max(speeds) - min(speeds), 0.05 * max(speeds)) * MOST_ROOM_FOR_INTERVALS
    bounds = [
        bound
        for arm in rows
        if arm.tokens_per_s
        for bound in (arm.tokens_per_s.low, arm.tokens_per_s.high)
        if bound is not None and math.isfinite(bound)
    ]
    kept = [min(max(bound, min(speeds) - room, 0.0), max(speeds) + room) for bound in bounds]
    low, high = span([*speeds, *kept])
    return max(0.0, low), high


def _row(arm: ArmAnalysis, scale: Scale, top: float, style: tuple[str, str]) -> list[Shape]:
    """Return one arm: its name and figures above, its launches, its interval below them."""
    ink, form = style
    label = f"{arm.arm}  {interval(arm.tokens_per_s, 1)}  {verdict_word(arm)}"
    shapes: list[Shape] = [
        Mark(scale.start + 5, top + 13, form, ink, 5),
        Text(scale.start + 16, top + 18, label, "ink", SMALL + 1, bold=True, halo=True),
    ]
    value = arm.tokens_per_s
    if value is not None and value.low is not None and value.high is not None:
        shapes += interval_bar(scale, value.low, value.high, top + 48, ink)
    if value is not None:
        x = scale(value.value)
        shapes.append(Line(x, top + 40, x, top + 56, ink, 3))
    for number, point in enumerate(arm.points):
        title = f"{point.cell_id}: {point.tokens_per_s:.1f} tok/s" + (f" on {point.host}" if point.host else "")
        if point.confirmation:
            title += " (confirming)"
        shapes.append(
            Mark(scale(point.tokens_per_s), top + 28 + number % 3 * 4, form, ink, 4.5, point.confirmation, title)
        )
    return shapes
