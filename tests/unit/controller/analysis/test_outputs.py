from __future__ import annotations

from typing import TYPE_CHECKING

from controller.analysis.outputs import output_agreement
from controller.analysis.points import points_at
from controller.analysis.sweep import analyse
from tests.unit.controller.analysis.builders import launch

if TYPE_CHECKING:
    from controller.analysis.result import SweepAnalysis

SAME = tuple((prompt, f"text {prompt}") for prompt in range(8))
OTHER = tuple((prompt, f"other {prompt}") for prompt in range(8))


def analysed(baseline: list[tuple[tuple[int, str], ...]], arm: list[tuple[tuple[int, str], ...]]) -> SweepAnalysis:
    launches = [
        launch("baseline", [82.0 + block / 10], block=block, run_more={"answers": answers})
        for block, answers in enumerate(baseline)
    ]
    launches += [
        launch("steps=3", [60.0 + block / 10], block=block, run_more={"answers": answers})
        for block, answers in enumerate(arm)
    ]
    return analyse(launches)


def test_the_same_answers_are_no_flag() -> None:
    analysis = analysed([SAME] * 3, [SAME] * 3)
    outputs = analysis.levels[0].arm("steps=3").outputs
    assert outputs is not None
    assert (outputs.with_baseline, outputs.within_baseline, outputs.differs, outputs.prompts) == (1.0, 1.0, False, 8)
    assert analysis.levels[0].arm("baseline").outputs is None
    assert "outputs_differ" not in {flag.code for flag in analysis.flags}


def test_other_answers_are_flagged_and_the_verdict_stays() -> None:
    analysis = analysed([SAME] * 3, [OTHER] * 3)
    outputs = analysis.levels[0].arm("steps=3").outputs
    assert outputs is not None
    assert outputs.differs
    assert outputs.p_value == 1 / 256
    (flag,) = [flag for flag in analysis.flags if flag.code == "outputs_differ"]
    assert (flag.arm, flag.fault, flag.values["prompts"]) == ("steps=3", False, 8)
    assert flag.values["with_baseline_percent"] == 0.0
    assert analysis.levels[0].arm("steps=3").verdict is not None


def test_an_arm_may_differ_as_often_as_the_baseline_differs_from_itself() -> None:
    restless = [tuple((prompt, f"{block} {prompt}") for prompt in range(8)) for block in range(3)]
    outputs = analysed(restless, [OTHER] * 3).levels[0].arm("steps=3").outputs
    assert outputs is not None
    assert not outputs.differs
    assert outputs.p_value == 1.0


def test_one_prompt_that_differs_is_no_evidence() -> None:
    one_off = (*SAME[:7], (7, "other"))
    outputs = analysed([SAME] * 3, [one_off] * 3).levels[0].arm("steps=3").outputs
    assert outputs is not None
    assert outputs.with_baseline == 7 / 8
    assert not outputs.differs


def test_one_baseline_launch_says_nothing() -> None:
    points = points_at([launch("baseline", [80.0], run_more={"answers": SAME})], 1)
    assert output_agreement(points, points) is None
    assert output_agreement([], points * 2) is None
