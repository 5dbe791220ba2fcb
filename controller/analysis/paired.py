"""The effect of an arm: differences of ln(speed) to the baseline of the same block.

A block is one launch of every arm, so that what changes slowly (temperature, other work on the host) changes both sides
of a difference. References: Student 1908; Fisher 1935, The Design of Experiments (sign-flip test); Holm 1979,
Scandinavian Journal of Statistics 6.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING

from controller.analysis.intervals import mean_and_error, mean_interval, t_tail

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.analysis.result import Interval

LARGEST_EXACT = 12  # 2^12 sign patterns; above that the normal limit is as good


@dataclasses.dataclass(frozen=True, slots=True)
class PairedEffect:
    """Effect on the log scale.

    Attributes:
        blocks: Number of differences.
        interval: Mean difference with its t interval.
        sd: Standard deviation of the differences; 0 for one.
        p_above: One-sided p that the effect is not above +margin.
        p_below: One-sided p that the effect is not below -margin.
        sign_flip_p: Two-sided p of the sign-flip test against no effect.
    """

    blocks: int
    interval: Interval
    sd: float
    p_above: float
    p_below: float
    sign_flip_p: float

    @property
    def p_outside(self) -> float:
        """Two-sided p against the margin: small when the effect is beyond it on either side."""
        return min(1.0, 2 * min(self.p_above, self.p_below))


def paired_effect(differences: Sequence[float], *, margin: float, confidence: float) -> PairedEffect:
    """Return the effect behind differences of ln(speed), one a block; ``margin`` is on the log scale too."""
    count = len(differences)
    mean, error = mean_and_error(differences)
    return PairedEffect(
        blocks=count,
        interval=mean_interval(differences, confidence),
        sd=error * math.sqrt(count),
        p_above=one_sided(mean - margin, error, count - 1),
        p_below=one_sided(-margin - mean, error, count - 1),
        sign_flip_p=sign_flip_p(differences),
    )


def one_sided(distance: float, error: float, degrees: float) -> float:
    """Return the one-sided p of a mean at ``distance`` beyond a bound; 1 without a degree of freedom."""
    if degrees <= 0:
        return 1.0
    if error == 0:
        return 0.0 if distance > 0 else 1.0
    return t_tail(distance / error, degrees)


def sign_flip_p(differences: Sequence[float]) -> float:
    """Return the two-sided p of the sign-flip test: how often signs at random give a sum as far from 0.

    Exact up to 12 blocks (the smallest p possible is 2 / 2^blocks: 0.0625 for 5, 0.031 for 6), then the normal limit.
    """
    observed = abs(math.fsum(differences))
    if len(differences) > LARGEST_EXACT:
        spread = math.sqrt(math.fsum(value * value for value in differences))
        return math.erfc(observed / spread / math.sqrt(2)) if spread else 1.0
    # Half of the patterns is enough: the other half mirrors it.
    first, rest = differences[0], differences[1:]
    sums = [first]
    for value in rest:
        sums = list(itertools.chain.from_iterable((total + value, total - value) for total in sums))
    tolerance = 1e-9 * math.fsum(map(abs, differences))  # sums of the same numbers in another order differ by rounding
    return sum(1 for total in sums if abs(total) >= observed - tolerance) / len(sums)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm-adjusted p values in the order given: compared with alpha, the family errs with at most alpha."""
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted
