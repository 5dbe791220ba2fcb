"""From an effect to a word.

PAYS, HURTS and EQUAL need at least three blocks: with two, a pair of launches that happen to agree makes a t interval
of almost no width, and one lucky launch is exactly what this must not fall for.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from controller.analysis.result import Verdict

if TYPE_CHECKING:
    from controller.analysis.paired import PairedEffect
    from controller.analysis.result import Interval

FEWEST_BLOCKS = 3
UNWIRED_LENGTH = 1.0
UNWIRED_TOLERANCE = 0.02
MOST_BLOCKS = 100


def decide(effect: PairedEffect, *, adjusted_p: float, margin: float, confidence: float) -> tuple[Verdict, str]:
    """Return the verdict and the stable word for its reason.

    Args:
        effect: The paired effect on the log scale.
        adjusted_p: Its two-sided p against the margin, Holm-adjusted over the arms.
        margin: On the log scale.
        confidence: Of the intervals; 1 - confidence is the error rate of the family of arms.
    """
    if effect.blocks == 1:
        return Verdict.UNCONFIRMED, "one_block"
    if effect.blocks < FEWEST_BLOCKS:
        return Verdict.UNDECIDED, "few_blocks"
    return against_margin(effect.interval, adjusted_p=adjusted_p, margin=margin, confidence=confidence)


def against_margin(interval: Interval, *, adjusted_p: float, margin: float, confidence: float) -> tuple[Verdict, str]:
    """Return the verdict on a difference of enough launches, and its reason; the arguments are those of ``decide``."""
    low = -math.inf if interval.low is None else interval.low
    high = math.inf if interval.high is None else interval.high
    if -margin < low and high < margin:
        return Verdict.EQUAL, "within_margin"
    if -margin <= high and low <= margin:
        return Verdict.UNDECIDED, "interval_crosses_margin"
    if adjusted_p > 1 - confidence:
        return Verdict.UNDECIDED, "several_arms"
    return (Verdict.PAYS, "above_margin") if low > margin else (Verdict.HURTS, "below_margin")


def is_unwired(length: float | None) -> bool:
    """Return whether an acceptance length says that no draft was ever accepted: a fault, not a slow configuration."""
    return length is not None and abs(length - UNWIRED_LENGTH) <= UNWIRED_TOLERANCE


def blocks_needed(effect: PairedEffect, *, margin: float) -> int | None:
    """Return how many blocks would decide with 80 % power if the effect is what it looks like; None above 100.

    n = (z_0.975 + z_0.8)^2 (sd / distance)^2, plus two for estimating sd (Lachin 1981, Controlled Clinical Trials 2).
    """
    if effect.blocks < 2:
        return None
    distance = abs(abs(effect.interval.value) - margin)
    if distance == 0:
        return None
    needed = max(FEWEST_BLOCKS, effect.blocks + 1, 2 + math.ceil(7.85 * (effect.sd / distance) ** 2))
    return needed if needed <= MOST_BLOCKS else None
