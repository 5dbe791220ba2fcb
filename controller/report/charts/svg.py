"""Shapes as SVG: inside a page with the page's colours (CSS variables), or as a file of its own with fixed ones."""

from __future__ import annotations

import dataclasses
from html import escape
from typing import TYPE_CHECKING

from controller.report.charts.inks import INKS
from controller.report.charts.shapes import Box, Drawing, Line, Mark, Path, Shape, Text

if TYPE_CHECKING:
    from collections.abc import Callable

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


def inline_svg(drawing: Drawing, css_class: str = "", *, titles: bool = True) -> str:
    """Return the chart as an element for a page that defines ``--paper``, ``--ink``, ``--arm-1`` and so on.

    ``titles=False`` leaves out what is shown on hovering, which a phone cannot do.
    """
    shapes = drawing.shapes if titles else tuple(map(_untitled, drawing.shapes))
    opening = (
        f'<svg class="{escape(css_class)}" role="img" viewBox="0 0 {_n(drawing.width)} {_n(drawing.height)}" '
        f'aria-label="{escape(f"{drawing.title}. {drawing.description}")}">'
    )
    return opening + "".join(_shape(shape, lambda ink: f"var(--{ink})") for shape in shapes) + "</svg>"


def svg_file(drawing: Drawing) -> str:
    """Return the chart as a whole SVG file in the light colours."""
    body = "\n".join(_shape(shape, lambda ink: INKS[ink][0]) for shape in drawing.shapes)
    width, height = _n(drawing.width), _n(drawing.height)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" font-family="{FONT}">\n<title>{escape(drawing.title)}</title>\n'
        f"<desc>{escape(drawing.description)}</desc>\n"
        f'<rect width="100%" height="100%" fill="{INKS["paper"][0]}"/>\n{body}\n</svg>\n'
    )


def _untitled(shape: Shape) -> Shape:
    return dataclasses.replace(shape, title="") if isinstance(shape, Mark | Box) and shape.title else shape


def _n(value: float) -> str:
    """Return a coordinate with one decimal at most."""
    return f"{value:.1f}".removesuffix(".0")


def _points(points: tuple[tuple[float, float], ...]) -> str:
    return " ".join(f"{_n(x)},{_n(y)}" for x, y in points)


def _title(words: str) -> str:
    return f"<title>{escape(words)}</title>" if words else ""


def _shape(shape: Shape, colour: Callable[[str], str]) -> str:
    """Return one shape."""
    ink = colour(shape.ink)
    match shape:
        case Line():
            dash = ' stroke-dasharray="6 4"' if shape.dashed else ""
            return (
                f'<line x1="{_n(shape.x1)}" y1="{_n(shape.y1)}" x2="{_n(shape.x2)}" y2="{_n(shape.y2)}" '
                f'stroke="{ink}" stroke-width="{_n(shape.width)}"{dash}/>'
            )
        case Path(filled=True):
            return f'<polygon points="{_points(shape.points)}" fill="{ink}" fill-opacity="{shape.opacity:g}"/>'
        case Path():
            return (
                f'<polyline points="{_points(shape.points)}" fill="none" stroke="{ink}" '
                f'stroke-width="{_n(shape.width)}" stroke-opacity="{shape.opacity:g}"/>'
            )
        case Box():
            return (
                f'<rect x="{_n(shape.x)}" y="{_n(shape.y)}" width="{_n(shape.width)}" height="{_n(shape.height)}" '
                f'fill="{ink}" fill-opacity="{shape.opacity:g}">{_title(shape.title)}</rect>'
            )
        case Mark():
            return _mark(shape, ink, colour("paper"))
        case Text():
            halo = f' stroke="{colour("paper")}" stroke-width="4" paint-order="stroke"' if shape.halo else ""
            bold = ' font-weight="600"' if shape.bold else ""
            return (
                f'<text x="{_n(shape.x)}" y="{_n(shape.y)}" fill="{ink}" font-size="{_n(shape.size)}" '
                f'text-anchor="{shape.anchor}"{bold}{halo}>{escape(shape.words)}</text>'
            )


def mark_outline(mark: Mark) -> tuple[tuple[float, float], ...]:
    """Return the corners of a mark that is not round."""
    x, y, r = mark.x, mark.y, mark.size
    match mark.form:
        case "square":
            s = r * 0.9
            return ((x - s, y - s), (x + s, y - s), (x + s, y + s), (x - s, y + s))
        case "triangle":
            return ((x, y - r * 1.2), (x + r * 1.1, y + r * 0.8), (x - r * 1.1, y + r * 0.8))
        case _:
            return ((x, y - r * 1.3), (x + r * 1.3, y), (x, y + r * 1.3), (x - r * 1.3, y))


def _mark(mark: Mark, ink: str, paper: str) -> str:
    """Return a mark; hollow ones are outlines, filled ones have a thin edge so that overlaps can be told apart."""
    title = _title(mark.title)
    paint = f'fill="{paper}" stroke="{ink}" stroke-width="2"' if mark.hollow else f'fill="{ink}" stroke="{paper}"'
    if mark.form == "circle":
        return f'<circle cx="{_n(mark.x)}" cy="{_n(mark.y)}" r="{_n(mark.size)}" {paint}>{title}</circle>'
    if mark.form == "cross":
        left, right, top, bottom = (
            _n(value) for value in (mark.x - mark.size, mark.x + mark.size, mark.y - mark.size, mark.y + mark.size)
        )
        return (
            f'<path d="M{left} {top}L{right} {bottom}M{left} {bottom}L{right} {top}" '
            f'stroke="{ink}" stroke-width="2.5">{title}</path>'
        )
    return f'<polygon points="{_points(mark_outline(mark))}" {paint}>{title}</polygon>'
