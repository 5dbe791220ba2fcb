"""The whole analysis of a sweep: launches in, ``SweepAnalysis`` out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from controller.analysis.arm import ArmData, Comparison, analyse_arms, differences, position_rates
from controller.analysis.flags import fault_flags, launch_flags, level_flags, output_flags, speculates
from controller.analysis.hosts import at_one_level, host_flags, split_hosts
from controller.analysis.intervals import mean_interval
from controller.analysis.points import points_at
from controller.analysis.positions import predict_steps
from controller.analysis.recommend import recommend
from controller.analysis.result import Flag, LevelAnalysis, StepPrediction, SweepAnalysis
from controller.analysis.stopping import look_confidence

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from controller.analysis.model import Launch
    from controller.analysis.result import ArmAnalysis

USUAL_BASELINE = "baseline"


def analyse(
    launches: Iterable[Launch],
    *,
    margin: float = 0.02,
    aa_noise: float | None = None,
    aa_source: str = "",
    confidence: float = 0.95,
    looks: int = 1,
    baseline: str | None = None,
) -> SweepAnalysis:
    """Analyse the launches of a sweep.

    Args:
        launches: In any order; failed ones included, so that they are reported.
        margin: Relative difference that matters; the verdicts use the larger of this and ``aa_noise``.
        aa_noise: What ``aa_noise`` measured on this machine, as a relative difference.
        aa_source: Where that noise comes from, in words.
        confidence: Of all intervals; its complement is the error rate of the verdicts of a level together.
        looks: How often the stop rule may look at the verdicts (``stopping``); they share the error rate.
        baseline: Arm to compare with. By default the arm called "baseline", else the first without speculation.

    Raises:
        ValueError: margin, noise or confidence are out of range.
    """
    if not 0 < margin < 1 or not 0 <= (aa_noise or 0.0) < 1:
        message = f"The margin is {margin} and the A/A noise {aa_noise}; expected relative differences between 0 and 1."
        raise ValueError(message)
    if not 0.5 <= confidence < 1:
        message = f"The confidence is {confidence}; expected at least 0.5 and less than 1 (0.95 is usual)."
        raise ValueError(message)
    verdict_confidence = look_confidence(confidence, looks)
    ordered = sorted(launches, key=lambda launch: (launch.order, launch.block, launch.cell_id))
    used_margin = max(margin, aa_noise or 0.0)
    mixed = len({launch.simulated for launch in ordered if launch.failure is None}) > 1
    name = _baseline_name(ordered, baseline)
    flags = [Flag("mixed_simulated", fault=True)] if mixed else []
    if name is None:
        flags.append(Flag("no_baseline", values={"asked_for": baseline}))
    flags += launch_flags(ordered)
    levels = []
    for concurrency in sorted({run.concurrency for launch in ordered for run in launch.runs}) or [1]:
        level, found = _analyse_level(
            ordered,
            concurrency,
            baseline=name,
            margin=math.log1p(used_margin),
            confidence=confidence,
            verdict_confidence=verdict_confidence,
            level_fault="mixed_simulated" if mixed else None,
        )
        levels.append(level)
        flags += found
    failed = sum(1 for launch in ordered if launch.failure is not None)
    return SweepAnalysis(
        simulated=any(launch.simulated for launch in ordered),
        margin=used_margin,
        confidence=confidence,
        aa_noise=aa_noise,
        launches=len(ordered) - failed,
        failed_launches=failed,
        levels=tuple(levels),
        flags=tuple(sorted(flags, key=lambda flag: not flag.fault)),
        aa_source=aa_source,
        looks=looks,
        verdict_confidence=verdict_confidence,
    )


def aa_noise(
    launches: Iterable[Launch], first: str, second: str, *, concurrency: int | None = None, confidence: float = 0.95
) -> float | None:
    """Return the noise floor from two arms with the same settings: the margin at which they just count as equal.

    Args:
        launches: Launches of an A/A sweep.
        first: One arm.
        second: The other.
        concurrency: Level to look at; the largest noise of all levels by default.
        confidence: Of the interval.

    Returns:
        A relative difference (0.013 for 1.3 %), or None when fewer than two blocks have both arms.
    """
    everything = [launch for launch in launches if not launch.confirmation]
    levels = {run.concurrency for launch in everything for run in launch.runs} if concurrency is None else {concurrency}
    found = []
    for level in levels:
        points = points_at(everything, level)
        gaps = differences(
            [point for point in points if point.launch.arm == second],
            [point for point in points if point.launch.arm == first],
            lambda point: point.ln_speed,
        )
        if len(gaps) > 1:
            interval = mean_interval(gaps, confidence)
            found.append(max(abs(interval.low or 0.0), abs(interval.high or 0.0)))
    return math.expm1(max(found)) if found else None


def _baseline_name(launches: Sequence[Launch], asked_for: str | None) -> str | None:
    """Return the arm to compare with; None when there is none."""
    names = {launch.arm for launch in launches}
    if asked_for is not None:
        return asked_for if asked_for in names else None
    plain = {launch.arm for launch in launches if not speculates(launch)}
    return USUAL_BASELINE if USUAL_BASELINE in plain else min(plain, default=None)


def _analyse_level(
    launches: Sequence[Launch],
    concurrency: int,
    *,
    baseline: str | None,
    margin: float,
    confidence: float,
    verdict_confidence: float,
    level_fault: str | None,
) -> tuple[LevelAnalysis, list[Flag]]:
    """Analyse one concurrency."""
    arms = _arms(launches, concurrency, baseline)
    data = {arm.name: arm for arm in arms}
    base = data.get(baseline) if baseline is not None else None
    if base is not None and base.fault and level_fault is None:
        level_fault = "baseline_speculates"
    shared = Comparison(base, level_fault, margin, confidence, verdict_confidence)
    analysed = analyse_arms(arms, shared)
    chosen = {arm.name: arm.chosen for arm in arms}
    hosts = split_hosts(chosen, base.name if base else None, confidence)
    flags = [
        *fault_flags({arm.name: arm.chosen + arm.fresh for arm in arms}, concurrency),
        *level_flags(at_one_level(chosen), baseline=baseline if base else None, concurrency=concurrency, margin=margin),
        *host_flags(hosts, concurrency),
        *output_flags(analysed, concurrency),
    ]
    level = LevelAnalysis(
        concurrency=concurrency,
        baseline=base.name if base else None,
        arms=analysed,
        recommendation=recommend(analysed, data, base, margin=margin, confidence=confidence),
        step_prediction=_prediction(arms, analysed),
        hosts=hosts,
    )
    return level, flags


def _arms(launches: Sequence[Launch], concurrency: int, baseline: str | None) -> list[ArmData]:
    """Group launches by arm: the baseline first, then by steps."""
    points = points_at(launches, concurrency)
    groups: dict[str, list[Launch]] = {}
    for launch in launches:
        groups.setdefault(launch.arm, []).append(launch)
    measured: dict[str, tuple[list, list]] = {name: ([], []) for name in groups}  # type: ignore[type-arg]
    for point in points:
        measured[point.launch.arm][point.launch.confirmation].append(point)
    arms = [
        ArmData(name, tuple(members), tuple(measured[name][0]), tuple(measured[name][1]))
        for name, members in groups.items()
    ]
    return sorted(arms, key=lambda arm: (arm.name != baseline, arm.launches[0].adaptive, arm.steps or 0, arm.name))


def _prediction(arms: Sequence[ArmData], analysed: Sequence[ArmAnalysis]) -> StepPrediction | None:
    """Predict from the arm with the most steps whose histogram is complete."""
    base = next((arm for arm in analysed if arm.is_baseline and arm.cycle_s is not None), None)
    usable = [
        (arm, result)
        for arm, result in zip(arms, analysed, strict=True)
        if result.steps and not result.adaptive and result.speedup is not None and result.cycle_s is not None
    ]
    sources = [(result.steps or 0, arm.name, rates) for arm, result in usable if (rates := position_rates(arm))]
    if base is None or base.cycle_s is None or not sources:
        return None
    _, source, rates = max(sources)
    return predict_steps(
        source_arm=source,
        rates=rates,
        cycles={result.steps: result.cycle_s.value for _, result in usable if result.steps and result.cycle_s},
        decode_s=base.cycle_s.value,
        measured={result.steps: result.speedup.value for _, result in usable if result.steps and result.speedup},
    )
