import math
import random

import pytest

from controller.simulator.profiles import profile_settings
from controller.simulator.site.sglang.speed import Acceptance, SpeedModel, noise


def model(**changes: object) -> SpeedModel:
    settings = {**profile_settings("story")["speed"], **changes}
    return SpeedModel.from_dict(settings)


def test_the_story_hurts() -> None:
    story = model()
    assert story.tokens_per_second(None) == pytest.approx(83.3, abs=0.1)
    assert story.step_seconds(2) == pytest.approx(0.027)
    assert story.step_seconds(3) == pytest.approx(0.030)
    assert story.expected_length(3) == pytest.approx(1.8, abs=0.02)
    assert story.tokens_per_second(3) == pytest.approx(60, abs=1)
    assert all(story.tokens_per_second(steps) < story.tokens_per_second(None) for steps in range(1, 8))


def test_the_other_draft_pays() -> None:
    pays = SpeedModel.from_dict(profile_settings("pays")["speed"])
    assert pays.expected_length(3) == pytest.approx(2.9, abs=0.03)
    assert pays.tokens_per_second(3) > 1.1 * pays.tokens_per_second(None)


def test_length_is_one_plus_the_sum_of_products() -> None:
    chain = model(acceptance=[0.5, 0.4])
    assert chain.expected_length(0) == 1.0
    assert chain.expected_length(2) == pytest.approx(1 + 0.5 + 0.2)
    # The last probability repeats.
    assert chain.expected_length(3) == pytest.approx(1 + 0.5 + 0.2 + 0.08)


def test_a_batch_slows_every_step() -> None:
    assert model(batch_slope=0.1).step_seconds(None, 11) == pytest.approx(2 * model().step_seconds(None))


def test_prefill_grows_with_new_tokens() -> None:
    assert model().prefill_seconds(1000) - model().prefill_seconds(0) == pytest.approx(0.15)


def test_acceptance_draws_the_expected_length() -> None:
    drawn = Acceptance(model(), 3, random.Random(7))
    mean = 1 + sum(drawn.draw(3) for _ in range(40_000)) / 40_000
    assert mean == pytest.approx(model().expected_length(3), rel=0.01)


def test_fewer_steps_accept_what_more_steps_would_have_accepted_first() -> None:
    few, many = (Acceptance(model(), 7, random.Random(5)) for _ in range(2))
    assert few.draw(0) == 0
    assert few.draw(1) == min(many.draw(7), 1)
    mean = 1 + sum(few.draw(1) for _ in range(40_000)) / 40_000
    assert mean == pytest.approx(model().expected_length(1), rel=0.01)


def test_acceptance_stays_in_range_and_repeats() -> None:
    def draws() -> list[int]:
        acceptance = Acceptance(model(), 2, random.Random(1))
        return [acceptance.draw(2) for _ in range(200)]

    assert draws() == draws()
    assert set(draws()) == {0, 1, 2}


def test_a_dead_draft_accepts_nothing() -> None:
    dead = Acceptance(model(), 3, random.Random(1), 0.0)
    assert {dead.draw(3) for _ in range(500)} == {0}


def test_noise_is_log_normal() -> None:
    generator = random.Random(3)
    logs = [math.log(noise(generator, 0.02)) for _ in range(5000)]
    mean = sum(logs) / len(logs)
    assert mean == pytest.approx(0.0, abs=0.002)
    assert math.sqrt(sum((value - mean) ** 2 for value in logs) / len(logs)) == pytest.approx(0.02, rel=0.05)
    assert noise(generator, 0.0) == 1.0


@pytest.mark.parametrize("acceptance", [[], [1.2], [0.5, -0.1]])
def test_impossible_probabilities_are_refused(acceptance: list[float]) -> None:
    with pytest.raises(ValueError, match="probabilities between 0 and 1"):
        model(acceptance=acceptance)
