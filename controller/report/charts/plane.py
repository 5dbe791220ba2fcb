"""The plane of acceptance length and cycle time: above the break-even line a launch is faster than the baseline.

Every speed is a straight line through the origin here (tok/s = L / C), so a throughput alone has many readings. The
worked example of ``docs/explanation/break-even.md`` is drawn where the scale allows: 94 tok/s measured once, and the
two readings of the 60 tok/s that came after it: a lower acceptance length, or a longer cycle.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from controller.report.charts.frame import SMALL, x_axis, y_axis
from controller.report.charts.scale import Scale, span, spread
from controller.report.charts.shapes import Drawing, Line, Mark, Path, Shape, Text
from controller.report.numbers import interval, plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.analysis.result import ArmAnalysis, Interval, LaunchPoint, LevelAnalysis

LEFT, TOP, FOOT = 44.0, 34.0, 44.0


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """A place in the plane with what it means. ``cycle_s`` in seconds."""

    words: str
    length: float
    cycle_s: float
    words_below: float = 22.0  # pixels from the mark to its words, which must not meet those of its neighbours


READINGS = (
    Reading("94 tok/s, once", 2.82, 0.030, -12.0),
    Reading("60 tok/s: L fell", 1.80, 0.030, -12.0),
    Reading("60 tok/s: C grew", 2.82, 0.047),
)


def readings_fit(level: LevelAnalysis) -> bool:
    """Return whether the worked example is on the scale of this level: a decode step within half and twice 12 ms."""
    base = _baseline(level)
    return base is not None and base.cycle_s is not None and 0.006 <= base.cycle_s.value <= 0.024


def plane_chart(
    level: LevelAnalysis, styles: Mapping[str, tuple[str, str]], *, width: float, simulated: bool
) -> Drawing | None:
    """Return the plane; None without a baseline or without a launch that speculated."""
    base = _baseline(level)
    arms = [arm for arm in level.arms if any(point.acceptance_length for point in arm.points)]
    if base is None or base.cycle_s is None or not arms:
        return None
    step_s = base.cycle_s.value
    readings = READINGS if readings_fit(level) else ()
    cycles = [point.cycle_s for arm in arms for point in arm.points] + [item.cycle_s for item in readings]
    lengths = [point.acceptance_length or 1.0 for arm in arms for point in arm.points]
    lengths += [item.length for item in readings]
    height = min(460.0, width * 0.95)
    right = width - 16.0
    high_cycle = span([step_s, *cycles], margin=0.12)[1]
    x = Scale(step_s * 0.8 * 1000, high_cycle * 1000, LEFT, right)
    y = Scale(0.6, span([1.0, 1.6, *lengths], margin=0.25)[1], height - FOOT, TOP)
    suffix = ", simulated" if simulated else ""
    shapes: list[Shape] = [
        *x_axis(x, y.start, y.end, f"cycle time C, ms{suffix}", about=6 if width > 500 else 4),
        *y_axis(y, LEFT, right, "acceptance length L, tokens per verify step"),
        *_break_even(base.arm, base.cycle_s, x, y),
        *_readings(readings, x, y),
    ]
    for arm in arms:
        ink, form = styles[arm.arm]
        shapes += [
            Mark(x(point.cycle_s * 1000), y(point.acceptance_length), form, ink, 4.5, point.confirmation, _title(point))
            for point in arm.points
            if point.acceptance_length is not None
        ]
    shapes += _labels(arms, styles, x, y)
    return Drawing(
        width,
        height,
        f"Acceptance length against cycle time at concurrency {level.concurrency}{suffix}",
        f"The break-even line is L = C / {plain(step_s * 1000, 1)} ms. " + " ".join(map(_words, arms)),
        tuple(shapes),
    )


def _baseline(level: LevelAnalysis) -> ArmAnalysis | None:
    return next((arm for arm in level.arms if arm.is_baseline), None)


def _words(arm: ArmAnalysis) -> str:
    """Return where an arm lies."""
    needed = f", needs L {interval(arm.break_even_length)}" if arm.break_even_length else ""
    return f"{arm.arm}: L {interval(arm.acceptance_length)} at {interval(arm.cycle_s, 1, 1000)} ms{needed}."


def _title(point: LaunchPoint) -> str:
    return f"{point.cell_id}: L {plain(point.acceptance_length)}, C {plain(point.cycle_s * 1000, 1)} ms"


def _ray(step_s: float, x: Scale, y: Scale) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return both ends of the line L = C / step on the plane."""
    step = step_s * 1000
    low, high = max(x.low, y.low * step), min(x.high, y.high * step)
    return (x(low), y(low / step)), (x(high), y(high / step))


def _break_even(name: str, cycle: Interval, x: Scale, y: Scale) -> list[Shape]:
    """Return the break-even line, the interval of the baseline's step around it, and which side is which."""
    start, end = _ray(cycle.value, x, y)
    shapes: list[Shape] = []
    if cycle.low and cycle.high and cycle.high < 1.5 * cycle.low:
        (first, second), (third, fourth) = _ray(cycle.low, x, y), _ray(cycle.high, x, y)
        shapes.append(Path((first, second, fourth, third), "arm-0", filled=True, opacity=0.15))
    shapes.append(Line(*start, *end, "arm-0", 2))
    shapes.append(Mark(x(cycle.value * 1000), y(1.0), "circle", "arm-0", 6, title=f"{name}: one token a step"))
    shapes.append(Text(x(cycle.value * 1000) + 10, y(1.0) + 15, name, "ink", SMALL, halo=True))
    shapes.append(Text(x.start + 12, y.end + 20, "pays", "good", SMALL + 1, bold=True, halo=True))
    shapes.append(Text(x.end - 10, y.start - 14, "hurts", "bad", SMALL + 1, "end", bold=True, halo=True))
    # The name goes below the far end of the line, or left of it where the page ends.
    words = f"break-even, {1 / cycle.value:.1f} tok/s"
    if end[0] + 140 < x.end:
        shapes.append(Text(end[0] - 4, end[1] + 24, words, "ink", SMALL, halo=True))
    else:
        shapes.append(Text(end[0] - 22, end[1] + 16, words, "ink", SMALL, "end", halo=True))
    return shapes


def _readings(readings: tuple[Reading, ...], x: Scale, y: Scale) -> list[Shape]:
    """Return the readings of the worked example."""
    shapes: list[Shape] = []
    for reading in readings:
        px, py = x(reading.cycle_s * 1000), y(reading.length)
        shapes.append(Mark(px, py, "diamond", "quiet", 5, hollow=True, title=f"worked example: {reading.words}"))
        half = 3.6 * len(reading.words)
        words_x = min(max(px, x.start + half), x.end - half)
        shapes.append(Text(words_x, py + reading.words_below, reading.words, "quiet", SMALL, "middle", halo=True))
    return shapes


def _labels(arms: list[ArmAnalysis], styles: Mapping[str, tuple[str, str]], x: Scale, y: Scale) -> list[Shape]:
    """Return the names of the arms below their launches, moved apart."""
    shown = [arm for arm in arms if arm.cycle_s and arm.acceptance_length]
    wanted = [
        max(y(point.acceptance_length) for point in arm.points if point.acceptance_length is not None) + 20
        for arm in shown
    ]
    shapes: list[Shape] = []
    for arm, place in zip(shown, spread(wanted, 15, y.end + 12, y.start - 6), strict=True):
        centre = x(arm.cycle_s.value * 1000) if arm.cycle_s else x.start
        half = 3.8 * len(arm.arm)
        centre = min(max(centre, x.start + half), x.end - half)
        shapes.append(Text(centre, place, arm.arm, styles[arm.arm][0], SMALL, "middle", bold=True, halo=True))
    return shapes
