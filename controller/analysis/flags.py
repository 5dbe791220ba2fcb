"""Things a reader must know before believing a figure. Launches are flagged, never dropped."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

from controller.analysis.conditions import MEMORY_GROWTH_MIB
from controller.analysis.model import Pooled
from controller.analysis.result import Flag
from controller.analysis.trend import deviations, mann_kendall_p, theil_sen_slope
from controller.analysis.verdict import is_unwired

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from controller.analysis.model import Launch
    from controller.analysis.points import Point
    from controller.analysis.result import ArmAnalysis

OUTLIER = 14.826  # median absolute deviations, ten standard deviations of a normal distribution (hyperfine's bound)
SLOW_FIRST_RUN = 1.10
HIGH_VARIATION = 0.10
DRIFT_P = 0.05
FEWEST_FOR_OUTLIERS = 4


def speculates(launch: Launch) -> bool:
    """Return whether a launch was started with speculation."""
    return launch.adaptive or bool(launch.steps)


def fault_of(points: Sequence[Point]) -> str | None:
    """Return the code of what makes an arm's figures meaningless, or None.

    One launch is enough: an arm that is sometimes wired wrongly is not the arm that was asked for.
    """
    for point in points:
        if not speculates(point.launch):
            if point.pooled.speculated:
                return "unexpected_speculation"
        elif not point.pooled.speculated:
            return "no_verify_steps"
        elif not point.launch.adaptive and is_unwired(point.pooled.acceptance_length):
            return "draft_unwired"
    return None


def fault_flags(points_by_arm: Mapping[str, Sequence[Point]], concurrency: int) -> Iterator[Flag]:
    """Yield one fault for each launch that has one."""
    for arm, points in points_by_arm.items():
        for point in points:
            if code := fault_of([point]):
                yield Flag(
                    code,
                    fault=True,
                    arm=arm,
                    cell_id=point.launch.cell_id,
                    concurrency=concurrency,
                    values={"acceptance_length": point.pooled.acceptance_length},
                )


def launch_flags(launches: Iterable[Launch]) -> Iterator[Flag]:
    """Yield what can be said of each launch alone: failures, failed requests, joined chunks, conditions."""
    for launch in launches:
        yield from _condition_flags(launch)
        if launch.failure is not None:
            yield Flag("launch_failed", arm=launch.arm, cell_id=launch.cell_id, values={"failure": launch.failure})
        failed = sum(run.failed_requests for run in launch.runs)
        done = sum(run.requests for run in launch.runs)
        if failed:
            yield Flag(
                "requests_failed",
                arm=launch.arm,
                cell_id=launch.cell_id,
                values={"failed": failed, "requests": failed + done},
            )
        joined = sum(run.joined_chunks for run in launch.runs)
        if joined * 10 > done:
            yield Flag(
                "joined_chunks", arm=launch.arm, cell_id=launch.cell_id, values={"joined": joined, "requests": done}
            )


def _condition_flags(launch: Launch) -> Iterator[Flag]:
    """Lower clocks, and others on the GPUs, while a launch was measured."""
    conditions = launch.conditions
    if conditions is None:
        return
    if reasons := conditions.throttled:
        yield Flag(
            "throttled",
            arm=launch.arm,
            cell_id=launch.cell_id,
            values={
                "reasons": ", ".join(f"{name.replace('_', ' ')} {share:.0%}" for name, share in reasons.items()),
                "sm_mhz": conditions.sm_mhz_lowest,
                "temperature_c": conditions.temperature_c,
            },
        )
    if conditions.foreign:
        yield Flag(
            "foreign_process",
            arm=launch.arm,
            cell_id=launch.cell_id,
            values={"processes": ", ".join(conditions.foreign)},
        )
    growth = conditions.memory_growth_mib
    if growth is not None and growth > MEMORY_GROWTH_MIB:
        yield Flag("foreign_memory", arm=launch.arm, cell_id=launch.cell_id, values={"growth_mib": round(growth)})


def output_flags(arms: Iterable[ArmAnalysis], concurrency: int) -> Iterator[Flag]:
    """Yield the arms whose greedy answers are not the baseline's."""
    for arm in arms:
        if arm.outputs is not None and arm.outputs.differs:
            yield Flag(
                "outputs_differ",
                arm=arm.arm,
                concurrency=concurrency,
                values={
                    "prompts": arm.outputs.prompts,
                    "with_baseline_percent": round(arm.outputs.with_baseline * 100, 1),
                    "within_baseline_percent": round(arm.outputs.within_baseline * 100, 1),
                    "p": arm.outputs.p_value,
                },
            )


def level_flags(
    points_by_arm: Mapping[str, Sequence[Point]], *, baseline: str | None, concurrency: int, margin: float
) -> Iterator[Flag]:
    """Yield what shows only in comparison: slow first runs, outliers, variation, drift, a moving baseline."""
    for arm, points in points_by_arm.items():
        yield from _slow_first_runs(arm, points, concurrency)
        yield from _outliers(arm, points, concurrency, margin)
        yield from _variation(arm, points, concurrency)
    yield from _drift(points_by_arm, concurrency, margin)
    if baseline is not None:
        yield from _moving_baseline(baseline, points_by_arm[baseline], concurrency, margin)


def _slow_first_runs(arm: str, points: Sequence[Point], concurrency: int) -> Iterator[Flag]:
    """A first run with a longer cycle than the later ones: kernels were compiled or caches filled meanwhile."""
    for point in points:
        if len(point.runs) < 2:
            continue
        first, *later = point.cycle_by_run()
        ratio = first / statistics.median(later)
        if ratio > SLOW_FIRST_RUN:
            yield Flag(
                "slow_first_run",
                arm=arm,
                cell_id=point.launch.cell_id,
                concurrency=concurrency,
                values={"cycle_ratio": ratio},
            )


def _outliers(arm: str, points: Sequence[Point], concurrency: int, margin: float) -> Iterator[Flag]:
    """Launches far from the others of the arm."""
    if len(points) < FEWEST_FOR_OUTLIERS:
        return
    speeds = [point.ln_speed for point in points]
    middle = statistics.median(speeds)
    for point, deviation in zip(points, deviations(speeds), strict=True):
        if deviation > OUTLIER and abs(point.ln_speed - middle) > margin:
            yield Flag(
                "outlier_launch",
                arm=arm,
                cell_id=point.launch.cell_id,
                concurrency=concurrency,
                values={"tokens_per_s": point.pooled.tokens_per_s, "median_tokens_per_s": math.exp(middle)},
            )


def _variation(arm: str, points: Sequence[Point], concurrency: int) -> Iterator[Flag]:
    """An arm whose launches scatter so much that its mean says little about the next one."""
    if len(points) < 2:
        return
    rates = [math.exp(point.ln_speed) for point in points]
    variation = statistics.stdev(rates) / statistics.fmean(rates)
    if variation > HIGH_VARIATION:
        yield Flag(
            "high_variation",
            arm=arm,
            concurrency=concurrency,
            values={"cv": variation, "lowest_tokens_per_s": min(rates), "highest_tokens_per_s": max(rates)},
        )


def _drift(points_by_arm: Mapping[str, Sequence[Point]], concurrency: int, margin: float) -> Iterator[Flag]:
    """A trend of the cycle time over the whole sweep, arms brought to one level first."""
    residuals: list[tuple[int, float]] = []
    for points in points_by_arm.values():
        if len(points) < 2:
            continue
        mean = math.fsum(point.ln_cycle for point in points) / len(points)
        residuals += [(point.launch.order, point.ln_cycle - mean) for point in points]
    values = [value for _, value in sorted(residuals)]
    p_value = mann_kendall_p(values)
    if p_value < DRIFT_P:
        change = theil_sen_slope(values) * (len(values) - 1)
        if abs(change) > margin:
            yield Flag("drift", concurrency=concurrency, values={"p": p_value, "cycle_ratio": math.exp(change)})


def _moving_baseline(arm: str, points: Sequence[Point], concurrency: int, margin: float) -> Iterator[Flag]:
    """A baseline that differs between blocks by more than the margin: the machine itself changed."""
    if len(points) < 2:
        return
    speeds = [point.ln_speed for point in points]
    ratio = max(speeds) - min(speeds)
    if ratio > margin:
        yield Flag(
            "baseline_moved",
            arm=arm,
            concurrency=concurrency,
            values={"lowest_tokens_per_s": math.exp(min(speeds)), "highest_tokens_per_s": math.exp(max(speeds))},
        )


def pooled_histogram_complete(points: Sequence[Point]) -> bool:
    """Return whether every verify step of an arm is in its histogram, as acceptance by position needs."""
    runs = [run for point in points for run in point.runs]
    counted = sum(sum(run.accept_histogram) for run in runs)
    return counted > 0 and abs(counted - Pooled.of(runs).verify_steps) <= len(runs)
