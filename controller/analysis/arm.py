"""One arm at one concurrency: its figures, and its verdict against the baseline."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from controller.analysis.breakeven import can_pay, equal_acceptance
from controller.analysis.flags import fault_of, pooled_histogram_complete, speculates
from controller.analysis.intervals import exponential, jackknife_ratio, mean_interval
from controller.analysis.outputs import output_agreement
from controller.analysis.paired import PairedEffect, holm, paired_effect
from controller.analysis.positions import acceptance_by_position, add_histograms, survival
from controller.analysis.result import ArmAnalysis, Interval, Quantiles, Verdict
from controller.analysis.variance import split_variance
from controller.analysis.verdict import blocks_needed, decide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from controller.analysis.model import Launch
    from controller.analysis.points import Point
    from controller.analysis.result import OutputAgreement

NO_MORE_BLOCKS = frozenset({Verdict.PAYS, Verdict.HURTS, Verdict.EQUAL})


@dataclasses.dataclass(frozen=True, slots=True)
class ArmData:
    """The launches of one arm: all of them, and the points of those that measured something, split by purpose."""

    name: str
    launches: tuple[Launch, ...]
    chosen: tuple[Point, ...]
    fresh: tuple[Point, ...]

    @property
    def steps(self) -> int | None:
        """speculative-num-steps; None without speculation."""
        return self.launches[0].steps if speculates(self.launches[0]) else None

    @property
    def fault(self) -> str | None:
        """What makes the figures meaningless."""
        return fault_of(self.chosen + self.fresh)


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """What all arms of a level share."""

    baseline: ArmData | None
    level_fault: str | None
    margin: float  # on the log scale
    confidence: float
    verdict_confidence: float  # higher when the stop rule may look more than once


def by_block(points: Iterable[Point], value: Callable[[Point], float]) -> dict[int, float]:
    """Return the mean of ``value`` for each block."""
    blocks: dict[int, list[float]] = {}
    for point in points:
        blocks.setdefault(point.launch.block, []).append(value(point))
    return {block: math.fsum(values) / len(values) for block, values in blocks.items()}


def differences(points: Iterable[Point], baseline: Iterable[Point], value: Callable[[Point], float]) -> list[float]:
    """Return arm minus baseline for each block that has both, in the order of the blocks."""
    ours, theirs = by_block(points, value), by_block(baseline, value)
    return [ours[block] - theirs[block] for block in sorted(ours.keys() & theirs.keys())]


def analyse_arms(arms: Sequence[ArmData], shared: Comparison) -> tuple[ArmAnalysis, ...]:
    """Return every arm with its verdict; the p values are adjusted over the arms that can have one."""
    effects: dict[str, PairedEffect] = {}
    for arm in arms:
        base = shared.baseline
        if base is None or arm is base or arm.fault or shared.level_fault:
            continue
        gaps = differences(arm.chosen, base.chosen, lambda point: point.ln_speed)
        if gaps:
            effects[arm.name] = paired_effect(gaps, margin=shared.margin, confidence=shared.verdict_confidence)
    testable = [name for name, effect in effects.items() if effect.blocks > 1]
    adjusted = dict(zip(testable, holm([effects[name].p_outside for name in testable]), strict=True))
    return tuple(_analyse_arm(arm, shared, effects.get(arm.name), adjusted.get(arm.name)) for arm in arms)


def _analyse_arm(
    arm: ArmData, shared: Comparison, effect: PairedEffect | None, adjusted_p: float | None
) -> ArmAnalysis:
    verdict, reason = _verdict(arm, shared, effect, adjusted_p)
    length = _length(arm.chosen, shared.confidence)
    needed = _break_even(arm, shared)
    adaptive = arm.launches[0].adaptive
    steps = None if adaptive else arm.steps  # an adaptive server leaves the number it was started with
    undecided = effect is not None and verdict not in NO_MORE_BLOCKS
    return ArmAnalysis(
        arm=arm.name,
        steps=arm.steps,
        adaptive=adaptive,
        is_baseline=arm is shared.baseline,
        launches=len(arm.chosen),
        failed_launches=sum(1 for launch in arm.launches if launch.failure is not None),
        blocks=effect.blocks if effect else 0,
        tokens_per_s=_ratio(arm.chosen, lambda p: p.completion_tokens - p.requests, lambda p: p.decode_s, shared),
        output_tokens_per_s=_ratio(arm.chosen, lambda p: p.completion_tokens, lambda p: p.wall_s, shared),
        acceptance_length=length,
        cycle_s=_ratio(
            arm.chosen,
            lambda p: p.decode_s,
            lambda p: p.verify_steps if p.speculated else p.completion_tokens - p.requests,
            shared,
        ),
        speedup=exponential(effect.interval) if effect else None,
        break_even_length=needed,
        can_pay=None if needed is None or steps is None else can_pay(needed.value, steps),
        needed_acceptance=None if needed is None or steps is None else equal_acceptance(needed.value, steps),
        measured_acceptance=None if length is None or steps is None else equal_acceptance(length.value, steps),
        acceptance_by_position=acceptance_by_position(position_rates(arm)),
        verdict=verdict,
        reason=reason,
        p_value=adjusted_p,
        sign_flip_p=effect.sign_flip_p if effect else None,
        blocks_needed=blocks_needed(effect, margin=shared.margin) if effect and undecided else None,
        variance=split_variance([point.speed_by_run() for point in arm.chosen]),
        ttft=_quantiles(time for point in arm.chosen for run in point.runs for time in run.ttft_s),
        chunk_gap=_quantiles(time for point in arm.chosen for run in point.runs for time in run.chunk_gap_s),
        points=tuple(point.shown() for point in (*arm.chosen, *arm.fresh)),
        outputs=_outputs(arm, shared),
    )


def _verdict(
    arm: ArmData, shared: Comparison, effect: PairedEffect | None, adjusted_p: float | None
) -> tuple[Verdict | None, str]:
    """Return the verdict and its reason: faults first, then what is missing, then the statistics."""
    if fault := arm.fault or shared.level_fault:
        return Verdict.INVALID, fault
    if not arm.chosen:
        return Verdict.FAILED, "no_launch"
    if arm is shared.baseline:
        return None, "baseline"
    if shared.baseline is None or not shared.baseline.chosen:
        return Verdict.UNDECIDED, "no_baseline"
    if effect is None:
        return Verdict.UNDECIDED, "no_common_block"
    return decide(
        effect,
        adjusted_p=1.0 if adjusted_p is None else adjusted_p,
        margin=shared.margin,
        confidence=shared.verdict_confidence,
    )


def _outputs(arm: ArmData, shared: Comparison) -> OutputAgreement | None:
    """Return whether the answers are the baseline's."""
    base = shared.baseline
    if base is None or arm is base:
        return None
    return output_agreement(arm.chosen + arm.fresh, base.chosen + base.fresh)


def position_rates(arm: ArmData) -> tuple[float, ...]:
    """Return p_1 ... p_k of an arm; empty when the server did not report every verify step."""
    if arm.steps is None or not pooled_histogram_complete(arm.chosen):
        return ()
    histogram = add_histograms(run.accept_histogram for point in arm.chosen for run in point.runs)
    return survival(histogram, None if arm.launches[0].adaptive else max(arm.steps, len(histogram) - 1))


def _break_even(arm: ArmData, shared: Comparison) -> Interval | None:
    """Return L* = C / T1 over the blocks that have both."""
    if shared.baseline is None or arm is shared.baseline or shared.level_fault:
        return None
    if not all(point.pooled.speculated for point in arm.chosen):
        return None
    ratios = differences(arm.chosen, shared.baseline.chosen, lambda point: point.ln_cycle)
    return exponential(mean_interval(ratios, shared.confidence)) if ratios else None


def _length(points: Sequence[Point], confidence: float) -> Interval | None:
    """Return L with its interval; None when a launch did not speculate."""
    if not points or not all(point.pooled.speculated for point in points):
        return None
    return jackknife_ratio(
        [point.pooled.completion_tokens - point.pooled.requests for point in points],
        [point.pooled.verify_steps for point in points],
        confidence,
    )


def _ratio(
    points: Sequence[Point], top: Callable[..., float], bottom: Callable[..., float], shared: Comparison
) -> Interval | None:
    """Return a ratio of sums over launches with its interval."""
    if not points:
        return None
    return jackknife_ratio(
        [top(point.pooled) for point in points], [bottom(point.pooled) for point in points], shared.confidence
    )


def _quantiles(values: Iterable[float]) -> Quantiles | None:
    """Return nearest-rank quantiles."""
    ordered = sorted(values)
    if not ordered:
        return None
    ranks = [ordered[max(0, math.ceil(share * len(ordered)) - 1)] for share in (0.5, 0.9, 0.99)]
    return Quantiles(len(ordered), *ranks)
