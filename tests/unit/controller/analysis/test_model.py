from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.analysis.model import Pooled, launch_from_records
from controller.analysis.points import points_at
from controller.analysis.positions import add_histograms
from controller.load.records import InterTokenSummary, RequestRecord

NO_GAPS = InterTokenSummary.of([])


def record(**fields: object) -> RequestRecord:
    start = RequestRecord(
        prompt_id=0,
        run=0,
        warmup=False,
        started_s=0.0,
        ttft_s=0.2,
        e2e_s=3.2,
        decode_s=3.0,
        prompt_tokens=10,
        completion_tokens=256,
        verify_steps=100,
        accept_histogram=[10, 25, 65],
        inter_token_s=InterTokenSummary.of([0.03, 0.03]),
        text_sha256="",
    )
    return dataclasses.replace(start, **fields)  # type: ignore[arg-type]


def make(records: list[RequestRecord], **more: object) -> object:
    return launch_from_records(records, cell_id="c", block=0, order=0, arm="steps=2", steps=2, **more)  # type: ignore[arg-type]


def test_sums() -> None:
    launch = launch_from_records(
        [
            record(run=1, started_s=1.0),
            record(run=0, warmup=True, completion_tokens=9999),
            record(run=0),
            record(run=0, started_s=3.2, verify_steps=200, first_chunk_tokens=3, accept_histogram=[200]),
            record(run=0, error="No connection.", inter_token_s=NO_GAPS),
        ],
        cell_id="c",
        block=1,
        order=2,
        arm="steps=2",
        steps=2,
    )
    first, second = launch.runs
    assert (first.requests, first.failed_requests, first.verify_steps, first.joined_chunks) == (2, 1, 300, 1)
    assert first.accept_histogram == (210, 25, 65)
    assert first.wall_s == pytest.approx(6.4)
    assert second.wall_s == pytest.approx(3.2)
    pooled = Pooled.of(launch.runs)
    assert pooled.acceptance_length == pytest.approx(3 * 255 / 400)
    assert pooled.cycle_s == pytest.approx(9 / 400)
    assert pooled.tokens_per_s == pytest.approx(3 * 255 / 9)
    assert pooled.output_tokens_per_s == pytest.approx(3 * 256 / 9.6)
    assert launch.failure is None


def test_a_dead_draft_reads_exactly_one() -> None:
    # 256 tokens in 255 verify steps: the server's own ratio says 1.0039.
    launch = launch_from_records([record(verify_steps=255)], cell_id="c", block=0, order=0, arm="steps=3", steps=3)
    assert Pooled.of(launch.runs).acceptance_length == 1.0


@pytest.mark.parametrize(
    "records",
    [[], [record(error="died")], [record(completion_tokens=1, decode_s=0.0)], [record(warmup=True)]],
)
def test_a_launch_without_figures_failed(records: list[RequestRecord]) -> None:
    launch = launch_from_records(records, cell_id="c", block=0, order=0, arm="a", steps=None)
    assert launch.failure == "no_completed_request"
    assert points_at([launch], 1) == []


def test_failure_and_settings_are_kept() -> None:
    launch = launch_from_records(
        [record()],
        cell_id="c",
        block=0,
        order=0,
        arm="a",
        steps=None,
        failure="died",
        simulated=True,
        confirmation=True,
        adaptive=True,
    )
    assert (launch.failure, launch.simulated, launch.confirmation, launch.adaptive) == ("died", True, True, True)
    assert points_at([launch], 1) == []


@settings(deadline=None)
@given(
    st.lists(
        st.builds(
            record,
            run=st.integers(0, 3),
            completion_tokens=st.integers(2, 500),
            verify_steps=st.integers(1, 500),
            decode_s=st.floats(0.01, 100),
            concurrency=st.sampled_from([1, 8]),
        ),
        min_size=1,
        max_size=20,
    ),
    st.randoms(),
)
def test_order_of_records_does_not_matter(records: list[RequestRecord], shuffler: object) -> None:
    one = make(records)
    shuffled = list(records)
    shuffler.shuffle(shuffled)  # type: ignore[attr-defined]
    other = make(shuffled)
    for left, right in zip(one.runs, other.runs, strict=True):  # type: ignore[attr-defined]
        assert left.decode_s == right.decode_s
        assert left.completion_tokens == right.completion_tokens
        assert left.accept_histogram == right.accept_histogram


@settings(deadline=None)
@given(st.integers(2, 10_000), st.integers(1, 5000), st.floats(0.001, 1e4))
def test_speed_is_length_over_cycle(tokens: int, steps: int, seconds: float) -> None:
    launch = launch_from_records(
        [record(completion_tokens=tokens, verify_steps=steps, decode_s=seconds)],
        cell_id="c",
        block=0,
        order=0,
        arm="a",
        steps=3,
    )
    (point,) = points_at([launch], 1)
    assert point.ln_speed == pytest.approx(point.ln_length - point.ln_cycle, abs=1e-9)
    assert math.exp(point.ln_length) == pytest.approx((tokens - 1) / steps)


def test_histograms_of_different_width() -> None:
    assert add_histograms([[1, 2], [], [3, 4, 5]]) == (4, 6, 5)
    assert add_histograms([]) == ()
