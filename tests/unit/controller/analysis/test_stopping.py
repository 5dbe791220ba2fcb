from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.analysis.result import RecommendationStatus, Verdict
from controller.analysis.stopping import look_confidence, next_look, open_arms, planned_looks, unconfirmed_winners
from controller.analysis.sweep import analyse
from tests.unit.controller.analysis.builders import failed, launch, sweep

BASELINE = [82.3, 82.6, 82.5, 82.4, 82.7]
FASTER = [95.4, 95.7, 95.6, 95.5, 95.8]
WILD = [70.0, 99.0, 80.0, 95.0, 60.0]


@given(blocks=st.integers(1, 50), more=st.integers(0, 50))
def test_at_most_three_looks_none_before_the_first_blocks(blocks: int, more: int) -> None:
    looks = planned_looks(blocks, blocks + more)
    assert looks[0] == blocks
    assert looks[-1] == blocks + more
    assert len(looks) <= 3
    assert list(looks) == sorted(set(looks))
    assert next_look(looks, looks[-1]) is None
    assert next_look(looks, 0) == blocks


def test_looks_share_the_error_rate() -> None:
    assert look_confidence(0.95, 1) == pytest.approx(0.95)
    assert look_confidence(0.95, 3) == pytest.approx(1 - 0.05 / 3)


def test_an_interval_is_wider_when_more_looks_are_allowed() -> None:
    launches = sweep({"steps=3": FASTER}, BASELINE)
    one, three = analyse(launches).levels[0].arms[1], analyse(launches, looks=3).levels[0].arms[1]
    assert one.speedup is not None
    assert three.speedup is not None
    assert three.speedup.low is not None
    assert one.speedup.low is not None
    assert three.speedup.low < one.speedup.low
    assert one.tokens_per_s == three.tokens_per_s


def test_only_arms_that_more_blocks_may_decide_are_open() -> None:
    launches = sweep({"steps=3": FASTER, "steps=2": WILD}, BASELINE)
    launches += [failed("steps=9", block=0)]
    assert open_arms(analyse(launches)) == ("steps=2",)
    assert open_arms(analyse(sweep({"steps=3": FASTER[:1]}, BASELINE[:1]))) == ("steps=3",)
    lonely = [launch("steps=3", 90.0, block=block) for block in range(3)]
    assert analyse(lonely).levels[0].arms[0].verdict is Verdict.UNDECIDED
    assert open_arms(analyse(lonely)) == ()


def test_a_winner_waits_for_confirmation_until_it_has_fresh_launches() -> None:
    launches = sweep({"steps=3": FASTER}, BASELINE)
    assert unconfirmed_winners(analyse(launches)) == ("steps=3",)
    fresh = [replace(one, block=one.block + 10, confirmation=True) for one in launches if one.block < 2]
    confirmed = analyse([*launches, *fresh])
    assert confirmed.levels[0].recommendation.status is RecommendationStatus.CONFIRMED
    assert unconfirmed_winners(confirmed) == ()
    assert unconfirmed_winners(analyse(sweep({"steps=3": WILD}, BASELINE))) == ()
