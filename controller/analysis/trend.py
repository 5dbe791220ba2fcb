"""Outliers and trends that do not assume a distribution.

References: Iglewicz & Hoaglin 1993, How to Detect and Handle Outliers (modified z); Mann 1945 and Kendall 1975 (trend
test); Theil 1950 and Sen 1968, Journal of the American Statistical Association 63 (slope).
"""

from __future__ import annotations

import bisect
import functools
import math
import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

LARGEST_EXACT = 10
LARGEST_SLOPE_SAMPLE = 400  # 400 values already give 80,000 pairs


def deviations(values: Sequence[float]) -> list[float]:
    """Return |value - median| in units of the median absolute deviation; all 0 when more than half of them agree."""
    middle = statistics.median(values)
    distances = [abs(value - middle) for value in values]
    scale = statistics.median(distances)
    return [distance / scale if scale > 0 else 0.0 for distance in distances]


def mann_kendall_p(values: Sequence[float]) -> float:
    """Return the two-sided p of no monotone trend in values given in order of time.

    Exact up to 10 values, then the normal limit with continuity correction; ties count as half.
    """
    count = len(values)
    if count < 3:
        return 1.0
    score = 0
    seen: list[float] = []
    for value in values:
        score += bisect.bisect_left(seen, value) - (len(seen) - bisect.bisect_right(seen, value))
        bisect.insort(seen, value)
    if count <= LARGEST_EXACT:
        # score = pairs - 2 * inversions; both tails, |score| at least as large.
        pairs = count * (count - 1) // 2
        inversions = (pairs - abs(score)) // 2
        return min(1.0, 2 * sum(_inversion_counts(count)[: inversions + 1]) / math.factorial(count))
    spread = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    return math.erfc(max(0, abs(score) - 1) / spread / math.sqrt(2))


@functools.cache
def _inversion_counts(count: int) -> tuple[int, ...]:
    """Return how many orders of ``count`` values have 0, 1, 2, ... inversions."""
    counts = [1]
    for size in range(2, count + 1):
        longer = [0] * (len(counts) + size - 1)
        for inversions, orders in enumerate(counts):
            for extra in range(size):
                longer[inversions + extra] += orders
        counts = longer
    return tuple(counts)


def theil_sen_slope(values: Sequence[float]) -> float:
    """Return the median slope per place over all pairs (of at most 400 evenly spaced values)."""
    stride = max(1, math.ceil(len(values) / LARGEST_SLOPE_SAMPLE))
    sample = values[::stride]
    slopes = [
        (sample[later] - sample[earlier]) / (later - earlier)
        for earlier in range(len(sample))
        for later in range(earlier + 1, len(sample))
    ]
    return statistics.median(slopes) / stride if slopes else 0.0
