"""Shapes as PNG, for places that take no SVG. Pillow brings a font of its own, so none has to be installed."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING

from controller.report.charts.inks import INKS
from controller.report.charts.shapes import Box, Drawing, Line, Mark, Path, Text
from controller.report.charts.svg import mark_outline

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

    from controller.report.charts.shapes import Shape

SCALE = 2  # pixels of the file per pixel of the drawing
SAMPLES = 2  # drawn that much larger, then averaged: Pillow's lines have hard edges
DASH, GAP = 6.0, 4.0
ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}


def png_file(drawing: Drawing) -> bytes:
    """Return the chart as a PNG in the light colours, two pixels per unit."""
    from PIL import Image, ImageDraw  # noqa: PLC0415  # 0.1 s that only this needs

    factor = SCALE * SAMPLES
    size = (round(drawing.width * factor), round(drawing.height * factor))
    image = Image.new("RGB", size, INKS["paper"][0])
    pen = _Pen(ImageDraw.Draw(image, "RGBA"), factor)
    for shape in drawing.shapes:
        pen.draw(shape)
    out = io.BytesIO()
    image.reduce(SAMPLES).save(out, "PNG")
    return out.getvalue()


class _Pen:
    """Draws shapes on an image that is ``factor`` times as large as the drawing."""

    def __init__(self, draw: ImageDraw, factor: int) -> None:
        self._draw = draw
        self._factor = factor

    def draw(self, shape: Shape) -> None:
        """Draw one shape."""
        match shape:
            case Line():
                self._line(shape)
            case Path(filled=True):
                self._draw.polygon(self._scaled(shape.points), fill=_colour(shape.ink, shape.opacity))
            case Path():
                width = round(shape.width * self._factor)
                self._draw.line(self._scaled(shape.points), _colour(shape.ink, shape.opacity), width)
            case Box():
                corners = ((shape.x, shape.y), (shape.x + shape.width, shape.y + shape.height))
                self._draw.rectangle(self._scaled(corners), fill=_colour(shape.ink, shape.opacity))
            case Mark():
                self._mark(shape)
            case Text():
                self._text(shape)

    def _scaled(self, points: tuple[tuple[float, float], ...]) -> list[tuple[float, float]]:
        return [(x * self._factor, y * self._factor) for x, y in points]

    def _line(self, line: Line) -> None:
        width = max(1, round(line.width * self._factor))
        length = math.hypot(line.x2 - line.x1, line.y2 - line.y1)
        if not line.dashed or length == 0:
            self._draw.line(self._scaled(((line.x1, line.y1), (line.x2, line.y2))), _colour(line.ink), width)
            return
        step = DASH + GAP
        for number in range(math.ceil(length / step)):
            start, end = number * step / length, min(1.0, (number * step + DASH) / length)
            ends = tuple(
                (line.x1 + share * (line.x2 - line.x1), line.y1 + share * (line.y2 - line.y1)) for share in (start, end)
            )
            self._draw.line(self._scaled(ends), _colour(line.ink), width)

    def _mark(self, mark: Mark) -> None:
        inside, edge = ("paper", mark.ink) if mark.hollow else (mark.ink, "paper")
        width = (2 if mark.hollow else 1) * self._factor
        r = mark.size
        if mark.form == "circle":
            box = self._scaled(((mark.x - r, mark.y - r), (mark.x + r, mark.y + r)))
            self._draw.ellipse(box, _colour(inside), _colour(edge), width)
        elif mark.form == "cross":
            for rise in (r, -r):
                ends = self._scaled(((mark.x - r, mark.y - rise), (mark.x + r, mark.y + rise)))
                self._draw.line(ends, _colour(mark.ink), round(2.5 * self._factor))
        else:
            self._draw.polygon(self._scaled(mark_outline(mark)), _colour(inside), _colour(edge), width)

    def _text(self, text: Text) -> None:
        from PIL import ImageFont  # noqa: PLC0415

        font = ImageFont.load_default(text.size * self._factor)
        place = (text.x * self._factor, text.y * self._factor)
        stroke = 0.4 * self._factor if text.bold else 0
        if text.halo:
            self._draw.text(
                place, text.words, _colour("paper"), font, ANCHORS[text.anchor],
                stroke_width=2 * self._factor, stroke_fill=_colour("paper"),
            )  # fmt: skip
        ink = _colour(text.ink)
        self._draw.text(place, text.words, ink, font, ANCHORS[text.anchor], stroke_width=stroke, stroke_fill=ink)


def _colour(ink: str, opacity: float = 1.0) -> tuple[int, int, int, int]:
    """Return an ink on light paper as red, green, blue, alpha."""
    digits = INKS[ink][0]
    red, green, blue = (int(digits[place : place + 2], 16) for place in (1, 3, 5))
    return red, green, blue, round(opacity * 255)
