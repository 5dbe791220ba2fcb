from __future__ import annotations

import random

import pytest

from controller.analysis.compare import ArmChange, compare_sweeps, welch
from controller.analysis.result import Verdict
from tests.unit.controller.analysis.builders import launch, sweep

BASELINE = [82.0, 83.0, 82.5, 83.0, 82.2]
FASTER = [95.0, 96.0, 95.5, 96.5, 95.2]
SLOWER = [60.0, 60.5, 61.0, 59.5, 60.0]


def changes(first: list[float], second: list[float], **more: object) -> ArmChange:
    ours, theirs = sweep({"steps=2": first}, BASELINE), sweep({"steps=2": second}, BASELINE, **more)
    return {item.arm: item for item in compare_sweeps(ours, theirs, margin=0.02, confidence=0.95)}["steps=2"]


@pytest.mark.parametrize(
    ("first", "second", "verdict", "reason"),
    [
        (SLOWER, FASTER, Verdict.PAYS, "above_margin"),
        (FASTER, SLOWER, Verdict.HURTS, "below_margin"),
        (FASTER, FASTER, Verdict.EQUAL, "within_margin"),
        (SLOWER, [94.0, 60.0, 60.5, 61.0, 59.5], Verdict.UNDECIDED, "interval_crosses_margin"),
        (SLOWER, FASTER[:2], Verdict.UNDECIDED, "few_launches"),
        (SLOWER, FASTER[:1], Verdict.UNCONFIRMED, "one_launch"),
    ],
)
def test_verdicts(first: list[float], second: list[float], verdict: Verdict, reason: str) -> None:
    item = changes(first, second)
    assert (item.verdict, item.reason) == (verdict, reason)


def test_a_change_is_split_into_acceptance_and_cycle() -> None:
    item = changes(SLOWER, FASTER, length=1.8 * 95.6 / 60.2)
    assert item.larger_part == "acceptance"
    assert item.speed is not None
    assert item.length is not None
    assert item.cycle is not None
    assert item.speed.value == pytest.approx(item.length.value / item.cycle.value)
    assert changes(SLOWER, FASTER).larger_part == "cycle"


def test_faults_and_missing_launches() -> None:
    assert changes(SLOWER, FASTER, length=1.0).verdict is Verdict.INVALID
    first, second = sweep({"steps=2": SLOWER}, BASELINE), sweep({"steps=3": SLOWER}, BASELINE)
    assert [item.arm for item in compare_sweeps(first, second, margin=0.02, confidence=0.95)] == ["baseline"]
    eight = [launch("baseline", 82.0, levels=(8,))]
    assert compare_sweeps(first, eight, margin=0.02, confidence=0.95) == ()
    both = [launch("baseline", 82.0, levels=(1, 8)), launch("steps=2", 60.0, levels=(8,))]
    found = compare_sweeps(first, both, margin=0.02, confidence=0.95)
    assert [item.verdict for item in found if item.arm == "steps=2"] == [Verdict.FAILED]


def test_equal_sweeps_are_seldom_called_different() -> None:
    """500 pairs of sweeps without a difference, launches 3 % apart, hardly a margin: at most 5 % and chance."""
    generator = random.Random(3)
    wrong = 0
    for _ in range(500):
        sides = [
            [launch("baseline", 80 * generator.lognormvariate(0, 0.03), block=block) for block in range(4)]
            for _ in "ab"
        ]
        [item] = compare_sweeps(sides[0], sides[1], margin=1e-6, confidence=0.95)
        wrong += item.verdict in {Verdict.PAYS, Verdict.HURTS}
    assert wrong <= 39  # 5 % of 500 plus three standard deviations


def test_interval_is_scipys() -> None:
    from scipy.stats import ttest_ind  # noqa: PLC0415

    expected = ttest_ind(FASTER, SLOWER[:4], equal_var=False).confidence_interval(0.95)
    found = welch(SLOWER[:4], FASTER, 0.95).interval
    assert found.low == pytest.approx(expected.low)
    assert found.high == pytest.approx(expected.high)
    assert welch([1.0, 1.0], [1.0, 1.0], 0.95).interval.low == 0.0
