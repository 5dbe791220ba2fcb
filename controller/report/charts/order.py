"""Launches in the order in which they happened: drift, warming up, and a machine that changed show here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.report.charts.frame import side_labels, x_axis, y_axis
from controller.report.charts.scale import Scale, span
from controller.report.charts.shapes import Box, Drawing, Mark, Path, Shape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controller.analysis.result import LaunchPoint, LevelAnalysis
    from controller.report.facts import CellFacts

LEFT, TOP, FOOT, LABELS = 48.0, 34.0, 44.0, 96.0


def order_chart(
    level: LevelAnalysis,
    cells: Sequence[CellFacts],
    styles: Mapping[str, tuple[str, str]],
    *,
    width: float,
    simulated: bool,
) -> Drawing | None:
    """Return the chart with blocks as stripes; None when nothing was measured. Failed launches are crosses below."""
    points = [(arm.arm, point) for arm in level.arms for point in arm.points]
    if not points:
        return None
    height = min(340.0, width * 0.85)
    right = width - LABELS
    last = max([point.order for _, point in points] + [cell.order for cell in cells])
    x = Scale(0.4, last + 1.6, LEFT, right)
    y = Scale(*span([point.tokens_per_s for _, point in points], margin=0.12), height - FOOT, TOP)
    suffix = ", simulated" if simulated else ""
    shapes: list[Shape] = list(_stripes(cells, x, y))
    shapes += x_axis(x, y.start, y.start, f"launch, in order (stripes: blocks){suffix}", about=min(6, last + 1))
    shapes += y_axis(y, LEFT, right, "tok/s of one stream")
    ends: list[tuple[float, tuple[str, str], str, bool]] = []
    for arm in level.arms:
        if not arm.points:
            continue
        ink, form = styles[arm.arm]
        ordered: list[LaunchPoint] = sorted(arm.points, key=lambda point: point.order)
        places = tuple((x(point.order + 1), y(point.tokens_per_s)) for point in ordered)
        shapes.append(Path(places, ink, 1.5, opacity=0.6))
        shapes += [
            Mark(*place, form, ink, 4.5, point.confirmation, f"{point.cell_id}: {point.tokens_per_s:.1f} tok/s")
            for place, point in zip(places, ordered, strict=True)
        ]
        ends.append((places[-1][1], (ink, form), arm.arm, True))
    shapes += [
        Mark(x(cell.order + 1), y.start - 9, "cross", "bad", 4.5, title=f"{cell.cell_id} failed: {cell.failure_class}")
        for cell in cells
        if cell.failure_class
    ]
    shapes += side_labels(ends, right, TOP, y.start)
    failed = [cell.cell_id for cell in cells if cell.failure_class]
    return Drawing(
        width,
        height,
        f"Launch order and drift at concurrency {level.concurrency}{suffix}",
        f"{len(points)} measured launches over {len({cell.block for cell in cells})} blocks; "
        + (f"failed: {', '.join(failed)}." if failed else "none failed."),
        tuple(shapes),
    )


def _stripes(cells: Sequence[CellFacts], x: Scale, y: Scale) -> list[Shape]:
    """Return every second block as a stripe."""
    blocks: dict[int, list[int]] = {}
    for cell in cells:
        blocks.setdefault(cell.block, []).append(cell.order)
    return [
        Box(x(min(orders) + 0.5), y.end, x(max(orders) + 1.5) - x(min(orders) + 0.5), y.start - y.end, "stripe")
        for number, orders in enumerate(blocks.values())
        if number % 2 == 0
    ]
