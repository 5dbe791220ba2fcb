"""The thresholds of the role ``monitoring``, as variables for the inventory: what a fresh launch should not stay under.

The lower end of a prediction interval over the launches of one arm, not of the confidence interval of their mean: about
half of all healthy launches lie below the latter's end before long. A bound is never nearer to the mean than the
margin: at temperature 0 the launches of a sweep often have one acceptance length to the last digit.
The speed is end to end, all requests together, which is what the server's own gauge comes closest to.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from controller.analysis.prediction import allowed, prediction_interval
from controller.analysis.result import WITHOUT_FIGURES
from controller.exits import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.analysis.result import ArmAnalysis, LevelAnalysis, SweepAnalysis

FEWEST_LAUNCHES = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Bounds:
    """Low bounds of one arm at one concurrency; no acceptance length without speculation."""

    arm: str
    concurrency: int
    launches: int
    confidence: float
    simulated: bool
    acceptance_length: float | None
    tokens_per_s: float


def monitoring_bounds(analysis: SweepAnalysis | None, arm: str | None = None) -> Bounds:
    """Return the bounds of an arm, the recommended one by default, at the lowest concurrency that was measured.

    Raises:
        InputError: no arm can be named, its figures mean nothing, or it has too few launches.
    """
    if analysis is None or not analysis.levels:
        raise InputError("nothing has been measured in this sweep yet; there are no thresholds to take from it.")
    level = min(analysis.levels, key=lambda candidate: candidate.concurrency)
    chosen = _arm(level, arm)
    points = chosen.points
    if len(points) < FEWEST_LAUNCHES:
        raise InputError(
            f"arm {chosen.arm} has {len(points)} launches; at least {FEWEST_LAUNCHES} are needed to say what a fresh "
            "one does: sweep with more blocks."
        )
    lengths = [point.acceptance_length for point in points if point.acceptance_length is not None]
    return Bounds(
        arm=chosen.arm,
        concurrency=level.concurrency,
        launches=len(points),
        confidence=analysis.confidence,
        simulated=analysis.simulated,
        acceptance_length=_low(lengths, analysis) if len(lengths) == len(points) else None,
        tokens_per_s=_low([point.output_tokens_per_s for point in points], analysis),
    )


def monitoring_yaml(bounds: Bounds, sweep_id: str) -> str:
    """Return the variables as YAML, with where they come from."""
    above = 50 + 50 * bounds.confidence
    simulated = " These figures are simulated: of no use for a real server." if bounds.simulated else ""
    length = "null" if bounds.acceptance_length is None else f"{_down(bounds.acceptance_length, 3)}"
    return "\n".join(
        [
            f"# Sweep {sweep_id}, arm {bounds.arm}, concurrency {bounds.concurrency}, {bounds.launches} launches.",
            f"# A fresh launch with the same prompts stays above each bound with {above:g} % confidence.{simulated}",
            f"monitoring_acceptance_length_low: {length}",
            f"monitoring_throughput_low: {_down(bounds.tokens_per_s, 1)}",
            f"monitoring_throughput_concurrency: {bounds.concurrency}",
        ]
    )


def _arm(level: LevelAnalysis, name: str | None) -> ArmAnalysis:
    wanted = name or level.recommendation.arm
    known = ", ".join(arm.arm for arm in level.arms)
    if wanted is None:
        raise InputError(f"the sweep recommends no arm; name the one that you serve with --arm ({known}).")
    try:
        found = level.arm(wanted)
    except KeyError:
        raise InputError(
            f"--arm {wanted}: the sweep has no such arm at concurrency {level.concurrency} ({known})."
        ) from None
    if found.verdict in WITHOUT_FIGURES:
        raise InputError(f"arm {wanted} is {found.verdict} ({found.reason}): its figures are no thresholds.")
    return found


def _low(values: Sequence[float], analysis: SweepAnalysis) -> float:
    """Return the lower end for one fresh launch, on the log scale as everywhere, the margin or more below the mean."""
    interval = prediction_interval([math.log(value) for value in values], confidence=analysis.confidence)
    assert interval is not None  # noqa: S101 - there are enough launches
    low, _high = allowed(interval, math.log1p(analysis.margin))
    return math.exp(low)


def _down(value: float, digits: int) -> float:
    """Round down: a threshold must not creep into the interval."""
    return float(math.floor(value * 10**digits) / 10**digits)
