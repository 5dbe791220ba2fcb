from __future__ import annotations

import dataclasses
import json
import math
import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.analysis.result import RecommendationStatus, Verdict
from controller.analysis.sweep import aa_noise, analyse
from tests.unit.controller.analysis.builders import failed, launch, run, sweep

if TYPE_CHECKING:
    from controller.analysis.model import Launch
    from controller.analysis.result import SweepAnalysis

BASELINE = [82.0, 83.0, 82.5, 83.0, 82.2]
FASTER = [95.0, 96.0, 95.5, 96.5, 95.2]
SLOWER = [60.0, 60.5, 61.0, 59.5, 60.0]


def verdicts(analysis: SweepAnalysis) -> dict[str, Verdict | None]:
    return {arm.arm: arm.verdict for arm in analysis.levels[0].arms}


def codes(analysis: SweepAnalysis) -> set[str]:
    return {flag.code for flag in analysis.flags}


def test_the_four_verdicts() -> None:
    arms = {
        "steps=1": FASTER,
        "steps=2": SLOWER,
        "steps=3": [base * factor for base, factor in zip(BASELINE, [1.001, 0.999, 1.0, 1.002, 0.998], strict=True)],
        "steps=4": [base * factor for base, factor in zip(BASELINE, [1.1, 0.9, 1.05, 0.95, 1.0], strict=True)],
    }
    analysis = analyse(sweep(arms, BASELINE))
    assert list(verdicts(analysis)) == ["baseline", "steps=1", "steps=2", "steps=3", "steps=4"]
    assert list(verdicts(analysis).values()) == [
        None,
        Verdict.PAYS,
        Verdict.HURTS,
        Verdict.EQUAL,
        Verdict.UNDECIDED,
    ]
    recommendation = analysis.levels[0].recommendation
    assert recommendation.status is RecommendationStatus.UNCONFIRMED
    assert (recommendation.arm, recommendation.steps) == ("steps=1", 1)
    text = json.dumps(analysis.to_json(), allow_nan=False)
    assert json.loads(text)["levels"][0]["arms"][1]["verdict"] == "PAYS"


@pytest.mark.parametrize("lucky", range(5))
@pytest.mark.parametrize("blocks", [1, 2, 3, 4, 5])
def test_a_lucky_launch_never_pays(lucky: int, blocks: int) -> None:
    speeds = list(SLOWER)
    speeds[lucky] = 94.0
    picked = ([lucky] + [place for place in range(5) if place != lucky])[:blocks]
    analysis = analyse(sweep({"steps=3": [speeds[place] for place in picked]}, [BASELINE[place] for place in picked]))
    assert verdicts(analysis)["steps=3"] in {Verdict.UNCONFIRMED, Verdict.UNDECIDED}
    recommendation = analysis.levels[0].recommendation
    assert recommendation.status is RecommendationStatus.UNDECIDED
    assert recommendation.arm == "baseline"


def test_one_launch_is_unconfirmed_and_two_are_undecided() -> None:
    one = analyse(sweep({"steps=3": FASTER[:1]}, BASELINE[:1])).levels[0].arm("steps=3")
    assert (one.verdict, one.reason) == (Verdict.UNCONFIRMED, "one_block")
    assert one.speedup is not None
    assert one.speedup.low is None
    assert one.blocks_needed is None
    two = analyse(sweep({"steps=3": FASTER[:2]}, BASELINE[:2])).levels[0].arm("steps=3")
    assert (two.verdict, two.reason) == (Verdict.UNDECIDED, "few_blocks")
    assert two.blocks_needed == 3


def test_the_figures_of_the_known_case() -> None:
    blocks = range(4)
    launches = [launch("baseline", 1000 / 12, block=block) for block in blocks]
    launches += [launch("steps=3", 60.0, length=1.8, block=block) for block in blocks]
    arm = analyse(launches).levels[0].arm("steps=3")
    assert arm.acceptance_length is not None
    assert arm.cycle_s is not None
    assert arm.break_even_length is not None
    assert arm.acceptance_length.value == pytest.approx(1.8, rel=1e-4)
    assert arm.cycle_s.value == pytest.approx(0.030, rel=1e-4)
    assert arm.break_even_length.value == pytest.approx(2.5, rel=1e-4)
    assert arm.needed_acceptance == pytest.approx(0.691, abs=1e-3)
    assert arm.measured_acceptance == pytest.approx(0.472, abs=1e-3)
    assert arm.speedup is not None
    assert arm.speedup.value == pytest.approx(0.72, rel=1e-4)
    assert arm.can_pay is True
    assert (arm.verdict, arm.p_value) == (Verdict.HURTS, 0.0)
    hopeless = [launch("steps=1", 60.0, length=1.8, block=block) for block in blocks]
    assert analyse(launches + hopeless).levels[0].arm("steps=1").can_pay is False


@pytest.mark.parametrize("length", [0.985, 1.0, 1.0039, 1.0199])
def test_an_unwired_draft_is_a_fault_and_never_ranked(length: float) -> None:
    launches = sweep({"steps=3": FASTER}, BASELINE, length=length)
    analysis = analyse(launches)
    assert verdicts(analysis)["steps=3"] is Verdict.INVALID
    assert analysis.levels[0].arm("steps=3").reason == "draft_unwired"
    assert {flag.code for flag in analysis.faults} == {"draft_unwired"}
    assert analysis.levels[0].recommendation.status is RecommendationStatus.NONE


def test_one_unwired_launch_spoils_the_arm_but_not_an_adaptive_one() -> None:
    launches = sweep({"steps=3": FASTER}, BASELINE)
    launches[-1] = launch("steps=3", 95.2, length=1.0, block=4)
    assert verdicts(analyse(launches))["steps=3"] is Verdict.INVALID
    adaptive = [dataclasses.replace(item, adaptive=item.steps is not None) for item in launches]
    assert verdicts(analyse(adaptive))["steps=3"] is Verdict.PAYS


@pytest.mark.parametrize("steps", [None, 3])
def test_an_adaptive_arm_has_no_number_of_steps_to_judge(steps: int | None) -> None:
    launches = [launch("baseline", tps, block=block) for block, tps in enumerate(BASELINE)]
    launches += [
        launch("adaptive", tps, steps=steps, length=4.5, block=block, adaptive=True) for block, tps in enumerate(FASTER)
    ]
    level = analyse(launches).levels[0]
    arm = level.arm("adaptive")
    assert (arm.verdict, arm.adaptive, arm.steps) == (Verdict.PAYS, True, steps)
    assert arm.break_even_length is not None
    assert (arm.can_pay, arm.needed_acceptance) == (None, None)
    assert level.recommendation.arm == "adaptive"


def test_speculation_that_was_not_active() -> None:
    launches = [launch("baseline", tps, block=block) for block, tps in enumerate(BASELINE)]
    launches += [launch("s", tps, steps=3, block=block, length=None) for block, tps in enumerate(BASELINE)]
    analysis = analyse(launches)
    assert analysis.levels[0].arm("s").reason == "no_verify_steps"
    assert analysis.levels[0].arm("s").acceptance_length is None


def test_a_baseline_that_speculates_spoils_the_level() -> None:
    launches = [launch("baseline", tps, block=block, length=1.5) for block, tps in enumerate(BASELINE)]
    launches += [launch("steps=3", tps, block=block) for block, tps in enumerate(FASTER)]
    analysis = analyse(launches)
    assert verdicts(analysis) == {"baseline": Verdict.INVALID, "steps=3": Verdict.INVALID}
    assert analysis.levels[0].arm("steps=3").reason == "baseline_speculates"
    assert "unexpected_speculation" in codes(analysis)


def test_mixed_simulated_and_real() -> None:
    launches = sweep({"steps=3": FASTER}, BASELINE)
    launches[0] = dataclasses.replace(launches[0], simulated=True)
    analysis = analyse(launches)
    assert analysis.simulated
    assert set(verdicts(analysis).values()) == {Verdict.INVALID}


def test_no_baseline() -> None:
    launches = [launch("steps=3", tps, block=block) for block, tps in enumerate(FASTER)]
    analysis = analyse(launches)
    arm = analysis.levels[0].arm("steps=3")
    assert (arm.verdict, arm.reason) == (Verdict.UNDECIDED, "no_baseline")
    assert arm.break_even_length is None
    assert "no_baseline" in codes(analysis)
    assert analysis.levels[0].recommendation.status is RecommendationStatus.NONE
    assert analyse(launches, baseline="missing").levels[0].baseline is None


def test_failed_cells() -> None:
    launches = [*sweep({"steps=3": FASTER}, BASELINE), failed("steps=5", steps=5), failed("steps=3", block=9, steps=3)]
    analysis = analyse(launches)
    assert verdicts(analysis)["steps=5"] is Verdict.FAILED
    assert verdicts(analysis)["steps=3"] is Verdict.PAYS
    assert analysis.levels[0].arm("steps=3").failed_launches == 1
    assert (analysis.launches, analysis.failed_launches) == (10, 2)
    assert "launch_failed" in codes(analysis)
    nothing = analyse([failed("baseline"), failed("steps=3", steps=3)])
    assert set(verdicts(nothing).values()) == {Verdict.FAILED}
    no_baseline = analyse([failed("baseline"), launch("steps=3", 95.0)])
    assert no_baseline.levels[0].arm("steps=3").reason == "no_baseline"
    assert analyse([]).levels[0].arms == ()


def test_no_common_block() -> None:
    launches = [launch("baseline", 82.0, block=0), launch("steps=3", 95.0, block=1)]
    arm = analyse(launches).levels[0].arm("steps=3")
    assert (arm.verdict, arm.reason, arm.blocks) == (Verdict.UNDECIDED, "no_common_block", 0)


def test_ties_go_to_fewer_steps() -> None:
    arms = {"steps=2": FASTER, "steps=3": [speed * 1.01 for speed in FASTER], "steps=4": [s * 1.2 for s in BASELINE]}
    winner = analyse(sweep(arms, BASELINE)).levels[0].recommendation
    assert winner.arm == "steps=4"
    assert winner.tied_with == ()
    del arms["steps=4"]
    winner = analyse(sweep(arms, BASELINE)).levels[0].recommendation
    assert (winner.arm, winner.tied_with) == ("steps=2", ("steps=3",))


def test_nothing_pays() -> None:
    recommendation = analyse(sweep({"steps=3": SLOWER}, BASELINE)).levels[0].recommendation
    assert (recommendation.status, recommendation.arm) == (RecommendationStatus.BASELINE, "baseline")


def confirmed(*speeds: float, length: float = 1.8, baseline: float = 82.4) -> SweepAnalysis:
    launches = sweep({"steps=3": FASTER}, BASELINE)
    for place, speed in enumerate(speeds):
        launches.append(launch("baseline", baseline, block=10 + place, confirmation=True))
        launches.append(launch("steps=3", speed, length=length, block=10 + place, confirmation=True))
    return analyse(launches)


def test_the_winner_is_confirmed_on_fresh_launches() -> None:
    analysis = confirmed(95.4, 95.9)
    recommendation = analysis.levels[0].recommendation
    assert recommendation.status is RecommendationStatus.CONFIRMED
    assert recommendation.confirmation is not None
    assert recommendation.confirmation.launches == 2
    arm = analysis.levels[0].arm("steps=3")
    assert arm.launches == 5  # the fresh ones take no part in the choice
    assert [point.confirmation for point in arm.points] == [False] * 5 + [True] * 2


@pytest.mark.parametrize(("length", "part"), [(1.8 * 60 / 95.5, "acceptance"), (1.8, "cycle")])
def test_a_miss_names_the_part_that_moved(length: float, part: str) -> None:
    recommendation = confirmed(60.0, length=length).levels[0].recommendation
    assert recommendation.status is RecommendationStatus.NOT_REPRODUCED
    assert recommendation.confirmation is not None
    (miss,) = recommendation.confirmation.misses
    assert miss.larger_part == part
    assert miss.ln_speed == pytest.approx(miss.ln_acceptance - miss.ln_cycle, abs=1e-9)


@pytest.mark.parametrize(("speed", "status"), [(95.7, "CONFIRMED"), (96.9, "CONFIRMED"), (98.0, "NOT_REPRODUCED")])
def test_what_differs_by_less_than_the_margin_is_no_miss(speed: float, status: str) -> None:
    launches = sweep({"steps=3": [95.4, 95.41, 95.4]}, BASELINE[:3])  # they predict 95.4 +- 0.03
    launches += [launch(arm, at, block=9, confirmation=True) for arm, at in (("baseline", 82.4), ("steps=3", speed))]
    assert analyse(launches).levels[0].recommendation.status == status


def test_reproduced_but_not_faster_than_its_own_baseline() -> None:
    recommendation = confirmed(95.5, baseline=97.0).levels[0].recommendation
    assert recommendation.status is RecommendationStatus.NOT_REPRODUCED
    assert recommendation.confirmation is not None
    assert recommendation.confirmation.misses == ()


def test_a_confirmation_without_a_baseline_of_its_own() -> None:
    launches = sweep({"steps=3": FASTER}, BASELINE)
    launches.append(launch("steps=3", 95.4, block=10, confirmation=True))
    recommendation = analyse(launches).levels[0].recommendation
    assert recommendation.status is RecommendationStatus.CONFIRMED
    assert recommendation.confirmation is not None
    assert recommendation.confirmation.speedup is None


def test_levels_are_separate() -> None:
    launches = []
    for block in range(4):
        for arm, one, many in (("baseline", 80.0, 20.0), ("steps=3", 100.0, 15.0)):
            item = launch(arm, one, block=block)
            length = None if arm == "baseline" else 1.8
            launches.append(
                dataclasses.replace(item, runs=(*item.runs, run(many, length=length, concurrency=32, wall_s=50.0)))
            )
    low, high = analyse(launches).levels
    assert (low.concurrency, high.concurrency) == (1, 32)
    assert low.arm("steps=3").verdict is Verdict.PAYS
    assert high.arm("steps=3").verdict is Verdict.HURTS
    output = high.arm("steps=3").output_tokens_per_s
    assert output is not None
    assert output.value == pytest.approx(100_000 / 50)
    with pytest.raises(KeyError):
        low.arm("steps=9")


def test_holm_makes_several_arms_harder() -> None:
    # One arm alone is just beyond the margin; the same arm among many is not.
    close = [base * factor for base, factor in zip(BASELINE, [1.035, 1.055, 1.04, 1.06, 1.03], strict=True)]
    alone = analyse(sweep({"steps=1": close}, BASELINE)).levels[0].arm("steps=1")
    noisy = [base * factor for base, factor in zip(BASELINE, [1.2, 0.8, 1.1, 0.9, 1.0], strict=True)]
    arms = {"steps=1": close, **{f"steps={k}": noisy for k in range(2, 12)}}
    among = analyse(sweep(arms, BASELINE)).levels[0].arm("steps=1")
    assert alone.verdict is Verdict.PAYS
    assert (among.verdict, among.reason) == (Verdict.UNDECIDED, "several_arms")
    assert alone.speedup == among.speedup


def test_aa_noise_widens_the_margin() -> None:
    launches = sweep({}, BASELINE)
    launches += [
        launch("again", tps * factor, block=block)
        for block, (tps, factor) in enumerate(zip(BASELINE, [1.03, 0.98, 1.02, 0.97, 1.01], strict=True))
    ]
    noise = aa_noise(launches, "baseline", "again")
    assert noise is not None
    assert 0.02 < noise < 0.05
    analysis = analyse(launches, aa_noise=noise)
    assert analysis.margin == noise
    assert analyse(launches, aa_noise=noise * 1.01).levels[0].arm("again").verdict is Verdict.EQUAL
    assert aa_noise(launches[:1], "baseline", "again") is None
    assert aa_noise(launches, "baseline", "again", concurrency=8) is None
    # Two arms without speculation: the one called baseline is the baseline, whatever the order.
    assert analyse(launches[::-1]).levels[0].baseline == "baseline"
    assert analyse([launch("b", 80.0), launch("a", 80.0)]).levels[0].baseline == "a"


def test_position_acceptance_and_prediction() -> None:
    launches = []
    for block in range(3):
        launches.append(launch("baseline", 80.0 + block / 10, block=block))
        for steps, length, speed in ((1, 1.8, 100.0), (3, 2.6, 130.0)):
            decoded = 100_000 - 4
            verify = round(decoded / length)
            shares = (0.2, 0.8) if steps == 1 else (0.2, 0.2, 0.4, 0.2)
            histogram = tuple(round(share * verify) for share in shares)
            launches.append(
                launch(f"steps={steps}", speed, length=length, block=block, run_more={"accept_histogram": histogram})
            )
    level = analyse(launches).levels[0]
    assert level.arm("steps=3").acceptance_by_position == pytest.approx((0.8, 0.75, 1 / 3), abs=1e-3)
    assert level.step_prediction is not None
    assert level.step_prediction.source_arm == "steps=3"
    assert level.step_prediction.predicted_best == 3
    assert level.step_prediction.agrees


def test_flags() -> None:
    base = [launch("baseline", tps, block=block) for block, tps in enumerate([80.0, 84.0, 81.0, 83.0])]
    arm = [
        launch("steps=3", [70.0, 100.0, 100.0], block=0),
        launch("steps=3", [100.0], block=1),
        launch("steps=3", 100.0, block=2, run_more={"failed_requests": 2, "joined_chunks": 3}),
        launch("steps=3", 100.0, block=3),
    ]
    analysis = analyse(base + arm)
    assert codes(analysis) >= {"slow_first_run", "requests_failed", "joined_chunks", "baseline_moved"}
    lucky = analyse(sweep({"steps=3": [94.0, 60.0, 60.5, 61.0, 59.5]}, BASELINE))
    assert codes(lucky) >= {"outlier_launch", "high_variation"}
    assert lucky.levels[0].arm("steps=3").launches == 5  # flagged, not dropped
    drifting = analyse(sweep({"steps=3": [100 - 3 * block for block in range(6)]}, [80 - 2 * b for b in range(6)]))
    assert "drift" in codes(drifting)
    assert "drift" not in codes(analyse(sweep({"steps=3": FASTER}, BASELINE)))


@pytest.mark.parametrize(
    ("settings_", "words"),
    [({"margin": 0.0}, "margin is 0"), ({"aa_noise": -0.1}, "noise -0.1"), ({"confidence": 1.0}, "confidence is 1")],
)
def test_refuses_settings_with_a_sentence(settings_: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        analyse([], **settings_)  # type: ignore[arg-type]


SPEEDS = st.lists(st.floats(20, 200), min_size=1, max_size=6)


def drawn(data: st.DataObject) -> list[Launch]:
    base = data.draw(SPEEDS)
    arms = {
        f"steps={k}": data.draw(st.lists(st.floats(20, 200), min_size=len(base), max_size=len(base))) for k in (1, 3)
    }
    return sweep(arms, base)


def summary(analysis: SweepAnalysis) -> list[object]:
    """What must not change under a change that has no meaning; figures rounded against the noise of floats."""

    def rounded(value: float | None) -> float | None:
        return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")

    return [
        (arm.arm, arm.verdict, arm.reason, arm.speedup and (rounded(arm.speedup.value), rounded(arm.speedup.low)))
        for arm in analysis.levels[0].arms
    ] + [analysis.levels[0].recommendation.status, analysis.levels[0].recommendation.arm]


def scaled(item: Launch, factor: float) -> Launch:
    runs = tuple(
        dataclasses.replace(one, decode_s=one.decode_s / factor, wall_s=one.wall_s / factor) for one in item.runs
    )
    return dataclasses.replace(item, runs=runs)


@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from([0.25, 0.5, 2.0, 8.0]))
def test_the_unit_of_speed_does_not_matter(data: st.DataObject, factor: float) -> None:
    launches = drawn(data)
    assert summary(analyse(launches)) == summary(analyse([scaled(item, factor) for item in launches]))


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(0, 2**32))
def test_the_order_of_launches_does_not_matter(data: st.DataObject, seed: int) -> None:
    launches = drawn(data)
    shuffled = list(launches)
    random.Random(seed).shuffle(shuffled)
    assert analyse(launches).to_json() == analyse(shuffled).to_json()


@settings(max_examples=40, deadline=None)
@given(st.data(), st.lists(st.sampled_from([0.5, 1.0, 2.0, 4.0]), min_size=6, max_size=6))
def test_what_a_whole_block_shares_does_not_matter(data: st.DataObject, factors: list[float]) -> None:
    launches = drawn(data)
    moved = [scaled(item, factors[item.block]) for item in launches]
    assert summary(analyse(launches)) == summary(analyse(moved))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_the_number_of_a_block_does_not_matter(data: st.DataObject) -> None:
    launches = drawn(data)
    renumbered = [dataclasses.replace(item, block=100 - item.block) for item in launches]
    assert summary(analyse(launches)) == summary(analyse(renumbered))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_swapping_arm_and_baseline_swaps_the_verdict(data: st.DataObject) -> None:
    base = data.draw(SPEEDS)
    other = data.draw(st.lists(st.floats(20, 200), min_size=len(base), max_size=len(base)))

    def verdict(first: list[float], second: list[float]) -> Verdict | None:
        launches = [launch("baseline", tps, block=block) for block, tps in enumerate(first)]
        launches += [launch("other", tps, block=block) for block, tps in enumerate(second)]
        return analyse(launches).levels[0].arm("other").verdict

    mirrored = {Verdict.PAYS: Verdict.HURTS, Verdict.HURTS: Verdict.PAYS}
    found, expected = verdict(base, other), verdict(other, base)
    assert found is not None
    assert mirrored.get(found, found) == expected
