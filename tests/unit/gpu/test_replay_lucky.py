"""A lucky launch wins a search that launches each setting once; a sweep in blocks does not name it."""

from __future__ import annotations

import pytest

from controller.analysis.model import Launch, Run
from tests.gpu.replay_lucky import best_arms, plant, rate, single_launch_winner


def launch(block: int, arm: str, speed: float) -> Launch:
    steps = None if arm == "baseline" else int(arm[-1])
    tokens, requests = 808, 8
    run = Run(
        index=0,
        concurrency=1,
        requests=requests,
        completion_tokens=tokens,
        decode_s=(tokens - requests) / speed,
        wall_s=tokens / speed,
        verify_steps=None if steps is None else 400,
        accept_histogram=() if steps is None else (0, 400),
        ttft_s=(0.1,) * requests,
        chunk_gap_s=(0.01,) * requests,
    )
    return Launch(f"b{block:02}-{arm}", block, block, arm, steps, (run,))


SWEEP = [
    launch(block, arm, speed * (1 + 0.004 * block))
    for block in (1, 2, 3)
    for arm, speed in (("baseline", 83.0), ("steps-2", 70.0), ("steps-3", 60.0))
]


def test_as_measured_both_find_the_best() -> None:
    assert best_arms(SWEEP, 0.02) == ("baseline",)
    assert [single_launch_winner(SWEEP, block) for block in (1, 2, 3)] == ["baseline"] * 3


def test_only_one_launch_a_setting_is_fooled() -> None:
    outcomes = plant(SWEEP, ["baseline"], 1.5)
    assert len(outcomes) == 6
    assert all(one.single_fooled for one in outcomes)
    assert not any(one.blocks_fooled for one in outcomes)


def test_to_name_one_of_two_equal_arms_is_no_mistake() -> None:
    equal = [launch(block, "steps-5", 82.5) for block in (1, 2, 3)]
    best = best_arms([*SWEEP, *equal], 0.02)
    assert best == ("baseline", "steps-5")
    assert {one.arm for one in plant([*SWEEP, *equal], best, 1.5)} == {"steps-2", "steps-3"}


def test_a_little_luck_fools_nobody_and_a_lone_launch_wins_nothing() -> None:
    assert not any(one.single_fooled or one.blocks_fooled for one in plant(SWEEP, ["baseline"], 1.05))
    assert single_launch_winner(SWEEP[:1], 1) is None
    assert rate(SWEEP[0]) == pytest.approx(83.0 * 1.004)
