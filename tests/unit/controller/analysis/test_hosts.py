"""The host as a factor: its level cancels, its variance is reported, a speed-up that differs is flagged."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from controller.analysis.hosts import one_way
from controller.analysis.result import SweepAnalysis, Verdict
from controller.analysis.sweep import analyse
from tests.unit.controller.analysis.builders import launch

if TYPE_CHECKING:
    from controller.analysis.model import Launch


def fleet(
    levels: dict[str, float], blocks: int = 3, *, gain: dict[str, float] | None = None, noise: float = 0.002
) -> list[Launch]:
    """Blocks in turn on hosts of these speeds; ``gain`` is the speed-up of the arm on each host, 0.9 when not given."""
    generator = random.Random(1)
    found = []
    for number, (host, speed) in enumerate((pair for _ in range(blocks) for pair in levels.items()), start=1):
        for order, (arm, factor) in enumerate((("baseline", 1.0), ("steps=2", (gain or {}).get(host, 0.9)))):
            tps = speed * factor * math.exp(generator.gauss(0, noise))
            found.append(replace(launch(arm, tps, block=number, order=number * 10 + order), host=host))
    return found


def codes(analysis: SweepAnalysis) -> set[str]:
    return {flag.code for flag in analysis.flags}


def test_one_host_is_no_factor() -> None:
    analysis = analyse(fleet({"a": 80.0}))
    assert analysis.levels[0].hosts is None


def test_the_level_of_a_host_cancels_and_is_reported() -> None:
    analysis = analyse(fleet({"a": 80.0, "b": 100.0, "c": 90.0}))
    level = analysis.levels[0]
    arm = level.arm("steps=2")
    assert arm.verdict is Verdict.HURTS
    assert arm.speedup is not None
    assert arm.speedup.low is not None
    assert arm.speedup.low > 0.89
    split = level.hosts
    assert split is not None
    assert [host.host for host in split.hosts] == ["a", "b", "c"]
    mean = (math.log(80) + math.log(100) + math.log(90)) / 3
    for host, speed in zip(split.hosts, (80, 100, 90), strict=True):
        assert host.level.value == pytest.approx(speed / math.exp(mean), rel=0.01)
        assert (host.blocks, host.launches) == (3, 6)
    assert split.sd_host is not None
    assert split.sd_block is not None
    assert split.sd_host == pytest.approx(0.11, abs=0.02)
    assert split.sd_block < 0.01
    assert split.p_value is not None
    assert split.p_value < 1e-6
    # Hosts of different speed are neither drift, nor outliers, nor a moving baseline.
    assert not codes(analysis) & {"drift", "outlier_launch", "high_variation", "baseline_moved", "hosts_disagree"}


def test_a_speed_up_that_differs_between_hosts_is_flagged() -> None:
    analysis = analyse(fleet({"a": 80.0, "b": 82.0}, gain={"a": 0.9, "b": 1.1}))
    flag = next(flag for flag in analysis.flags if flag.code == "hosts_disagree")
    assert flag.arm == "steps=2"
    assert flag.values["by_host"].startswith("a -")
    assert analysis.levels[0].hosts is not None
    assert analysis.levels[0].hosts.arms[0].p_value == flag.values["p"]
    assert analysis.levels[0].arm("steps=2").verdict is Verdict.UNDECIDED


def test_one_block_on_each_host_gives_levels_without_intervals() -> None:
    split = analyse(fleet({"a": 80.0, "b": 100.0}, blocks=1)).levels[0].hosts
    assert split is not None
    assert split.sd_host is None
    assert split.hosts[0].level.low is None
    assert split.arms[0].p_value is None


def test_without_a_baseline_there_is_no_speed_up_by_host() -> None:
    launches = [one for one in fleet({"a": 80.0, "b": 100.0}) if one.arm != "baseline"]
    split = analyse(launches).levels[0].hosts
    assert split is not None
    assert split.arms == ()


def test_the_flag_errs_as_often_as_it_says() -> None:
    """500 fleets whose hosts differ in level alone."""
    generator = random.Random(4)
    disagree = 0
    for _ in range(500):
        groups = [[generator.gauss(0, 1) for _ in range(3)] for _ in range(4)]
        found = one_way(groups)
        assert found is not None
        disagree += found.p_value < 0.05
    assert 10 <= disagree <= 42  # 25 on average


def test_one_way_against_a_worked_example() -> None:
    """Snedecor & Cochran style by hand: groups (1, 2, 3), (4, 5, 6), within 1, between (27/2 - 1) / 3."""
    found = one_way([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert found is not None
    assert found.within == pytest.approx(1.0)
    assert found.between == pytest.approx((13.5 - 1.0) / 3)
    assert found.degrees == 4
    assert found.p_value == pytest.approx(0.0213, abs=0.0002)  # F = 13.5 at 1 and 4 degrees of freedom
    assert one_way([[1.0, 2.0]]) is None
    assert one_way([[1.0], [2.0]]) is None
