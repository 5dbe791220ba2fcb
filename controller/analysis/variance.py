"""Where the variance lies: between launches or within them.

Every launch of an arm runs the same prompts in the same runs, so a run's own level (its prompts) is taken out first: a
two-way layout of launches and runs without interaction (Searle, Casella & McCulloch, Variance Components, chapter 4).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from controller.analysis.result import VarianceSplit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def split_variance(launches: Sequence[Mapping[int, float]]) -> VarianceSplit | None:
    """Return the split for launches given as {run index: ln(speed)}.

    Only runs that every launch has are used. None with fewer than two launches or two such runs.
    """
    if len(launches) < 2:
        return None
    common = set(launches[0]).intersection(*launches[1:])
    if len(common) < 2:
        return None
    runs = sorted(common)
    rows = [[launch[run] for run in runs] for launch in launches]
    count, width = len(rows), len(runs)
    row_means = [math.fsum(row) / width for row in rows]
    column_means = [math.fsum(column) / count for column in zip(*rows, strict=True)]
    mean = math.fsum(row_means) / count
    between = width * math.fsum((value - mean) ** 2 for value in row_means) / (count - 1)
    residual = math.fsum(
        (value - row_mean - column_mean + mean) ** 2
        for row, row_mean in zip(rows, row_means, strict=True)
        for value, column_mean in zip(row, column_means, strict=True)
    ) / ((count - 1) * (width - 1))
    launch_variance = max(0.0, (between - residual) / width)
    total = launch_variance + residual
    return VarianceSplit(
        sd_launch=math.sqrt(launch_variance),
        sd_run=math.sqrt(residual),
        icc=launch_variance / total if total > 0 else 0.0,
        launches=count,
        runs=width,
    )
