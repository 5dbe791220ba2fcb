"""Colours of charts and page.

Arms use the hues of Okabe & Ito 2008 (Color Universal Design), moved until each has a contrast of at least 3 on its
background; form and label say the same as the colour. Phases, which are ordered, use viridis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# name: (on light, on dark)
INKS: dict[str, tuple[str, str]] = {
    "paper": ("#ffffff", "#16191d"),
    "ink": ("#1b1f24", "#e8eaed"),
    "quiet": ("#57606a", "#a8b1bb"),
    "rule": ("#d8dde3", "#363c44"),
    "stripe": ("#f3f5f7", "#1f242a"),
    "arm-0": ("#3d444d", "#c9d1d9"),
    "arm-1": ("#0066b0", "#66b2ff"),
    "arm-2": ("#c24a00", "#ff9354"),
    "arm-3": ("#00795c", "#45c9a2"),
    "arm-4": ("#a63d80", "#f090cb"),
    "arm-5": ("#8a6100", "#e0b640"),
    "arm-6": ("#1a7ba6", "#7ed7ff"),
    "good": ("#00795c", "#45c9a2"),
    "bad": ("#b3261e", "#ff8a80"),
    "phase-0": ("#440154", "#8d4ba0"),
    "phase-1": ("#46327e", "#7a68c0"),
    "phase-2": ("#365c8d", "#4f83c2"),
    "phase-3": ("#277f8e", "#2f9bad"),
    "phase-4": ("#1fa187", "#1fa187"),
    "phase-5": ("#4ac16d", "#4ac16d"),
    "phase-6": ("#a0da39", "#a0da39"),
    "phase-7": ("#d9c512", "#fde725"),
}
FORMS = ("circle", "square", "triangle", "diamond")
COLOURED_ARMS = 6


def arm_styles(arms: Iterable[str], baseline: str | None) -> dict[str, tuple[str, str]]:
    """Return {arm: (ink, form)}: the same everywhere in a report, the baseline grey, more arms than colours by form."""
    styles: dict[str, tuple[str, str]] = {}
    number = 0
    for arm in arms:
        if arm == baseline:
            styles[arm] = ("arm-0", "circle")
            continue
        ink = f"arm-{number % COLOURED_ARMS + 1}"
        styles[arm] = (ink, FORMS[(number + 1 + number // COLOURED_ARMS) % len(FORMS)])
        number += 1
    return styles
