"""How numbers are written: three or four digits, the interval in brackets, percent for ratios near one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controller.analysis.result import Interval

WIDE = 1e6


def plain(value: float | None, digits: int = 2) -> str:
    """Return a number with fixed digits, or a dash."""
    if value is None:
        return "-"
    if not math.isfinite(value) or abs(value) >= WIDE:
        return "unbounded"
    return f"{value:.{digits}f}"


def interval(value: Interval | None, digits: int = 2, scale: float = 1.0) -> str:
    """Return ``1.80 [1.75, 1.86]``; without bounds the value alone; a dash for nothing."""
    if value is None:
        return "-"
    text = plain(value.value * scale, digits)
    if value.low is None or value.high is None:
        return text
    return f"{text} [{plain(value.low * scale, digits)}, {plain(value.high * scale, digits)}]"


def change(ratio: float) -> str:
    """Return a ratio as a signed percentage: 1.15 is ``+15.0 %``."""
    return f"{(ratio - 1) * 100:+.1f} %" if math.isfinite(ratio) and ratio < WIDE else "unbounded"


def change_interval(value: Interval) -> str:
    """Return ``+15.0 % [+12.1 %, +18.0 %]``."""
    if value.low is None or value.high is None:
        return change(value.value)
    return f"{change(value.value)} [{change(value.low)}, {change(value.high)}]"


def times(count: int, noun: str) -> str:
    """Return ``1 launch`` or ``3 launches``."""
    plural = noun + ("es" if noun.endswith(("ch", "s")) else "s")
    return f"{count} {noun if count == 1 else plural}"
