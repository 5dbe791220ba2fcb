"""Acceptance by position: how often a draft token is accepted, given that all before it were."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.report.charts.frame import SMALL, side_labels, y_axis
from controller.report.charts.scale import Scale
from controller.report.charts.shapes import Drawing, Line, Mark, Path, Shape, Text
from controller.report.numbers import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.analysis.result import ArmAnalysis, LevelAnalysis

LEFT, TOP, FOOT, LABELS = 40.0, 34.0, 44.0, 118.0


def positions_chart(
    level: LevelAnalysis, styles: Mapping[str, tuple[str, str]], *, width: float, simulated: bool
) -> Drawing | None:
    """Return the chart; None when no arm reported positions. The axis is the whole range of a share, 0 to 1."""
    arms = [arm for arm in level.arms if arm.acceptance_by_position]
    if not arms:
        return None
    most = max(len(arm.acceptance_by_position) for arm in arms)
    height = min(360.0, width * 0.9)
    right = width - LABELS
    x = Scale(0.6, most + 0.4, LEFT, right)
    y = Scale(0.0, 1.0, height - FOOT, TOP)
    suffix = ", simulated" if simulated else ""
    shapes: list[Shape] = [*y_axis(y, LEFT, right, "share accepted, given that all before were")]
    shapes += [
        Text(x(position), y.start + 16, str(position), "quiet", SMALL, "middle") for position in range(1, most + 1)
    ]
    shapes.append(Line(LEFT, y.start, right, y.start, "quiet"))
    shapes.append(
        Text((LEFT + right) / 2, y.start + 34, f"position of the draft token{suffix}", "quiet", SMALL, "middle")
    )
    labels: list[tuple[float, tuple[str, str], str, bool]] = []
    for arm in arms:
        style = styles[arm.arm]
        shapes += _arm(arm, style, x, y)
        labels.append((y(arm.acceptance_by_position[-1]), style, arm.arm, True))
        if arm.needed_acceptance is not None:
            labels.append((y(arm.needed_acceptance), style, f"needs {plain(arm.needed_acceptance)}", False))
    shapes += side_labels(labels, right, TOP, y.start)
    return Drawing(
        width,
        height,
        f"Acceptance by position at concurrency {level.concurrency}{suffix}",
        "Pooled over launches, no interval. " + " ".join(map(_words, arms)),
        tuple(shapes),
    )


def _words(arm: ArmAnalysis) -> str:
    rates = ", ".join(plain(rate, 3) for rate in arm.acceptance_by_position)
    needed = (
        f", each needs {plain(arm.needed_acceptance, 3)} to break even" if arm.needed_acceptance is not None else ""
    )
    return f"{arm.arm}: {rates}{needed}."


def _arm(arm: ArmAnalysis, style: tuple[str, str], x: Scale, y: Scale) -> list[Shape]:
    """Return an arm's rates, and as a dashed line the equal acceptance that it needs."""
    ink, form = style
    points = tuple((x(place), y(rate)) for place, rate in enumerate(arm.acceptance_by_position, start=1))
    shapes: list[Shape] = [Path(points, ink, 2)]
    shapes += [
        Mark(*point, form, ink, 5, title=f"{arm.arm}, position {place}: {rate:.3f}")
        for place, (point, rate) in enumerate(zip(points, arm.acceptance_by_position, strict=True), start=1)
    ]
    if arm.needed_acceptance is not None:
        needed = y(arm.needed_acceptance)
        end = x(len(arm.acceptance_by_position) + 0.4)
        shapes.append(Line(x.start, needed, end, needed, ink, 1.5, dashed=True))
    return shapes
