"""Two sweeps of the same arms: what changed from the first to the second, and through which part.

Blocks of different sweeps are no pairs, so launches are compared as two independent samples of ln(speed). Reference:
Welch 1947, Biometrika 34 (means of samples with different variances; degrees of freedom after Satterthwaite 1946).
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from controller.analysis.flags import fault_of
from controller.analysis.intervals import exponential, mean_and_error, t_quantile
from controller.analysis.paired import holm, one_sided
from controller.analysis.points import points_at
from controller.analysis.result import Interval, Verdict
from controller.analysis.verdict import FEWEST_BLOCKS, against_margin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.analysis.model import Launch
    from controller.analysis.points import Point

FEWEST_LAUNCHES = FEWEST_BLOCKS  # two launches that happen to agree make an interval of almost no width


@dataclasses.dataclass(frozen=True, slots=True)
class Welch:
    """Difference of two means, second minus first, on the log scale."""

    interval: Interval
    error: float
    degrees: float


@dataclasses.dataclass(frozen=True, slots=True)
class ArmChange:
    """One arm at one concurrency in two sweeps.

    Attributes:
        arm: Name of the arm in both sweeps.
        concurrency: Requests in flight.
        launches: Launches that measured something, in the first and in the second sweep.
        tokens_per_s: Geometric mean over launches in each.
        speed: Ratio of the speeds, second to first.
        length: Ratio of the acceptance lengths; None when the arm does not speculate.
        cycle: Ratio of the cycle times. speed = length / cycle, up to rounding.
        verdict: PAYS: the second is faster by more than the margin; HURTS: slower; EQUAL, UNDECIDED, UNCONFIRMED (one
            launch on a side), INVALID (a fault on a side), FAILED (no measurement on a side).
        reason: Stable word for why.
        p_value: Two-sided, against the margin, Holm-adjusted over the arms of the level.
        larger_part: "acceptance" or "cycle": what moved the speed more; None when nothing is known.
    """

    arm: str
    concurrency: int
    launches: tuple[int, int]
    tokens_per_s: tuple[float | None, float | None]
    speed: Interval | None
    length: Interval | None
    cycle: Interval | None
    verdict: Verdict
    reason: str
    p_value: float | None
    larger_part: str | None


def welch(first: Sequence[float], second: Sequence[float], confidence: float) -> Welch:
    """Return mean(second) - mean(first) with Welch's t interval; without bounds when a side has one value."""
    mean_first, error_first = mean_and_error(first)
    mean_second, error_second = mean_and_error(second)
    change = mean_second - mean_first
    if len(first) < 2 or len(second) < 2:
        return Welch(Interval(change), 0.0, 0.0)
    error = math.hypot(error_first, error_second)
    if error == 0:
        return Welch(Interval(change, change, change), 0.0, float(len(first) + len(second) - 2))
    share = error_first**4 / (len(first) - 1) + error_second**4 / (len(second) - 1)
    degrees = error**4 / share
    half = t_quantile(confidence, degrees) * error
    return Welch(Interval(change, change - half, change + half), error, degrees)


def compare_sweeps(
    first: Sequence[Launch], second: Sequence[Launch], *, margin: float, confidence: float
) -> tuple[ArmChange, ...]:
    """Compare every arm that both sweeps have, at every concurrency that both have.

    All launches take part, confirming ones too: both sides are described, none is chosen.

    Args:
        first: Launches of the first sweep, A.
        second: Launches of the second sweep, B.
        margin: Relative difference that matters.
        confidence: Of the intervals; its complement is the error rate of the arms of a level together.
    """
    ordered = sorted(first, key=lambda launch: (launch.adaptive, launch.steps or 0, launch.arm))
    arms = list(dict.fromkeys(launch.arm for launch in ordered))  # no speculation first, then by steps
    common = [arm for arm in arms if any(launch.arm == arm for launch in second)]
    levels = sorted(_levels(first) & _levels(second))
    return tuple(
        change
        for concurrency in levels
        for change in _level(points_at(first, concurrency), points_at(second, concurrency), common, concurrency,
                             margin=math.log1p(margin), confidence=confidence)
    )  # fmt: skip


def _levels(launches: Sequence[Launch]) -> set[int]:
    return {run.concurrency for launch in launches for run in launch.runs}


def _level(
    first: Sequence[Point],
    second: Sequence[Point],
    arms: Sequence[str],
    concurrency: int,
    *,
    margin: float,
    confidence: float,
) -> list[ArmChange]:
    """Compare the arms of one concurrency; their p values are adjusted together."""
    sides = {arm: (_of(first, arm), _of(second, arm)) for arm in arms}
    effects = {
        arm: welch([point.ln_speed for point in ours], [point.ln_speed for point in theirs], confidence)
        for arm, (ours, theirs) in sides.items()
        if ours and theirs and not fault_of(ours) and not fault_of(theirs)
    }
    testable = [arm for arm, effect in effects.items() if effect.interval.low is not None]
    p_values = dict(zip(testable, holm([_p_outside(effects[arm], margin) for arm in testable]), strict=True))
    return [
        _change(arm, concurrency, sides[arm], effects.get(arm), p_values.get(arm), margin=margin, confidence=confidence)
        for arm in arms
    ]


def _of(points: Sequence[Point], arm: str) -> list[Point]:
    return [point for point in points if point.launch.arm == arm]


def _p_outside(effect: Welch, margin: float) -> float:
    """Return the two-sided p that the change is not beyond the margin on either side."""
    return min(1.0, 2 * one_sided(abs(effect.interval.value) - margin, effect.error, effect.degrees))


def _change(
    arm: str,
    concurrency: int,
    sides: tuple[list[Point], list[Point]],
    effect: Welch | None,
    p_value: float | None,
    *,
    margin: float,
    confidence: float,
) -> ArmChange:
    """Return one arm's change."""
    verdict, reason = _verdict(sides, effect, p_value, margin=margin, confidence=confidence)
    length = cycle = None
    if effect is not None:
        cycle = _part(sides, "ln_cycle", confidence)
        if all(point.pooled.speculated for side in sides for point in side):
            length = _part(sides, "ln_length", confidence)
    return ArmChange(
        arm=arm,
        concurrency=concurrency,
        launches=(len(sides[0]), len(sides[1])),
        tokens_per_s=(_mean_speed(sides[0]), _mean_speed(sides[1])),
        speed=exponential(effect.interval) if effect else None,
        length=exponential(length) if length else None,
        cycle=exponential(cycle) if cycle else None,
        verdict=verdict,
        reason=reason,
        p_value=p_value,
        larger_part=_larger_part(length, cycle),
    )


def _part(sides: tuple[list[Point], list[Point]], name: str, confidence: float) -> Interval:
    first, second = ([float(getattr(point, name)) for point in side] for side in sides)
    return welch(first, second, confidence).interval


def _larger_part(length: Interval | None, cycle: Interval | None) -> str | None:
    if cycle is None:
        return None
    return "acceptance" if length is not None and abs(length.value) >= abs(cycle.value) else "cycle"


def _mean_speed(points: Sequence[Point]) -> float | None:
    return math.exp(mean_and_error([point.ln_speed for point in points])[0]) if points else None


def _verdict(
    sides: tuple[list[Point], list[Point]],
    effect: Welch | None,
    p_value: float | None,
    *,
    margin: float,
    confidence: float,
) -> tuple[Verdict, str]:
    """Return the verdict and its reason: faults, what is missing, then the statistics, as within a sweep."""
    fewest = min(map(len, sides))
    if any(fault_of(side) for side in sides):
        return Verdict.INVALID, "fault"
    if effect is None:
        return Verdict.FAILED, "no_launch"
    if fewest == 1:
        return Verdict.UNCONFIRMED, "one_launch"
    if fewest < FEWEST_LAUNCHES:
        return Verdict.UNDECIDED, "few_launches"
    adjusted_p = 1.0 if p_value is None else p_value
    return against_margin(effect.interval, adjusted_p=adjusted_p, margin=margin, confidence=confidence)
