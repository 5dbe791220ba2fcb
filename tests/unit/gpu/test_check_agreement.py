"""A journal is compared with the server's log step by step, and with its counters."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.load.records import InterTokenSummary, RequestRecord
from tests.gpu.check_agreement import Answers, Compared, compare_cell, compare_with_log, compare_with_metrics
from tests.gpu.decode_log import DecodeLine
from tests.gpu.metrics_record import Counts, Sample, between, parse

STEP_S = 0.005


def answer(number: int, *, steps: int = 100, length: int = 3, speculative: bool = True) -> RequestRecord:
    decode_s = steps * STEP_S
    return RequestRecord(
        prompt_id=number,
        run=0,
        warmup=False,
        started_s=number * (decode_s + 0.1 + STEP_S),
        ttft_s=0.1,
        e2e_s=0.1 + decode_s,
        decode_s=decode_s,
        prompt_tokens=10,
        completion_tokens=1 + length * steps if speculative else 1 + steps,
        verify_steps=steps if speculative else None,
        accept_histogram=None,
        inter_token_s=InterTokenSummary.of([]),
        text_sha256="",
        error=None,
        concurrency=1,
        first_chunk_tokens=1,
    )


def lines_of(answers: Answers, *, length: float | None, slower: float = 1.0) -> list[DecodeLine]:
    """Return what a server logs that does exactly these answers."""
    made = []
    for number in range(1, answers.steps // 40 + 1):
        end = answers.at(40 * number)[2]
        begin = answers.at(40 * (number - 1))[2] if number > 1 else -9.0
        made.append(DecodeLine(1, length, 40 * (length or 1) / (end - begin) / slower))
    return made


@pytest.mark.parametrize("idle_steps", [0, 1])
def test_a_faithful_log_agrees_although_its_lines_span_answers(idle_steps: int) -> None:
    answers = Answers((answer(0), answer(1), answer(2)), idle_steps)
    found = compare_with_log("b01", answers, lines_of(answers, length=3.0), 1.0)
    assert {one.figure: one.ratio for one in found} == pytest.approx({"L": 1.0, "C": 1.0, "S": 1.0})


def test_a_slower_server_and_another_length_are_seen() -> None:
    answers = Answers((answer(0), answer(1), answer(2)))
    slow = compare_with_log("b01", answers, lines_of(answers, length=3.0, slower=1.05), 1.0)
    assert next(one for one in slow if one.figure == "C").ratio == pytest.approx(1 / 1.05)
    short = compare_with_log("b01", answers, lines_of(answers, length=2.5), 1.0)
    assert next(one for one in short if one.figure == "L").ratio == pytest.approx(3 / 2.5)


def test_without_speculation_a_step_is_a_token_and_too_few_lines_say_nothing() -> None:
    answers = Answers((answer(0, speculative=False), answer(1, speculative=False)))
    found = compare_with_log("b01", answers, lines_of(answers, length=None), 1.0)
    assert [one.figure for one in found] == ["T1", "S"]
    assert compare_with_log("b01", answers, lines_of(answers, length=None)[:2], 1.0) == []


def test_counters_are_exact_over_a_launch() -> None:
    requests = [answer(0), answer(1)]
    said = Counts(generated=602, verify_steps=200, requests=2, decode_s=200 * STEP_S)
    ratios = {one.figure: one.ratio for one in compare_with_metrics("b01", requests, said, 1.0)}
    assert ratios == pytest.approx({"N": 1.0, "L": 1.0, "C": 1.0, "S": 1.0})


def test_what_a_launch_counted_is_told_from_the_next() -> None:
    def made(at: float, requests: float) -> Sample:
        tokens = f'sglang:generation_tokens_total{{model="m"}} {10 * requests}'
        return parse(f'sglang:num_requests_total{{model="m"}} {requests}\n{tokens}\n', at)

    samples = [made(1.0, 2.0), made(5.0, 4.0), made(6.1, 12.0), made(9.0, 1.0)]
    counted = between(samples, 2.0, 6.0)
    assert counted == Counts(generated=100.0, verify_steps=0.0, requests=10.0, decode_s=0.0)
    assert between(samples[1:], 2.0, 6.0) is None


def test_what_cannot_be_compared_is_said(tmp_path: Path) -> None:
    run = {"kind": "run", "at": 2.0, "warmup": False, "concurrency": 1, "requests": [answer(0).to_json()]}
    assert compare_cell("b01", [run], tmp_path / "server.log", []) == ([], "no log")
    assert compare_cell("b01", [run | {"concurrency": 8}], Path(__file__), [])[1] == "more than one request at a time"
    assert "fewer cache flushes" in compare_cell("b01", [run, run], Path(__file__), [])[1]


def test_a_figure_is_own_by_server() -> None:
    assert Compared("b01", "S", "log", 99.0, 100.0).ratio == pytest.approx(0.99)


def test_counters_of_the_real_server_are_read() -> None:
    text = (Path(__file__).parents[2] / "data" / "sglang-0.5.15" / "metrics-eagle3.txt").read_text()
    counts = parse(text, 0.0).counts
    assert counts.requests > 0
    assert counts.verify_steps > 0
    assert counts.generated > counts.verify_steps
    assert counts.decode_s == pytest.approx(1.897969768)
