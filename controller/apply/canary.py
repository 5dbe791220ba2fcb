"""A short measurement of the server that was just deployed, against what the sweep predicts of it.

The canary asks what the first run of every launch of the sweep asked, after the same warm-up, so like is compared with
like: its speed with the speed of those first runs, its answers with the baseline's answers to the same prompts.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controller.analysis.intervals import exponential
from controller.analysis.model import launch_from_records
from controller.analysis.outputs import output_agreement
from controller.analysis.points import points_at
from controller.analysis.prediction import confirm, prediction_interval
from controller.report.numbers import interval, plain, times

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from controller.analysis.model import Launch
    from controller.analysis.points import Point
    from controller.analysis.result import Interval, Miss, OutputAgreement
    from controller.load.records import RequestRecord
    from controller.sweep.ports import LoadGenerator

RUN = 0
"""The run of the sweep that is repeated."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a sweep says about one of its arms.

    Attributes:
        arm: The arm's name.
        launches: Every launch of the sweep that was measured, on all its hosts.
        baseline: Name of the baseline; None without one.
        confidence: Of the prediction.
        margin: Relative difference that matters: less than that is no miss, however narrow the prediction.
        host: The host of a fleet that is asked, which has a speed of its own; empty when there is only one.
        outputs_must_agree: False when the sweep itself says that the arm's answers differ.
    """

    arm: str
    launches: Sequence[Launch]
    baseline: str | None
    confidence: float
    margin: float
    host: str = ""
    outputs_must_agree: bool = True


@dataclass(frozen=True, slots=True)
class LevelResult:
    """The canary at one concurrency.

    Attributes:
        concurrency: Requests in flight.
        requests: Requests that completed.
        failed: Requests that did not.
        point: Its figures; None when nothing could be timed.
        predicted: Tokens per second; None when the sweep has too few launches of the arm.
        miss: The split of a difference outside the prediction that matters; None within it.
        outputs: Agreement with the baseline's answers; None when that cannot be said.
        outputs_must_agree: Whether a difference in the answers counts.
    """

    concurrency: int
    requests: int
    failed: int
    point: Point | None
    predicted: Interval | None
    miss: Miss | None
    outputs: OutputAgreement | None
    outputs_must_agree: bool = True

    @property
    def objections(self) -> list[str]:
        """Why this must not stay deployed; none when it may."""
        found = []
        if self.failed or self.point is None:
            found.append(f"{times(self.failed, 'request')} of the canary failed")
        if self.miss is not None and self.miss.ln_speed < 0:
            found.append(f"the canary ran slower than the sweep predicts: {self._split(self.miss)}")
        if self.outputs is not None and self.outputs.differs and self.outputs_must_agree:
            found.append(
                f"the canary's answers at temperature 0 are not the baseline's: {self.outputs.with_baseline:.0%} of "
                f"the pairs are equal, the baseline's own in {self.outputs.within_baseline:.0%} "
                f"({times(self.outputs.prompts, 'prompt')}, p = {self.outputs.p_value:.3f})"
            )
        return found

    @property
    def notes(self) -> list[str]:
        """What an operator should know although it may stay."""
        found = []
        if self.point is not None and self.predicted is None:
            found.append("the sweep has too few launches of this arm to predict its speed here, so that was not judged")
        if self.miss is not None and self.miss.ln_speed > 0:
            found.append(
                f"the canary ran faster than the sweep predicts: {self._split(self.miss)}. The machine has "
                "changed since, and the verdict may have, too: sweep again"
            )
        if self.outputs is None:
            found.append("the sweep has no two launches of a baseline, so the answers were not compared")
        return found

    def _split(self, miss: Miss) -> str:
        cause = "acceptance length" if miss.larger_part == "acceptance" else "cycle time"
        return (
            f"{plain(miss.tokens_per_s, 1)} tok/s, outside [{plain(miss.predicted.low, 1)}, "
            f"{plain(miss.predicted.high, 1)}] at concurrency {self.concurrency}; ln(speed) is off by "
            f"{miss.ln_speed:+.3f} = {miss.ln_acceptance:+.3f} (ln L) {-miss.ln_cycle:+.3f} (-ln C), the larger part "
            f"is the {cause}"
        )

    @property
    def _outside(self) -> bool:
        """Whether the speed, as it is printed, is not in the interval."""
        if self.point is None or self.predicted is None or self.predicted.low is None or self.predicted.high is None:
            return False
        speed = round(self.point.pooled.tokens_per_s, 1)
        return not round(self.predicted.low, 1) <= speed <= round(self.predicted.high, 1)

    @property
    def sentence(self) -> str:
        """The figures of a canary that passed."""
        speed = plain(self.point.pooled.tokens_per_s, 1) if self.point else "-"
        predicted = f", predicted {interval(self.predicted, 1)}" if self.predicted else ""
        if self._outside and self.miss is None:
            predicted += ", from whose middle it differs by less than the margin"
        same = (
            f"; answers equal to the baseline's in {self.outputs.with_baseline:.0%} of the pairs, the baseline's own "
            f"in {self.outputs.within_baseline:.0%}"
            if self.outputs
            else ""
        )
        return f"concurrency {self.concurrency}: {speed} tok/s{predicted}{same}"

    def as_json(self) -> dict[str, Any]:
        """Return the figures for the history."""
        pooled = self.point.pooled if self.point else None
        return {
            "concurrency": self.concurrency,
            "requests": self.requests,
            "failed": self.failed,
            "tokens_per_s": pooled.tokens_per_s if pooled else None,
            "acceptance_length": pooled.acceptance_length if pooled else None,
            "cycle_s": pooled.cycle_s if pooled else None,
            "predicted": dataclasses.asdict(self.predicted) if self.predicted else None,
            "miss": dataclasses.asdict(self.miss) if self.miss else None,
            "outputs": dataclasses.asdict(self.outputs) if self.outputs else None,
            "objections": self.objections,
            "notes": self.notes,
        }


def ask(
    load: LoadGenerator,
    url: str,
    time_scale: float,
    *,
    on_part: Callable[[str], None],
    on_tokens: Callable[[int, float], None],
) -> list[RequestRecord]:
    """Send the warm-up and the first run of every concurrency, as a sweep does, and return the records."""
    records: list[RequestRecord] = []
    for level in load.levels:
        for warmup in (True, False):
            name = "canary's warm-up" if warmup else "canary"
            on_part(f"{name}, concurrency {level}" if len(load.levels) > 1 else name)
            load.flush_cache(url)
            records += load.run(
                url, run=RUN, concurrency=level, warmup=warmup, time_scale=time_scale, on_tokens=on_tokens
            )
    return records


def judge(records: Sequence[RequestRecord], expected: Expectation) -> list[LevelResult]:
    """Compare a canary with the sweep, concurrency by concurrency."""
    launch = launch_from_records(
        [record for record in records if not record.warmup],
        cell_id="canary",
        block=0,
        order=0,
        arm=expected.arm,
        steps=None,
    )
    first_runs = [
        dataclasses.replace(one, runs=tuple(run for run in one.runs if run.index == RUN)) for one in expected.launches
    ]
    levels = sorted({record.concurrency for record in records})
    # Each concurrency is one more chance to miss by bad luck; together they keep the confidence (Bonferroni).
    expected = dataclasses.replace(expected, confidence=1 - (1 - expected.confidence) / max(1, len(levels)))
    return [_level(level, launch, first_runs, records, expected) for level in levels]


def _level(
    level: int, launch: Launch, sweep: Sequence[Launch], records: Sequence[RequestRecord], expected: Expectation
) -> LevelResult:
    asked = [record for record in records if record.concurrency == level]
    failed = sum(record.error is not None for record in asked)
    points = points_at(sweep, level)
    ours, elsewhere = _by_host([point for point in points if point.launch.arm == expected.arm], expected.host)
    baseline, _ = _by_host([point for point in points if point.launch.arm == expected.baseline], expected.host)
    point = next(iter(points_at([launch], level)), None)
    predicted = prediction_interval(
        [one.ln_speed for one in ours],
        confidence=expected.confidence,
        elsewhere=[[one.ln_speed for one in points] for points in elsewhere],
    )
    return LevelResult(
        concurrency=level,
        requests=sum(not record.warmup and record.error is None for record in asked),
        failed=failed,
        point=point,
        predicted=exponential(predicted) if predicted else None,
        miss=_miss(point, ours, elsewhere, expected) if point and predicted else None,
        outputs=output_agreement([point], baseline) if point else None,
        outputs_must_agree=expected.outputs_must_agree,
    )


def _by_host(points: Sequence[Point], host: str) -> tuple[list[Point], list[list[Point]]]:
    """Return the points of one host, and those of each other one."""
    hosts: dict[str, list[Point]] = {}
    for point in points:
        hosts.setdefault(point.launch.host, []).append(point)
    return hosts.pop(host, []), list(hosts.values())


def _miss(
    point: Point, ours: Sequence[Point], elsewhere: Sequence[Sequence[Point]], expected: Expectation
) -> Miss | None:
    """Return the split of a speed outside the prediction."""
    margin = math.log1p(expected.margin)
    found = confirm(ours, [point], (), confidence=expected.confidence, margin=margin, elsewhere=elsewhere)
    return found.misses[0] if found and found.misses else None
