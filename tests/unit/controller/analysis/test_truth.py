"""The error rates and intervals hold on sweeps whose truth is known; ``tests/bench/truth.py`` prints the long table."""

from __future__ import annotations

import dataclasses
import math

import pytest

from controller.analysis.result import Verdict
from tests.bench.truth import STORY, Truth, claim_rate, coverage, reproduction, stop_rule_rate

MARGIN = math.log(1.02)
SWEEPS = 400
TOLERANCE = 0.03  # about three standard errors of a 5 % rate in 400 sweeps


def test_equal_arms_are_rarely_told_apart() -> None:
    assert claim_rate(Truth((0.0, 0.0, 0.0)), SWEEPS, seed=11) <= 0.05


@pytest.mark.parametrize(("effect", "verdict"), [(MARGIN, Verdict.PAYS), (-MARGIN, Verdict.HURTS)])
def test_arms_at_the_margin_are_rarely_claimed(effect: float, verdict: Verdict) -> None:
    assert claim_rate(Truth((effect,) * 3), SWEEPS, seed=12, verdicts=frozenset({verdict})) <= 0.05


def test_the_stop_rule_keeps_the_error_rate() -> None:
    for truth in (Truth((MARGIN,)), Truth((MARGIN,) * 3)):
        rate, blocks = stop_rule_rate(truth, (5, 10, 15), SWEEPS, 18, frozenset({Verdict.PAYS}))
        assert rate <= 0.05
        assert blocks > 10


def test_the_stop_rule_decides_what_is_clear_without_adding_much() -> None:
    rate, blocks = stop_rule_rate(Truth((0.10,)), (5, 10, 15), 100, 19, frozenset({Verdict.PAYS}))
    assert rate > 0.95
    assert blocks < 7


def test_intervals_cover() -> None:
    for name, share in coverage(Truth((0.10,)), SWEEPS, seed=13).items():
        assert 0.95 - TOLERANCE <= share <= 0.95 + TOLERANCE, name


def test_right_winners_are_reproduced() -> None:
    missed, won = reproduction(Truth((0.10,), blocks=6, fresh_blocks=2), SWEEPS, seed=14)
    assert won > 0.9
    assert missed <= 0.05 + TOLERANCE


def test_lucky_launches_do_not_pay() -> None:
    pays = frozenset({Verdict.PAYS})
    assert claim_rate(STORY, SWEEPS, seed=15, verdicts=pays) == 0.0
    assert claim_rate(dataclasses.replace(STORY, blocks=1), SWEEPS, seed=16, verdicts=pays) == 0.0


def test_power() -> None:
    assert claim_rate(Truth((0.15,)), 100, seed=17, verdicts=frozenset({Verdict.PAYS})) > 0.95
