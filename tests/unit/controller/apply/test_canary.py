from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from controller.analysis.model import launch_from_records
from controller.apply.canary import Expectation, LevelResult, ask, judge
from controller.load.records import RequestRecord
from tests.unit.controller.report.sample import requests
from tests.unit.controller.sweep.fakes import FakeLoad

SPEEDS = (95.0, 96.5, 95.5, 96.0)


def records(tps: float, *, length: float | None = 3.0, answer: str = "a", **more: Any) -> list[RequestRecord]:
    rows = requests(tps, length, count=6)
    return [dataclasses.replace(RequestRecord.from_json(row | {"text_sha256": answer}), **more) for row in rows]


def expectation(**changes: Any) -> Expectation:
    launches = []
    for block, speed in enumerate(SPEEDS):
        for arm, tps, length in (("baseline", speed - 12, None), ("steps-3", speed, 3.0)):
            first, second = (
                records(tps, length=length),
                records(tps * 3, length=length, run=1),
            )  # later runs do not count
            launches.append(
                launch_from_records(first + second, cell_id=f"{block}{arm}", block=block, order=block, arm=arm, steps=3)
            )
    usual = Expectation("steps-3", launches, "baseline", confidence=0.95, margin=0.02)
    return dataclasses.replace(usual, **changes)


def only(results: list[LevelResult]) -> LevelResult:
    (result,) = results
    return result


def test_a_canary_within_the_prediction_passes() -> None:
    result = only(judge(records(95.6, warmup=True) + records(95.6), expectation()))
    assert result.objections == []
    assert result.notes == []
    assert result.predicted is not None
    assert result.predicted.low is not None
    assert 90 < result.predicted.low < 95.6 < (result.predicted.high or 0) < 100
    assert "95.6 tok/s, predicted 95." in result.sentence
    assert "equal to the baseline's in 100% of the pairs" in result.sentence
    assert "margin" not in result.sentence
    shown = result.as_json()
    assert shown["requests"] == 6
    assert shown["acceptance_length"] == pytest.approx(3.0, rel=0.01)
    assert shown["miss"] is None


@pytest.mark.parametrize(
    ("tps", "length", "part", "words"),
    [(60.0, 3.0, "cycle", "(ln L) -0.4"), (60.0, 1.9, "acceptance", "-0.455 (ln L) -0.0")],
)
def test_a_slow_canary_is_a_miss_split_into_its_parts(tps: float, length: float, part: str, words: str) -> None:
    result = only(judge(records(tps, length=length), expectation()))
    (objection,) = result.objections
    assert "slower than the sweep predicts: 60.0 tok/s, outside [9" in objection
    assert words in objection
    assert result.miss is not None
    assert result.miss.larger_part == part
    assert result.miss.ln_speed == pytest.approx(math.log(60 / 95.75), abs=0.01)
    assert result.miss.ln_speed == pytest.approx(result.miss.ln_acceptance - result.miss.ln_cycle, abs=1e-9)
    assert result.as_json()["miss"]["larger_part"] == part


def test_a_difference_below_the_margin_is_no_miss_however_narrow_the_prediction() -> None:
    narrow = expectation(launches=[one for one in expectation().launches if one.block in (1, 3)])
    assert only(judge(records(94.6), narrow)).predicted is not None
    passed = only(judge(records(80.0), dataclasses.replace(narrow, margin=0.3, confidence=0.5)))
    assert passed.objections == []
    assert "from whose middle it differs by less than the margin" in passed.sentence
    assert only(judge(records(91.0), dataclasses.replace(narrow, margin=0.2))).objections == []


def test_a_host_of_a_fleet_is_held_to_its_own_speed_with_the_scatter_of_all() -> None:
    ours, others = [95.0], [(190.0, 193.0), (191.0, 192.0)]
    launches = [
        dataclasses.replace(
            launch_from_records(records(tps), cell_id=f"{host}{tps}", block=1, order=1, arm="steps-3", steps=3),
            host=host,
        )
        for host, speeds in (("a", ours), ("b", others[0]), ("c", others[1]))
        for tps in speeds
    ]
    fleet = expectation(launches=launches, host="a")
    passed = only(judge(records(95.6), fleet))
    assert passed.objections == []
    assert passed.predicted is not None
    assert 85 < (passed.predicted.low or 0) < 95 < (passed.predicted.high or 0) < 105
    (objection,) = only(judge(records(60.0), fleet)).objections
    assert "slower than the sweep predicts" in objection
    # Of a host that measured nothing, the others say nothing.
    stranger = only(judge(records(60.0), dataclasses.replace(fleet, host="d")))
    assert stranger.predicted is None
    assert "too few launches of this arm" in stranger.notes[0]


def test_a_fast_canary_stays_and_is_said() -> None:
    result = only(judge(records(150.0), expectation()))
    assert result.objections == []
    assert "faster than the sweep predicts" in result.notes[0]
    assert "sweep again" in result.notes[0]


def test_answers_must_be_the_baselines_as_often_as_its_own_are() -> None:
    result = only(judge(records(95.6, answer="b"), expectation()))
    assert "0% of the pairs are equal, the baseline's own in 100% (6 prompts, p = 0.016)" in result.objections[0]
    known = only(judge(records(95.6, answer="b"), expectation(outputs_must_agree=False)))
    assert known.objections == []
    alone = only(judge(records(95.6), expectation(baseline=None)))
    assert alone.objections == []
    assert "were not compared" in alone.notes[0]


def test_a_single_launch_predicts_nothing_and_failed_requests_count() -> None:
    one = expectation(launches=[launch for launch in expectation().launches if launch.block == 0])
    result = only(judge(records(10.0), one))
    assert result.objections == []
    assert "too few launches of this arm" in result.notes[0]
    broken = only(judge(records(95.6, error="connection refused"), expectation()))
    assert broken.objections == ["6 requests of the canary failed"]
    assert broken.as_json()["tokens_per_s"] is None
    assert broken.sentence == "concurrency 1: - tok/s, predicted " + broken.sentence.partition("predicted ")[2]


def test_several_concurrencies_share_the_chance_of_bad_luck() -> None:
    alone = only(judge(records(95.6), expectation())).predicted
    both = judge(records(95.6) + records(95.6, concurrency=4), expectation())
    assert [result.concurrency for result in both] == [1, 4]
    assert alone is not None
    assert both[0].predicted is not None
    assert (both[0].predicted.low or 0) < (alone.low or 0)


def test_the_first_run_is_asked_after_a_warm_up_with_an_empty_cache() -> None:
    load = FakeLoad(levels=(1, 4), repeats=3)
    parts: list[str] = []
    found = ask(load, "http://server", 0.5, on_part=parts.append, on_tokens=lambda *_: None)
    assert [(call["run"], call["warmup"], call["concurrency"]) for call in load.calls] == [
        (0, True, 1), (0, False, 1), (0, True, 4), (0, False, 4),
    ]  # fmt: skip
    assert load.flushed == 4
    assert len(found) == 4
    assert parts[0] == "canary's warm-up, concurrency 1"
    parts.clear()
    ask(FakeLoad(), "http://server", 1.0, on_part=parts.append, on_tokens=lambda *_: None)
    assert parts == ["canary's warm-up", "canary"]
