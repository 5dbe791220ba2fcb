from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from controller.analysis.intervals import (
    exponential,
    jackknife_ratio,
    mean_interval,
    safe_exp,
    t_quantile,
    t_tail,
)
from controller.analysis.paired import holm, paired_effect, sign_flip_p
from controller.analysis.prediction import prediction_interval
from controller.analysis.result import Interval
from controller.analysis.trend import deviations, mann_kendall_p, theil_sen_slope
from controller.analysis.variance import split_variance

VALUES = st.lists(st.floats(-10, 10, allow_subnormal=False), min_size=2, max_size=12)


@pytest.mark.parametrize("degrees", [1, 2, 4, 9, 100])
def test_student(degrees: int) -> None:
    assert t_quantile(0.95, degrees) == pytest.approx(stats.t.ppf(0.975, degrees))
    assert t_tail(1.7, degrees) == pytest.approx(stats.t.sf(1.7, degrees))


@given(VALUES)
def test_mean_interval_is_the_one_of_scipy(values: list[float]) -> None:
    found = mean_interval(values, 0.95)
    assert found.low is not None
    error = stats.sem(values)
    if error > 1e-6:
        low, high = stats.t.interval(0.95, len(values) - 1, loc=sum(values) / len(values), scale=error)
        assert found.low == pytest.approx(low)
        assert found.high == pytest.approx(high)


def test_one_value_has_no_interval() -> None:
    assert mean_interval([3.0], 0.95) == Interval(3.0)
    assert exponential(Interval(0.0)) == Interval(1.0)
    assert jackknife_ratio([4.0], [2.0], 0.95) == Interval(2.0)


def test_absurdly_wide_intervals_stay_numbers() -> None:
    assert safe_exp(1e6) == math.inf
    found = jackknife_ratio([1.0, 1e10], [1e10, 1.0], 0.99)
    assert found.low == 0.0
    assert found.high == math.inf


@given(st.lists(st.tuples(st.floats(1, 100), st.floats(1, 100)), min_size=2, max_size=10), st.floats(0.1, 10))
def test_jackknife_scales(pairs: list[tuple[float, float]], unit: float) -> None:
    tops, bottoms = zip(*pairs, strict=True)
    one = jackknife_ratio(tops, bottoms, 0.95)
    other = jackknife_ratio([top * unit for top in tops], bottoms, 0.95)
    assert one.low is not None
    assert one.high is not None
    assert other.low == pytest.approx(one.low * unit)
    assert other.value == pytest.approx(one.value * unit)
    assert one.low <= one.value * (1 + 1e-12)
    assert one.value <= one.high * (1 + 1e-12)


def test_jackknife_of_equal_weights_is_close_to_the_t_interval() -> None:
    draw = random.Random(1)
    rates = [100 * math.exp(draw.gauss(0, 0.01)) for _ in range(8)]
    found = jackknife_ratio([1000.0] * 8, [1000 / rate for rate in rates], 0.95)
    expected = exponential(mean_interval([math.log(rate) for rate in rates], 0.95))
    assert found.low == pytest.approx(expected.low, rel=1e-3)
    assert found.high == pytest.approx(expected.high, rel=1e-3)


def test_smallest_sign_flip_p() -> None:
    assert sign_flip_p([0.1] * 5) == 0.0625
    assert sign_flip_p([0.1, 0.2, 0.3, 0.1, 0.2, 0.1]) == 0.03125
    assert sign_flip_p([0.0, 0.0]) == 1.0
    assert sign_flip_p([0.0] * 20) == 1.0
    assert sign_flip_p([0.1] * 20) < 1e-4


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=9))
def test_sign_flip_is_exact(values: list[int]) -> None:
    sums = [
        abs(sum(sign * value for sign, value in zip(signs, values, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(values))
    ]
    expected = sum(total >= abs(sum(values)) for total in sums) / len(sums)
    assert sign_flip_p([float(value) for value in values]) == pytest.approx(expected)
    assert sign_flip_p([-float(value) for value in values]) == pytest.approx(expected)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(p <= q <= min(1.0, len(p_values) * p) for p, q in zip(p_values, adjusted, strict=True))
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    assert [adjusted[place] for place in order] == sorted(adjusted)


def test_holm_known() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []


def test_paired_effect() -> None:
    effect = paired_effect([0.10, 0.12, 0.11, 0.13], margin=0.02, confidence=0.95)
    expected = stats.ttest_1samp([0.10, 0.12, 0.11, 0.13], 0.02, alternative="greater")
    assert effect.p_above == pytest.approx(expected.pvalue)
    assert effect.sd == pytest.approx(0.0129, abs=1e-4)
    assert effect.p_outside < 0.01
    assert paired_effect([0.1], margin=0.02, confidence=0.95).p_outside == 1.0
    still = paired_effect([0.5, 0.5, 0.5], margin=0.02, confidence=0.95)
    assert (still.p_above, still.p_below) == (0.0, 1.0)


def test_variance_split_finds_both_parts() -> None:
    draw = random.Random(7)
    launches = []
    for _ in range(400):
        level = draw.gauss(0, 0.03)
        launches.append({run: level + 0.2 * run + draw.gauss(0, 0.01) for run in range(4)})
    split = split_variance(launches)
    assert split is not None
    assert split.sd_launch == pytest.approx(0.03, rel=0.1)
    assert split.sd_run == pytest.approx(0.01, rel=0.1)
    assert split.icc == pytest.approx(0.9, abs=0.03)
    assert (split.launches, split.runs) == (400, 4)


def test_variance_split_needs_two_of_each() -> None:
    assert split_variance([{0: 1.0, 1: 1.0}]) is None
    assert split_variance([{0: 1.0}, {0: 1.0}]) is None
    assert split_variance([{0: 1.0, 1: 2.0}, {1: 2.0, 2: 1.0}]) is None
    still = split_variance([{0: 1.0, 1: 2.0}, {0: 1.0, 1: 2.0}])
    assert still is not None
    assert still.icc == 0.0


@pytest.mark.parametrize("count", range(3, 8))
def test_mann_kendall_is_exact(count: int) -> None:
    def score(values: tuple[int, ...]) -> int:
        return abs(sum(1 if later > earlier else -1 for earlier, later in itertools.combinations(values, 2)))

    orders = list(itertools.permutations(range(count)))
    for values in orders[:: max(1, len(orders) // 7)]:
        expected = sum(score(other) >= score(values) for other in orders) / len(orders)
        assert mann_kendall_p([float(value) for value in values]) == pytest.approx(expected)


def test_mann_kendall_long() -> None:
    assert mann_kendall_p([1.0, 2.0]) == 1.0
    assert mann_kendall_p([float(value) for value in range(30)]) < 1e-6
    draw = random.Random(3)
    noise = [draw.random() for _ in range(200)]
    assert mann_kendall_p(noise) == pytest.approx(stats.kendalltau(range(200), noise).pvalue, abs=0.01)
    assert mann_kendall_p([1.0] * 20) == 1.0


def test_theil_sen() -> None:
    values = [3.0 + 0.5 * place for place in range(10)]
    values[4] = 100.0
    assert theil_sen_slope(values) == pytest.approx(0.5)
    assert theil_sen_slope([1.0]) == 0.0
    assert theil_sen_slope([0.25 * place for place in range(5000)]) == pytest.approx(0.25)


def test_deviations() -> None:
    assert deviations([94.0, 60.0, 60.5, 61.0, 59.5])[0] > 50
    assert deviations([1.0, 1.0, 1.0, 5.0]) == [0.0] * 4


def test_prediction_interval() -> None:
    assert prediction_interval([1.0], confidence=0.95) is None
    one = prediction_interval([1.0, 1.1, 0.9], confidence=0.95)
    many = prediction_interval([1.0, 1.1, 0.9], confidence=0.95, fresh=5)
    assert one is not None
    assert many is not None
    assert one.high == pytest.approx(1.0 + stats.t.ppf(0.975, 2) * 0.1 * math.sqrt(4 / 3))
    assert one.high is not None
    assert many.high is not None
    assert many.high > one.high
    # A group of one borrows the scatter of others, whatever their mean; a constant more changes nothing but the mean.
    borrowed = prediction_interval([1.0], confidence=0.95, elsewhere=[[], [5.0, 5.1, 4.9]])
    assert borrowed is not None
    assert borrowed.value == 1.0
    assert borrowed.high == pytest.approx(1.0 + stats.t.ppf(0.975, 2) * 0.1 * math.sqrt(2))
    assert prediction_interval([], confidence=0.95, elsewhere=[[5.0, 5.1]]) is None
    assert prediction_interval([1.0], confidence=0.95, elsewhere=[[5.0]]) is None
