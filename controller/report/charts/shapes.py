"""The few shapes that charts are made of. Coordinates are pixels, y grows downwards; colours are names (``inks``)."""

from __future__ import annotations

import dataclasses
from typing import Literal

Anchor = Literal["start", "middle", "end"]


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """A straight line."""

    x1: float
    y1: float
    x2: float
    y2: float
    ink: str
    width: float = 1.0
    dashed: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Path:
    """A line through several points; filled and closed when ``filled``, then at ``opacity``."""

    points: tuple[tuple[float, float], ...]
    ink: str
    width: float = 1.0
    filled: bool = False
    opacity: float = 1.0


@dataclasses.dataclass(frozen=True, slots=True)
class Box:
    """A filled rectangle; ``title`` is shown on hovering."""

    x: float
    y: float
    width: float
    height: float
    ink: str
    opacity: float = 1.0
    title: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Mark:
    """One measured thing. ``form``: circle, square, triangle, diamond, cross; ``title`` is shown on hovering."""

    x: float
    y: float
    form: str
    ink: str
    size: float = 4.0
    hollow: bool = False
    title: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Text:
    """A line of text; ``y`` is its baseline. ``halo`` keeps it readable over lines."""

    x: float
    y: float
    words: str
    ink: str = "ink"
    size: float = 13.0
    anchor: Anchor = "start"
    bold: bool = False
    halo: bool = False


Shape = Line | Path | Box | Mark | Text


@dataclasses.dataclass(frozen=True, slots=True)
class Drawing:
    """A finished chart. ``title`` and ``description`` are for those who cannot see it."""

    width: float
    height: float
    title: str
    description: str
    shapes: tuple[Shape, ...]
