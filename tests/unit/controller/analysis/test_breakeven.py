from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.analysis.breakeven import BreakevenError, breakeven, can_pay, equal_acceptance, length_of


def test_the_known_case() -> None:
    result = breakeven(12, 30)
    assert result.break_even_length == 2.5
    needed = {step.steps: step.needed_acceptance for step in result.steps}
    assert not result.steps[0].can_pay
    assert needed[1] is None
    assert [round(needed[k] or 0, 3) for k in (2, 3, 4, 5, 7)] == [0.823, 0.691, 0.644, 0.624, 0.607]
    assert json.loads(json.dumps(result.to_json()))["steps"][1]["steps"] == 2


@pytest.mark.parametrize(
    ("decode", "cycle", "steps", "words"),
    [
        (0, 30, 8, "decode time is 0 ms"),
        (-1, 30, 8, "more than 0"),
        (12, float("nan"), 8, "cycle time is nan"),
        (12, float("inf"), 8, "milliseconds as a number"),
        (12, 4e6, 8, "at most one hour"),
        ("12", 30, 8, "decode time is '12'"),
        (True, 30, 8, "milliseconds as a number"),
        (12, 30, 0, "from 1 to 64"),
        (12, 30, 65, "from 1 to 64"),
        (12, 30, 2.0, "whole number"),
        (12, 30, True, "whole number"),
    ],
)
def test_refuses_with_a_sentence(decode: object, cycle: object, steps: object, words: str) -> None:
    with pytest.raises(BreakevenError, match=words):
        breakeven(decode, cycle, steps)  # type: ignore[arg-type]


@settings(deadline=None)
@given(st.floats(0, 1), st.integers(1, 16))
def test_acceptance_and_length_are_inverse(acceptance: float, steps: int) -> None:
    length = length_of(acceptance, steps)
    assert 1 <= length <= steps + 1
    found = equal_acceptance(min(length, steps + 1), steps)
    assert found is not None
    assert math.isclose(length_of(found, steps), length, rel_tol=1e-9)


@settings(deadline=None)
@given(st.floats(0.01, 1000), st.floats(0.01, 1000), st.floats(0.1, 10))
def test_only_the_ratio_of_the_times_counts(decode: float, cycle: float, unit: float) -> None:
    first, second = breakeven(decode, cycle), breakeven(decode * unit, cycle * unit)
    assert math.isclose(first.break_even_length, second.break_even_length, rel_tol=1e-9)


def test_limits() -> None:
    assert equal_acceptance(4.0, 3) == pytest.approx(1.0)
    assert equal_acceptance(4.1, 3) is None
    assert equal_acceptance(0.5, 3) == 0.0
    assert equal_acceptance(1.0, 0) == 0.0
    assert can_pay(4.0, 3)
    assert not can_pay(4.01, 3)
