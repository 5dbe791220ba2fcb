"""What charts share: axes with units, tick labels, arrows for intervals that leave the axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.report.charts.scale import nice_step, spread, tick_text
from controller.report.charts.shapes import Line, Mark, Path, Shape, Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.report.charts.scale import Scale

SMALL = 12.0


def x_axis(scale: Scale, y: float, top: float, words: str, *, about: int = 6) -> list[Shape]:
    """Return a horizontal axis at ``y`` with grid lines up to ``top`` and its quantity and unit below."""
    step = nice_step(scale.high - scale.low, about)
    shapes: list[Shape] = []
    for value in scale.ticks(about):
        x = scale(value)
        shapes += [
            Line(x, top, x, y, "rule"),
            Text(x, y + 16, tick_text(value, step), "quiet", SMALL, "middle"),
        ]
    shapes.append(Line(scale.start, y, scale.end, y, "quiet"))
    shapes.append(Text((scale.start + scale.end) / 2, y + 34, words, "quiet", SMALL, "middle"))
    return shapes


def y_axis(scale: Scale, x: float, right: float, words: str, *, about: int = 5) -> list[Shape]:
    """Return a vertical axis at ``x`` with grid lines to ``right``; quantity and unit stand above it, readable."""
    step = nice_step(scale.high - scale.low, about)
    shapes: list[Shape] = []
    for value in scale.ticks(about):
        y = scale(value)
        shapes += [
            Line(x, y, right, y, "rule"),
            Text(x - 6, y + 4, tick_text(value, step), "quiet", SMALL, "end"),
        ]
    shapes.append(Line(x, scale.start, x, scale.end, "quiet"))
    shapes.append(Text(4, min(scale.start, scale.end) - 12, words, "quiet", SMALL))
    return shapes


def side_labels(
    labels: Sequence[tuple[float, tuple[str, str], str, bool]], x: float, top: float, bottom: float
) -> list[Shape]:
    """Return the names of lines at their ends, moved apart between ``top`` and ``bottom``.

    Args:
        labels: Wanted height, style (ink, form), words, and whether it is the name of an arm or a note beside it.
        x: Where the labels begin.
        top: Smallest height.
        bottom: Largest height.
    """
    shapes: list[Shape] = []
    places = spread([label[0] for label in labels], 15, top, bottom)
    for place, (_, (ink, form), words, name) in zip(places, labels, strict=True):
        shapes.append(Mark(x + 12, place, form, ink, 4))
        shapes.append(Text(x + 22, place + 4, words, "ink" if name else "quiet", SMALL, bold=name))
    return shapes


def interval_bar(scale: Scale, low: float, high: float, y: float, ink: str) -> list[Shape]:
    """Return an interval as a thick line; an arrow head says that it goes on beyond the axis."""
    left, right = scale.clip(low), scale.clip(high)
    shapes: list[Shape] = [Line(left, y, right, y, ink, 3)]
    if low < scale.low:
        shapes.append(Path(((left, y), (left + 9, y - 6), (left + 9, y + 6)), ink, filled=True))
    else:
        shapes.append(Line(left, y - 6, left, y + 6, ink, 2))
    if high > scale.high:
        shapes.append(Path(((right, y), (right - 9, y - 6), (right - 9, y + 6)), ink, filled=True))
    else:
        shapes.append(Line(right, y - 6, right, y + 6, ink, 2))
    return shapes
