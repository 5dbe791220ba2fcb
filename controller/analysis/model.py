"""Launches as the unit of evidence: request records summed per run, runs grouped per launch."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from controller.analysis.conditions import Conditions


class InterToken(Protocol):
    """The part of a summary of pauses that the analysis reads."""

    @property
    def count(self) -> int:
        """Number of pauses."""

    @property
    def p50_s(self) -> float:
        """Median pause in seconds."""


class Request(Protocol):
    """The part of a request record that the analysis reads (``controller.load.records.RequestRecord`` has it)."""

    @property
    def prompt_id(self) -> int:
        """Which prompt was asked."""

    @property
    def text_sha256(self) -> str:
        """Hash of the answer."""

    @property
    def run(self) -> int:
        """Index of the run."""

    @property
    def warmup(self) -> bool:
        """True when the request is not to be analysed."""

    @property
    def started_s(self) -> float:
        """When it was sent, since the start of the run."""

    @property
    def ttft_s(self) -> float:
        """Time to first token."""

    @property
    def e2e_s(self) -> float:
        """Time to last token."""

    @property
    def decode_s(self) -> float:
        """Time from first to last token."""

    @property
    def completion_tokens(self) -> int:
        """N."""

    @property
    def verify_steps(self) -> int | None:
        """V."""

    @property
    def accept_histogram(self) -> list[int] | None:
        """Verify steps by number of accepted draft tokens."""

    @property
    def inter_token_s(self) -> InterToken:
        """Pauses between chunks."""

    @property
    def error(self) -> str | None:
        """None when the request completed."""

    @property
    def concurrency(self) -> int:
        """Requests in flight."""

    @property
    def first_chunk_tokens(self) -> int:
        """Tokens of the first chunk."""


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """Sums over the completed requests of one run at one concurrency. Times in unscaled seconds.

    Attributes:
        index: Index of the run within its launch.
        concurrency: Requests in flight.
        requests: Completed requests (n).
        completion_tokens: sum N.
        decode_s: sum t.
        wall_s: From the first request sent to the last token received.
        verify_steps: sum V; None when the server did not speculate.
        failed_requests: Requests that did not complete; not part of the sums.
        accept_histogram: Verify steps by number of accepted draft tokens, summed; empty when not reported.
        ttft_s: Time to first token of each request.
        chunk_gap_s: Median pause between chunks of each request.
        joined_chunks: Requests whose first chunk held more than one token.
        answers: Prompt and hash of the answer of each request.
    """

    index: int
    concurrency: int
    requests: int
    completion_tokens: int
    decode_s: float
    wall_s: float
    verify_steps: int | None = None
    failed_requests: int = 0
    accept_histogram: tuple[int, ...] = ()
    ttft_s: tuple[float, ...] = ()
    chunk_gap_s: tuple[float, ...] = ()
    joined_chunks: int = 0
    answers: tuple[tuple[int, str], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Launch:
    """One start of the server under one arm, with what was measured on it.

    Attributes:
        cell_id: Identifier of the cell (block, arm).
        block: Index of the block: one launch of every arm in shuffled order.
        order: Position in the order in which launches really happened.
        arm: Name of the arm.
        steps: speculative-num-steps; None when the arm does not speculate.
        runs: The runs; empty when the launch failed.
        failure: Class of the failure, None when the launch was measured.
        simulated: True when a simulated server gave the figures.
        confirmation: True for fresh launches that only check the winner and took no part in choosing it.
        adaptive: True when the server chooses its steps itself.
        warmup: What was asked before the runs, one for each concurrency; part of no figure.
        conditions: What the GPUs did meanwhile; None when it was not recorded.
        host: Which host of a fleet ran it; empty when there is only one.
    """

    cell_id: str
    block: int
    order: int
    arm: str
    steps: int | None
    runs: tuple[Run, ...]
    failure: str | None = None
    simulated: bool = False
    confirmation: bool = False
    adaptive: bool = False
    warmup: tuple[Run, ...] = ()
    conditions: Conditions | None = None
    host: str = ""


def run_from_records(records: Sequence[Request], *, index: int, concurrency: int) -> Run:
    """Sum the records of one run at one concurrency (warm-up records must have been taken out)."""
    done = [record for record in records if record.error is None]
    steps = [record.verify_steps for record in done if record.verify_steps is not None]
    histograms = [record.accept_histogram for record in done if record.accept_histogram]
    width = max((len(histogram) for histogram in histograms), default=0)
    end = max((record.started_s + record.e2e_s for record in done), default=0.0)
    start = min((record.started_s for record in done), default=0.0)
    return Run(
        index=index,
        concurrency=concurrency,
        requests=len(done),
        completion_tokens=sum(record.completion_tokens for record in done),
        decode_s=math.fsum(record.decode_s for record in done),
        wall_s=end - start,
        verify_steps=sum(steps) if steps else None,
        failed_requests=len(records) - len(done),
        accept_histogram=tuple(
            sum(histogram[place] for histogram in histograms if place < len(histogram)) for place in range(width)
        ),
        ttft_s=tuple(record.ttft_s for record in done),
        chunk_gap_s=tuple(record.inter_token_s.p50_s for record in done if record.inter_token_s.count),
        joined_chunks=sum(1 for record in done if record.first_chunk_tokens > 1),
        answers=tuple((record.prompt_id, record.text_sha256) for record in done),
    )


def launch_from_records(
    records: Iterable[Request],
    *,
    cell_id: str,
    block: int,
    order: int,
    arm: str,
    steps: int | None,
    failure: str | None = None,
    simulated: bool = False,
    confirmation: bool = False,
    adaptive: bool = False,
    conditions: Conditions | None = None,
    host: str = "",
) -> Launch:
    """Make a launch of the records of its requests, in any order; warm-up records are kept apart.

    A launch without one completed request that can be timed counts as failed.
    """
    groups: dict[tuple[bool, int, int], list[Request]] = {}
    for record in records:
        groups.setdefault((record.warmup, record.concurrency, record.run), []).append(record)
    summed = [
        (warm, run_from_records(group, index=run, concurrency=concurrency))
        for (warm, concurrency, run), group in sorted(groups.items(), key=lambda item: item[0])
    ]
    runs = tuple(run for warm, run in summed if not warm)
    if failure is None and not any(is_timed(run) for run in runs):
        failure = "no_completed_request"
    return Launch(
        cell_id=cell_id,
        block=block,
        order=order,
        arm=arm,
        steps=steps,
        runs=runs,
        failure=failure,
        simulated=simulated,
        confirmation=confirmation,
        adaptive=adaptive,
        warmup=tuple(run for warm, run in summed if warm),
        conditions=conditions,
        host=host,
    )


def is_timed(run: Run) -> bool:
    """Return whether a run has at least one token after the first and time spent on it."""
    return run.completion_tokens > run.requests > 0 and run.decode_s > 0 and run.wall_s > 0


@dataclasses.dataclass(frozen=True, slots=True)
class Pooled:
    """Sums over runs, and the ratios made of sums (never means of ratios)."""

    requests: int
    completion_tokens: int
    decode_s: float
    wall_s: float
    verify_steps: int

    @classmethod
    def of(cls, runs: Iterable[Run]) -> Pooled:
        """Add up runs (those that cannot be timed are left out)."""
        requests = tokens = steps = 0
        decode_s = wall_s = 0.0
        for run in runs:
            if is_timed(run):
                requests += run.requests
                tokens += run.completion_tokens
                decode_s += run.decode_s
                wall_s += run.wall_s
                steps += run.verify_steps or 0
        return cls(requests, tokens, decode_s, wall_s, steps)

    @property
    def speculated(self) -> bool:
        """Whether verify steps were reported."""
        return self.verify_steps > 0

    @property
    def tokens_per_s(self) -> float:
        """Decode speed of one stream: sum(N - 1) / sum(t)."""
        return (self.completion_tokens - self.requests) / self.decode_s

    @property
    def output_tokens_per_s(self) -> float:
        """End to end over all streams: sum(N) / wall time."""
        return self.completion_tokens / self.wall_s

    @property
    def acceptance_length(self) -> float | None:
        """L = sum(N - 1) / sum(V): tokens per verify step, the bonus token included. None without speculation."""
        return (self.completion_tokens - self.requests) / self.verify_steps if self.speculated else None

    @property
    def cycle_s(self) -> float:
        """C = sum(t) / sum(V); without speculation T1 = sum(t) / sum(N - 1)."""
        steps = self.verify_steps if self.speculated else self.completion_tokens - self.requests
        return self.decode_s / steps
