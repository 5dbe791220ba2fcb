"""From values to pixels, and where the ticks are."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclasses.dataclass(frozen=True, slots=True)
class Scale:
    """A linear scale: ``low`` to ``high`` are drawn from pixel ``start`` to pixel ``end``."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the pixel of a value."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def clip(self, value: float) -> float:
        """Return the pixel of a value, held inside the scale."""
        return self(min(max(value, self.low), self.high))

    def holds(self, value: float) -> bool:
        """Return whether a value lies on the scale."""
        return self.low <= value <= self.high

    def ticks(self, about: int = 5) -> list[float]:
        """Return round values on the scale, 1, 2 or 5 times a power of ten apart."""
        step = nice_step(self.high - self.low, about)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


def nice_step(span: float, about: int) -> float:
    """Return the smallest step of 1, 2 or 5 times a power of ten that needs at most ``about`` steps for ``span``."""
    rough = span / about
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= rough * (1 - 1e-9))


def span(values: Iterable[float], *, margin: float = 0.08, least: float = 0.04) -> tuple[float, float]:
    """Return a range that holds all values with room around; at least ``least`` of the middle wide."""
    kept = [value for value in values if math.isfinite(value)]
    if not kept:
        return 0.0, 1.0
    low, high = min(kept), max(kept)
    room = max((high - low) * margin, abs(high + low) / 2 * least / 2, 1e-9)
    return low - room, high + room


def tick_text(value: float, step: float) -> str:
    """Write a tick with as many decimals as its step needs."""
    decimals = max(0, -math.floor(math.log10(step) + 1e-9)) if step < 1 else 0
    return f"{value:.{decimals}f}"


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move label positions apart until neighbours are ``gap`` away, between ``low`` and ``high`` if they fit."""
    order = sorted(range(len(wanted)), key=lambda place: wanted[place])
    placed: list[float] = []
    for place in order:
        placed.append(max(wanted[place], placed[-1] + gap) if placed else max(wanted[place], low))
    ceiling = high
    for index in range(len(placed) - 1, -1, -1):
        placed[index] = min(placed[index], ceiling)
        ceiling = placed[index] - gap
    result = [0.0] * len(wanted)
    for index, place in enumerate(order):
        result[place] = placed[index]
    return result
