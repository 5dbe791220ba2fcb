"""What an analysis says: frozen values only, with one JSON form. Times in seconds, rates in tokens per second."""

from __future__ import annotations

import dataclasses
import enum
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.analysis.conditions import Conditions

SCHEMA = 1


class Verdict(enum.StrEnum):
    """Answer for one arm against the baseline of the same blocks."""

    PAYS = "PAYS"  # the whole interval lies above +margin
    HURTS = "HURTS"  # the whole interval lies below -margin
    EQUAL = "EQUAL"  # the whole interval lies within +-margin
    UNDECIDED = "UNDECIDED"  # the interval reaches over a margin: more blocks are needed
    UNCONFIRMED = "UNCONFIRMED"  # one launch only: no interval, no claim
    INVALID = "INVALID"  # a fault makes the figures meaningless (draft model not wired)
    FAILED = "FAILED"  # no launch of the arm completed


WITHOUT_FIGURES = frozenset({Verdict.INVALID, Verdict.FAILED})
"""Verdicts on an arm whose figures are missing or mean nothing."""


class RecommendationStatus(enum.StrEnum):
    """How much stands behind a recommendation."""

    CONFIRMED = "CONFIRMED"  # the winner was reproduced on fresh launches
    UNCONFIRMED = "UNCONFIRMED"  # the winner was only seen in the launches that chose it
    NOT_REPRODUCED = "NOT_REPRODUCED"  # fresh launches contradict the choice
    BASELINE = "BASELINE"  # speculation does not pay at any measured step count
    UNDECIDED = "UNDECIDED"  # nothing pays yet, something still may
    NONE = "NONE"  # nothing can be recommended (no baseline, nothing valid)


@dataclasses.dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its confidence interval; ``low`` and ``high`` are None when one launch is all there is."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Quantiles:
    """Quantiles of a time in seconds over requests."""

    count: int
    p50_s: float
    p90_s: float
    p99_s: float


@dataclasses.dataclass(frozen=True, slots=True)
class Flag:
    """Something a reader must know. ``code`` is stable; the words are made by ``controller.report.sentences``.

    ``fault`` is True when the figures concerned are meaningless; otherwise it is a warning and every figure stays in.
    """

    code: str
    fault: bool = False
    arm: str | None = None
    cell_id: str | None = None
    concurrency: int | None = None
    values: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class VarianceSplit:
    """Variance of ln(tokens per second): how much lies between launches, how much between runs of one launch."""

    sd_launch: float
    sd_run: float
    icc: float  # share of the variance that only fresh launches can average out
    launches: int
    runs: int


@dataclasses.dataclass(frozen=True, slots=True)
class LaunchPoint:
    """One launch at one concurrency, for tables and plots.

    The warm-up is shown and part of no other figure; ``warmup_tokens_per_s`` is None when nothing of it can be timed.
    """

    cell_id: str
    block: int
    order: int
    confirmation: bool
    tokens_per_s: float
    output_tokens_per_s: float
    acceptance_length: float | None
    cycle_s: float
    warmup_requests: int = 0
    warmup_tokens_per_s: float | None = None
    conditions: Conditions | None = None
    host: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class OutputAgreement:
    """How often the answers of an arm are those of the baseline, and those of the baseline its own across launches."""

    prompts: int
    with_baseline: float
    within_baseline: float
    p_value: float
    differs: bool


@dataclasses.dataclass(frozen=True, slots=True)
class ArmAnalysis:
    """Everything about one arm at one concurrency.

    Attributes:
        arm: Name of the arm.
        steps: speculative-num-steps; None without speculation.
        adaptive: True when the server chooses the steps itself.
        is_baseline: True for the arm the others are compared with.
        launches: Completed launches that chose (not the confirming ones).
        failed_launches: Launches that gave nothing.
        blocks: Blocks in which both this arm and the baseline completed.
        tokens_per_s: Decode speed of one stream, sum(N - 1) / sum(t).
        output_tokens_per_s: End to end, sum(N) / wall time of the run, all streams together.
        acceptance_length: L; None without speculation.
        cycle_s: C, time of one verify cycle; for an arm without speculation T1, the time of one step.
        speedup: S against the baseline of the same block (geometric mean over blocks).
        break_even_length: L* = C / T1.
        can_pay: False when L* > steps + 1: no acceptance could make it pay.
        needed_acceptance: Equal acceptance per position at which L = L*; None when it cannot pay or nothing is known.
        measured_acceptance: Equal acceptance per position that gives the measured L.
        acceptance_by_position: alpha_i, share accepted at position i given that i - 1 was.
        verdict: See ``Verdict``.
        reason: Stable word for why (``above_margin``, ``one_launch``, ...).
        p_value: Two-sided, against the margin, Holm-adjusted over the arms of the level.
        sign_flip_p: Exact two-sided sign-flip test against no difference at all, not adjusted.
        blocks_needed: Blocks that would probably decide (80 % power); None when decided or unknown.
        variance: None with fewer than two launches of two runs.
        ttft: Time to first token.
        chunk_gap: Median pause between streamed chunks of each request (a chunk holds all tokens of a verify step).
        points: The launches one by one, the confirming ones included.
        outputs: Whether its answers are the baseline's; None for the baseline and where that cannot be said.
    """

    arm: str
    steps: int | None
    adaptive: bool
    is_baseline: bool
    launches: int
    failed_launches: int
    blocks: int
    tokens_per_s: Interval | None
    output_tokens_per_s: Interval | None
    acceptance_length: Interval | None
    cycle_s: Interval | None
    speedup: Interval | None
    break_even_length: Interval | None
    can_pay: bool | None
    needed_acceptance: float | None
    measured_acceptance: float | None
    acceptance_by_position: tuple[float, ...]
    verdict: Verdict | None
    reason: str
    p_value: float | None
    sign_flip_p: float | None
    blocks_needed: int | None
    variance: VarianceSplit | None
    ttft: Quantiles | None
    chunk_gap: Quantiles | None
    points: tuple[LaunchPoint, ...]
    outputs: OutputAgreement | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Miss:
    """A fresh launch outside its prediction interval, split as ln(speed ratio) = ln(L ratio) - ln(C ratio)."""

    cell_id: str
    tokens_per_s: float
    predicted: Interval
    ln_speed: float
    ln_acceptance: float
    ln_cycle: float
    larger_part: str  # "acceptance" or "cycle"


@dataclasses.dataclass(frozen=True, slots=True)
class Confirmation:
    """What fresh launches, not used for the choice, say about the winner."""

    launches: int
    speedup: Interval | None  # from the fresh blocks alone: free of the winner's curse
    misses: tuple[Miss, ...]
    reproduced: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Recommendation:
    """Which arm to use at one concurrency. ``arm`` is None when none can be named."""

    status: RecommendationStatus
    arm: str | None
    steps: int | None
    speedup: Interval | None
    tied_with: tuple[str, ...]  # arms within the margin of the winner that use more steps
    confirmation: Confirmation | None


@dataclasses.dataclass(frozen=True, slots=True)
class MarginalStep:
    """Whether one more draft step pays: it does iff ``survival > needed``."""

    steps: int
    next_steps: int
    survival: float  # probability that the draft is accepted up to and including next_steps
    needed: float  # (C(next) - C(k)) * L(k) / C(k), per added step
    pays: bool


@dataclasses.dataclass(frozen=True, slots=True)
class StepPrediction:
    """Step counts predicted from the acceptance by position of the largest measured one."""

    source_arm: str
    predicted_speedup: tuple[tuple[int, float], ...]
    predicted_best: int  # 0: no speculation
    measured_best: int
    agrees: bool
    marginal: tuple[MarginalStep, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class HostLevel:
    """How fast a host is: its decode speed over the mean of all hosts, arms aside."""

    host: str
    blocks: int
    launches: int
    level: Interval


@dataclasses.dataclass(frozen=True, slots=True)
class HostEffect:
    """The speed-up of one arm on each host; ``p_value`` of its being the same everywhere, None when not known."""

    arm: str
    by_host: tuple[tuple[str, Interval], ...]
    p_value: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class HostSplit:
    """What the hosts of a fleet have to do with the figures of one concurrency.

    Attributes:
        sd_host: Standard deviation of ln(tokens per second) between hosts; None when no host has two blocks.
        sd_block: The same between blocks of one host.
        p_value: Of all hosts being equally fast.
        hosts: One by one.
        arms: Every arm but the baseline.
    """

    sd_host: float | None
    sd_block: float | None
    p_value: float | None
    hosts: tuple[HostLevel, ...]
    arms: tuple[HostEffect, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class LevelAnalysis:
    """All arms at one concurrency, baseline first, then by steps."""

    concurrency: int
    baseline: str | None
    arms: tuple[ArmAnalysis, ...]
    recommendation: Recommendation
    step_prediction: StepPrediction | None
    hosts: HostSplit | None = None  # None when one host measured everything

    def arm(self, name: str) -> ArmAnalysis:
        """Return the arm called ``name``.

        Raises:
            KeyError: there is no such arm at this level.
        """
        for candidate in self.arms:
            if candidate.arm == name:
                return candidate
        raise KeyError(name)


@dataclasses.dataclass(frozen=True, slots=True)
class SweepAnalysis:
    """A whole sweep.

    Attributes:
        margin: Relative difference that the verdicts used: the larger of the one asked for and the noise.
        confidence: Of all intervals but those of the speed-up.
        aa_noise: Noise floor from two arms with the same settings; None when it was not measured.
        flags: What a reader must know, faults first.
        aa_source: Where the noise floor comes from, in words.
        looks: How often the plan allows to look at the verdicts (1 without a stop rule).
        verdict_confidence: Of the intervals of the speed-up and of the verdicts: all looks share the error rate.
    """

    simulated: bool
    margin: float
    confidence: float
    aa_noise: float | None
    launches: int
    failed_launches: int
    levels: tuple[LevelAnalysis, ...]
    flags: tuple[Flag, ...]
    aa_source: str = ""
    looks: int = 1
    verdict_confidence: float | None = None

    @property
    def baseline(self) -> str | None:
        """Name of the arm that the others are compared with; None when the sweep has none."""
        return next((level.baseline for level in self.levels if level.baseline), None)

    @property
    def faults(self) -> tuple[Flag, ...]:
        """The flags that make figures meaningless."""
        return tuple(flag for flag in self.flags if flag.fault)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values with stable keys (``schema`` counts incompatible changes)."""
        return {"schema": SCHEMA, **_plain(self)}


def _plain(value: object) -> Any:  # noqa: ANN401  # JSON values have no better type
    """Turn frozen dataclasses, enums and tuples into JSON values; numbers JSON cannot hold become null."""
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, enum.StrEnum):
        return value.value
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
