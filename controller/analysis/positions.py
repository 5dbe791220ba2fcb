"""Acceptance by position, and what it predicts about other step counts.

Position rates measured at one step count are not exactly those of another, so a prediction may prune a sweep and check
a measurement; it never replaces one.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from controller.analysis.result import MarginalStep, StepPrediction

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def add_histograms(histograms: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Add histograms of accepted draft tokens, the shorter ones filled with zeros."""
    total: list[int] = []
    for histogram in histograms:
        total.extend([0] * (len(histogram) - len(total)))
        for place, count in enumerate(histogram):
            total[place] += count
    return tuple(total)


def survival(histogram: Sequence[int], steps: int | None = None) -> tuple[float, ...]:
    """Return p_1 ... p_k: the share of verify steps that accepted at least i draft tokens.

    Args:
        histogram: Element i counts the verify steps that accepted i draft tokens.
        steps: k; the histogram's own width when None. SGLang leaves out trailing zeros.
    """
    total = sum(histogram)
    width = len(histogram) - 1 if steps is None else steps
    if total == 0:
        return ()
    return tuple(sum(histogram[position:]) / total for position in range(1, width + 1))


def acceptance_by_position(rates: Sequence[float]) -> tuple[float, ...]:
    """Return alpha_i = p_i / p_(i-1): accepted at position i, given that i - 1 was; 0 where that never happened."""
    previous, result = 1.0, []
    for rate in rates:
        result.append(rate / previous if previous > 0 else 0.0)
        previous = rate
    return tuple(result)


def predicted_length(rates: Sequence[float], steps: int) -> float:
    """Return L(k) = 1 + p_1 + ... + p_k."""
    return 1.0 + math.fsum(rates[:steps])


def marginal_steps(cycles: Mapping[int, float], rates: Sequence[float]) -> tuple[MarginalStep, ...]:
    """Return, for each pair of neighbouring measured step counts, whether the longer one pays by the marginal rule.

    k -> k + 1 pays iff p_(k+1) > (C(k+1) - C(k)) * L(k) / C(k); over a wider gap, the mean p in between is compared.

    Args:
        cycles: {steps: cycle time}.
        rates: p_1 ... p_k of the largest step count.
    """
    result = []
    ordered = sorted(steps for steps in cycles if steps <= len(rates))
    for steps, following in itertools.pairwise(ordered):
        gap = following - steps
        gained = math.fsum(rates[steps:following]) / gap
        needed = (cycles[following] - cycles[steps]) * predicted_length(rates, steps) / cycles[steps] / gap
        result.append(MarginalStep(steps, following, gained, needed, gained > needed))
    return tuple(result)


def predict_steps(
    *,
    source_arm: str,
    rates: Sequence[float],
    cycles: Mapping[int, float],
    decode_s: float,
    measured: Mapping[int, float],
) -> StepPrediction | None:
    """Predict the speed-up of each step count up to the largest measured one; compare the best with the measured best.

    The cycle time between measured step counts is taken from a straight line through them: a cycle is k draft steps
    plus one verify step.

    Args:
        source_arm: Arm whose histogram gave ``rates``.
        rates: p_1 ... p_k.
        cycles: {steps: C in seconds} as measured; fewer than two step counts give no line and no prediction.
        decode_s: T1 in seconds.
        measured: {steps: speed-up} as measured.
    """
    if len(cycles) < 2 or not rates or not measured:
        return None
    slope, base = _line(cycles)
    predicted = []
    for steps in range(1, len(rates) + 1):
        cycle = cycles.get(steps, base + slope * steps)
        if cycle > 0:
            predicted.append((steps, predicted_length(rates, steps) * decode_s / cycle))
    best = max(predicted, key=lambda item: (item[1], -item[0]))
    measured_best = max(measured, key=lambda steps: (measured[steps], -steps))
    predicted_best = best[0] if best[1] > 1 else 0
    found = measured_best if measured[measured_best] > 1 else 0
    return StepPrediction(
        source_arm=source_arm,
        predicted_speedup=tuple(predicted),
        predicted_best=predicted_best,
        measured_best=found,
        agrees=predicted_best == found,
        marginal=marginal_steps(cycles, rates),
    )


def _line(points: Mapping[int, float]) -> tuple[float, float]:
    """Return slope and intercept of the least-squares line."""
    count = len(points)
    mean_x = sum(points) / count
    mean_y = math.fsum(points.values()) / count
    slope = math.fsum((x - mean_x) * (y - mean_y) for x, y in points.items()) / sum((x - mean_x) ** 2 for x in points)
    return slope, mean_y - slope * mean_x
