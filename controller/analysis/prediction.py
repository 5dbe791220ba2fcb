"""Whether fresh launches repeat what earlier ones promised.

After n launches a new one falls within mean +- t * s * sqrt(1 + 1/n) on the log scale (Hahn & Meeker, Statistical
Intervals, section 4.7). The best of several arms looks better than it is; only launches that took no part in the choice
are free of that.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from controller.analysis.intervals import exponential, mean_interval, t_quantile
from controller.analysis.result import Confirmation, Interval, Miss

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.analysis.points import Point


def prediction_interval(
    values: Sequence[float], *, confidence: float, fresh: int = 1, elsewhere: Sequence[Sequence[float]] = ()
) -> Interval | None:
    """Return the interval that holds ``fresh`` new values together (Bonferroni).

    Args:
        values: What was measured under the same conditions as the new values, on one host of a fleet say.
        confidence: Of the interval.
        fresh: How many new values.
        elsewhere: What was measured under others, host by host: of another mean, but equally scattered about it. A host
            with few launches borrows the scatter of all.

    Returns:
        None without a value, or when no group has two.
    """
    groups = [group for group in (values, *elsewhere) if group]
    degrees = sum(len(group) - 1 for group in groups)
    if not values or degrees < 1:
        return None
    means = [math.fsum(group) / len(group) for group in groups]
    squares = math.fsum((value - mean) ** 2 for group, mean in zip(groups, means, strict=True) for value in group)
    joint = 1 - (1 - confidence) / fresh
    half = t_quantile(joint, degrees) * math.sqrt(squares / degrees) * math.sqrt(1 + 1 / len(values))
    return Interval(means[0], means[0] - half, means[0] + half)


def allowed(expected: Interval, margin: float) -> tuple[float, float]:
    """Return the bounds of one more launch: those of its prediction, and the margin or more from the middle.

    Launches that happen to be equal to a tenth of a percent predict an interval that means nothing to anyone.

    Args:
        expected: What ``prediction_interval`` returned, on the log scale.
        margin: On the log scale; what differs by less is equal in practice.
    """
    assert expected.low is not None and expected.high is not None  # noqa: PT018, S101 - a prediction always has bounds
    return min(expected.low, expected.value - margin), max(expected.high, expected.value + margin)


def confirm(
    chosen: Sequence[Point],
    fresh: Sequence[Point],
    fresh_differences: Sequence[float],
    *,
    confidence: float,
    margin: float,
    elsewhere: Sequence[Sequence[Point]] = (),
) -> Confirmation | None:
    """Compare fresh launches of the winner with those that chose it; None without fresh launches.

    A fresh launch misses when it is outside the prediction and further than the margin from its middle.

    Args:
        chosen: Launches of the winner that took part in the choice.
        fresh: Launches of the winner that did not.
        fresh_differences: ln(speed) against the baseline of the same fresh block, where there is one.
        confidence: Of the prediction and of the interval of the speed-up.
        margin: On the log scale; what differs by less is equal in practice.
        elsewhere: Launches on other hosts, host by host, for the scatter; see ``prediction_interval``.
    """
    if not fresh:
        return None
    expected = prediction_interval(
        [point.ln_speed for point in chosen],
        confidence=confidence,
        fresh=len(fresh),
        elsewhere=[[point.ln_speed for point in points] for points in elsewhere],
    )
    misses = tuple(
        _miss(point, chosen, expected)
        for point in fresh
        if expected is not None and not _inside(point.ln_speed, *allowed(expected, margin))
    )
    speedup = exponential(mean_interval(fresh_differences, confidence)) if fresh_differences else None
    return Confirmation(
        launches=len(fresh),
        speedup=speedup,
        misses=misses,
        reproduced=expected is not None and not misses and (speedup is None or speedup.value > 1),
    )


def _inside(value: float, low: float, high: float) -> bool:
    """Return whether a value lies between two bounds, rounding forgiven."""
    slack = 1e-9 * max(1.0, abs(value))
    return low - slack <= value <= high + slack


def _miss(point: Point, chosen: Sequence[Point], expected: Interval) -> Miss:
    """Split a miss into the part that came from acceptance and the part that came from the cycle time."""
    count = len(chosen)
    length = point.ln_length - math.fsum(other.ln_length for other in chosen) / count
    cycle = point.ln_cycle - math.fsum(other.ln_cycle for other in chosen) / count
    return Miss(
        cell_id=point.launch.cell_id,
        tokens_per_s=math.exp(point.ln_speed),
        predicted=exponential(expected),
        ln_speed=point.ln_speed - expected.value,
        ln_acceptance=length,
        ln_cycle=cycle,
        larger_part="acceptance" if abs(length) >= abs(cycle) else "cycle",
    )
