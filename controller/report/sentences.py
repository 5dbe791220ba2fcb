"""The analysis in plain sentences: faults first, then which arm to use, each arm, what is uncertain, warnings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.analysis.result import RecommendationStatus, Verdict
from controller.report.flag_words import flag_sentence
from controller.report.numbers import change, change_interval, interval, plain, times

if TYPE_CHECKING:
    from controller.analysis.breakeven import Breakeven
    from controller.analysis.result import ArmAnalysis, LevelAnalysis, Miss, Recommendation, SweepAnalysis

SIMULATED = "These figures are simulated: they come from a stand-in server, not from GPUs."

REASONS = {
    "few_blocks": "two blocks are too few, three are the least",
    "few_launches": "two launches on a side are too few, three are the least",
    "interval_crosses_margin": "the interval reaches over the margin",
    "several_arms": "the difference does not stand up to having looked at several arms",
    "no_baseline": "there is no baseline to compare with",
    "no_common_block": "no block has both this arm and the baseline",
}
"""Why a verdict, within a sweep or between two, is UNDECIDED."""
PARTS = {"acceptance": "acceptance length", "cycle": "cycle time"}
"""The two parts of a speed."""


def sweep_sentences(analysis: SweepAnalysis) -> list[str]:
    """Return every sentence of the report in the order in which it should be read."""
    lines = [SIMULATED] if analysis.simulated else []
    lines += [f"FAULT {flag_sentence(flag)}" for flag in analysis.faults]
    lines += [sentence for sentence in (margin_sentence(analysis), looks_sentence(analysis)) if sentence]
    several = len(analysis.levels) > 1
    for level in analysis.levels:
        place = f"Concurrency {level.concurrency}: " if several else ""
        lines += [place + sentence for sentence in level_sentences(level, analysis.margin)]
    if warmup := warmup_sentence(analysis):
        lines.append(warmup)
    lines += [f"Warning: {flag_sentence(flag)}" for flag in analysis.flags if not flag.fault]
    return lines


def margin_sentence(analysis: SweepAnalysis) -> str | None:
    """Return where the margin comes from when a noise floor is known."""
    if analysis.aa_noise is None:
        return None
    source = f" ({analysis.aa_source})" if analysis.aa_source else ""
    larger = "is the margin" if analysis.aa_noise >= analysis.margin else "is less than the margin"
    return f"Two equal arms differ by up to {analysis.aa_noise:.1%} on this node{source}: that {larger}."


def looks_sentence(analysis: SweepAnalysis) -> str | None:
    """Return what the stop rule does to the verdicts; None without one."""
    if analysis.looks < 2 or analysis.verdict_confidence is None:
        return None
    return (
        f"The stop rule may look at the verdicts {analysis.looks} times, so each is given at "
        f"{analysis.verdict_confidence:.1%}, and so are the intervals of the speed-up."
    )


def warmup_sentence(analysis: SweepAnalysis) -> str | None:
    """Return what was asked before the runs and left out."""
    points = [point for level in analysis.levels for arm in level.arms for point in arm.points]
    requests = sum(point.warmup_requests for point in points)
    if not requests:
        return None
    speeds = [point.warmup_tokens_per_s for point in points if point.warmup_tokens_per_s is not None]
    seen = f" ({plain(min(speeds), 1)} to {plain(max(speeds), 1)} tok/s)" if speeds else ""
    return f"Left out of every figure: {times(requests, 'warm-up request')}{seen}."


def level_sentences(level: LevelAnalysis, margin: float) -> list[str]:
    """Return the sentences of one concurrency."""
    lines = [recommendation_sentence(level)]
    for arm in level.arms:
        if arm.verdict is not None:
            lines.append(verdict_sentence(arm, margin))
            lines += [sentence for sentence in (break_even_sentence(arm), variance_sentence(arm)) if sentence]
    lines += hosts_sentences(level)
    if (prediction := level.step_prediction) is not None:
        best = f"{prediction.predicted_best} steps" if prediction.predicted_best else "no speculation"
        found = f"{prediction.measured_best} steps" if prediction.measured_best else "no speculation"
        agreement = "which agrees with" if prediction.agrees else "while the measurement says otherwise:"
        lines.append(
            f"Acceptance by position of {prediction.source_arm} predicts {best} as the fastest, {agreement} {found} "
            "as measured. A prediction from another step count can prune a sweep; it is no evidence."
        )
    return lines


def hosts_sentences(level: LevelAnalysis) -> list[str]:
    """Return how the hosts of a fleet differ; none when there is only one."""
    split = level.hosts
    if split is None:
        return []
    each = ", ".join(f"{one.host} {change(one.level.value)} ({times(one.blocks, 'block')})" for one in split.hosts)
    lines = [f"Speed of the hosts against their mean: {each}. It cancels in every comparison, which is within a host."]
    if split.sd_host is not None and split.sd_block is not None:
        lines.append(
            f"Hosts vary by {plain(split.sd_host * 100, 1)} %, blocks of one host by {plain(split.sd_block * 100, 1)} "
            f"% (p = {plain(split.p_value, 3)} for equal hosts)."
        )
    for arm in split.arms:
        known = f" (p = {plain(arm.p_value, 3)} for the same on all)" if arm.p_value is not None else ""
        by_host = ", ".join(f"{host} {change(speedup.value)}" for host, speedup in arm.by_host)
        lines.append(f"{arm.arm} by host: {by_host}{known}.")
    lines.append("Warnings about scatter, drift and outliers give speeds as if all hosts were as fast as their mean.")
    return lines


def recommendation_sentence(level: LevelAnalysis) -> str:
    """Return which arm to use, and how sure that is."""
    choice = level.recommendation
    match choice.status:
        case RecommendationStatus.NONE:
            if level.baseline is None:
                return "No recommendation: without a baseline nothing says whether speculation pays."
            if not any(arm.adaptive or arm.steps is not None for arm in level.arms):
                return "No recommendation: no arm speculates."
            return "No recommendation: no arm gave figures that can be used."
        case RecommendationStatus.BASELINE:
            return f"Use {choice.arm}: speculation does not pay at any step count measured."
        case RecommendationStatus.UNDECIDED:
            return f"Keep {choice.arm} for now: no arm is shown to pay, and at least one is not decided yet."
        case _:
            return _winner_sentence(choice)


def _winner_sentence(choice: Recommendation) -> str:
    """Return the sentence about a winner."""
    gain = change_interval(choice.speedup) if choice.speedup else "-"
    ties = f" It ties with {', '.join(choice.tied_with)}; fewer steps win a tie." if choice.tied_with else ""
    if choice.confirmation is None:
        return (
            f"{choice.arm} is the winner so far with {gain}, UNCONFIRMED: the launches that chose it cannot also "
            f"prove it. Measure it and the baseline on fresh launches.{ties}"
        )
    launches = times(choice.confirmation.launches, "fresh launch")
    if choice.status is RecommendationStatus.CONFIRMED:
        fresh = choice.confirmation.speedup
        again = f", which gave {change_interval(fresh)}" if fresh else ""
        return f"Use {choice.arm}: {gain}, confirmed on {launches}{again}.{ties}"
    misses = " ".join(miss_sentence(miss) for miss in choice.confirmation.misses)
    reason = misses or "Its fresh launches are not faster than their baseline."
    return f"{choice.arm} won with {gain} but was NOT REPRODUCED on {launches}; do not rely on it. {reason}{ties}"


def miss_sentence(miss: Miss) -> str:
    """Return where a fresh launch should have been, and which part moved."""
    low, high = plain(miss.predicted.low, 1), plain(miss.predicted.high, 1)
    return (
        f"Cell {miss.cell_id} ran at {plain(miss.tokens_per_s, 1)} tok/s, outside [{low}, {high}]: "
        f"ln(speed) moved by {miss.ln_speed:+.3f} = {miss.ln_acceptance:+.3f} (acceptance length) "
        f"{-miss.ln_cycle:+.3f} (cycle time); the larger part is the {PARTS[miss.larger_part]}."
    )


def verdict_sentence(arm: ArmAnalysis, margin: float) -> str:
    """Return an arm's verdict in words."""
    gain = change_interval(arm.speedup) if arm.speedup else "-"
    over = f"{gain} over {times(arm.blocks, 'block')}"
    limit = f"{margin * 100:.1f} %"
    words = {
        Verdict.PAYS: f"PAYS: {over}, all of it above the margin of {limit}.",
        Verdict.HURTS: f"HURTS: {over}, all of it below the margin of -{limit}.",
        Verdict.EQUAL: f"is EQUAL to the baseline: {over}, within the margin of {limit}.",
        Verdict.UNCONFIRMED: (
            f"is UNCONFIRMED: {gain} in one block. Launches of one configuration can differ more than configurations "
            "do; run at least 3 blocks."
        ),
        Verdict.INVALID: "is INVALID and not ranked: see the faults above.",
        Verdict.FAILED: f"FAILED: {times(arm.failed_launches, 'launch')}, no measurement.",
    }
    if arm.verdict in words:
        return f"{arm.arm} {words[arm.verdict]}"
    more = f" About {arm.blocks_needed} blocks should decide." if arm.blocks_needed else ""
    seen = f" ({over})" if arm.speedup else ""
    return f"{arm.arm} is UNDECIDED{seen}: {REASONS.get(arm.reason, arm.reason)}.{more}"


def break_even_sentence(arm: ArmAnalysis) -> str | None:
    """Return what the arm needs and what it has; None when that is not known."""
    needed, length = arm.break_even_length, arm.acceptance_length
    if needed is None or length is None:
        return None
    start = f"{arm.arm} needs L >= {interval(needed)} to break even; measured {interval(length)}"
    if arm.steps is None or arm.can_pay is None:
        return f"{start}."
    if not arm.can_pay or arm.needed_acceptance is None:
        most = f"with {times(arm.steps, 'step')} L is at most {arm.steps + 1}"
        return f"{start}: {most}, so it cannot pay at any acceptance."
    rates = ", ".join(plain(rate, 3) for rate in arm.acceptance_by_position)
    positions = f" (by position {rates})" if rates else ""
    who = "its one step" if arm.steps == 1 else f"every step of {arm.steps}"
    return (
        f"{start}: {who} must be accepted with >= {plain(arm.needed_acceptance, 3)} on average; "
        f"measured {plain(arm.measured_acceptance, 3)}{positions}."
    )


def variance_sentence(arm: ArmAnalysis) -> str | None:
    """Return where the uncertainty comes from; None when it cannot be said."""
    split = arm.variance
    if split is None or (split.sd_launch == 0 and split.sd_run == 0):
        return None
    advice = "more launches help, more runs per launch do not" if split.icc > 0.5 else "more runs per launch help too"
    return (
        f"{arm.arm} varies by {plain(split.sd_launch * 100, 1)} % between launches and "
        f"{plain(split.sd_run * 100, 1)} % between runs of a launch: {advice}."
    )


def breakeven_sentences(result: Breakeven) -> list[str]:
    """Return the break-even of two times in sentences."""
    first_line = (
        f"At {result.decode_ms:g} ms a decode step and {result.cycle_ms:g} ms a cycle, speculation pays when a cycle "
        f"yields more than L* = {plain(result.break_even_length)} tokens."
    )
    lines = [first_line]
    impossible = [str(step.steps) for step in result.steps if not step.can_pay]
    possible = [step for step in result.steps if step.can_pay]
    if impossible:
        plural = "step" if impossible == ["1"] else "steps"
        lines.append(f"With {', '.join(impossible)} {plural} it cannot pay at any acceptance: L is at most steps + 1.")
    if possible:
        first = possible[0]
        lines.append(
            f"With {times(first.steps, 'step')} every draft token must be accepted with at least "
            f"{plain(first.needed_acceptance, 3)} on average."
        )
    lines.append("The cycle time is held here; it grows with the steps, so measure it for each step count.")
    return lines
