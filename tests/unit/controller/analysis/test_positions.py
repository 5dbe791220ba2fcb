from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.analysis.positions import (
    acceptance_by_position,
    marginal_steps,
    predict_steps,
    predicted_length,
    survival,
)


def test_known() -> None:
    rates = survival([20, 30, 10, 40])
    assert rates == pytest.approx((0.8, 0.5, 0.4))
    assert acceptance_by_position(rates) == pytest.approx((0.8, 0.625, 0.8))
    assert predicted_length(rates, 2) == pytest.approx(2.3)
    assert survival([5], 3) == (0.0, 0.0, 0.0)
    assert acceptance_by_position((0.0, 0.0)) == (0.0, 0.0)
    assert survival([]) == ()
    assert survival([0, 0], 2) == ()


@settings(deadline=None)
@given(st.lists(st.integers(0, 1000), min_size=2, max_size=9).filter(sum))
def test_length_is_one_plus_the_mean_of_the_histogram(histogram: list[int]) -> None:
    rates = survival(histogram)
    mean = sum(accepted * count for accepted, count in enumerate(histogram)) / sum(histogram)
    assert predicted_length(rates, len(rates)) == pytest.approx(1 + mean)
    assert all(later <= earlier for earlier, later in itertools.pairwise(rates))
    assert all(0 <= rate <= 1 + 1e-12 for rate in acceptance_by_position(rates))


def test_marginal_rule_is_the_comparison_of_speeds() -> None:
    rates = (0.8, 0.5, 0.4, 0.1)
    cycles = {1: 20.0, 2: 23.0, 3: 26.0, 4: 30.0}
    for step in marginal_steps(cycles, rates):
        faster = predicted_length(rates, step.next_steps) / cycles[step.next_steps] > (
            predicted_length(rates, step.steps) / cycles[step.steps]
        )
        assert step.pays == faster
    (wide,) = marginal_steps({1: 20.0, 4: 30.0, 9: 99.0}, rates)
    assert (wide.steps, wide.next_steps) == (1, 4)
    assert wide.survival == pytest.approx(1 / 3)


def test_prediction() -> None:
    found = predict_steps(
        source_arm="steps=3",
        rates=(0.8, 0.6, 0.1),
        cycles={1: 20.0, 3: 24.0},
        decode_s=12.0,
        measured={1: 1.08, 3: 1.25},
    )
    assert found is not None
    assert found.predicted_best == 2
    assert found.measured_best == 3
    assert not found.agrees
    assert dict(found.predicted_speedup)[2] == pytest.approx(2.4 * 12 / 22)


def test_prediction_of_nothing() -> None:
    slow = predict_steps(
        source_arm="a", rates=(0.1, 0.1), cycles={1: 30.0, 2: 33.0}, decode_s=12.0, measured={1: 0.4, 2: 0.4}
    )
    assert slow is not None
    assert (slow.predicted_best, slow.measured_best, slow.agrees) == (0, 0, True)
    assert predict_steps(source_arm="a", rates=(0.1,), cycles={1: 30.0}, decode_s=12.0, measured={1: 1.0}) is None
    steep = predict_steps(
        source_arm="a", rates=(0.9,) * 4, cycles={3: 1.0, 4: 11.0}, decode_s=12.0, measured={3: 2.0, 4: 1.0}
    )
    assert steep is not None
    assert [steps for steps, _ in steep.predicted_speedup] == [3, 4]  # the line gives no time for 1 and 2
