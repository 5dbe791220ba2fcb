"""The thresholds that a sweep gives to the role monitoring."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from controller import cli
from controller.analysis.intervals import t_quantile
from controller.exits import Exit
from tests.unit.controller.report.sample import BASELINE, FASTER, SLOWER, write_sweep

if TYPE_CHECKING:
    from pathlib import Path


def variables(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[dict[str, Any], str]:
    assert cli.main(["report", *arguments, "--monitoring-vars"]) == Exit.OK
    text = capsys.readouterr().out
    return yaml.safe_load(text), text


def test_the_recommended_arm_gives_the_bounds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = write_sweep(tmp_path, {"baseline": BASELINE, "steps-2": FASTER}, lengths={"steps-2": 2.4})
    found, text = variables(capsys, str(directory))
    assert "arm steps-2" in text
    assert "97.5 %" in text
    assert "simulated" in text
    # Every launch of the sample has the same acceptance length, so the bound is the margin below it, rounded down.
    length = 255 / round(255 / 2.4) / 1.02
    assert found["monitoring_acceptance_length_low"] == pytest.approx(length, abs=1e-3)
    assert found["monitoring_acceptance_length_low"] <= length
    assert found["monitoring_throughput_concurrency"] == 1
    # 256 tokens in 255 / speed seconds, and 0.1 s to the first one.
    ends = [math.log(256 / (255 / speed + 0.1)) for speed in FASTER]
    mean = sum(ends) / 3
    deviation = math.sqrt(sum((value - mean) ** 2 for value in ends) / 2)
    expected = math.exp(mean - t_quantile(0.95, 2) * deviation * math.sqrt(1 + 1 / 3))
    assert found["monitoring_throughput_low"] == pytest.approx(expected, abs=0.11)
    assert found["monitoring_throughput_low"] < min(map(math.exp, ends))


def test_launches_that_happen_to_be_equal_leave_room_for_a_healthy_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = write_sweep(tmp_path, {"baseline": BASELINE, "steps-2": (96.0, 96.0, 96.0)}, lengths={"steps-2": 2.4})
    found, _ = variables(capsys, str(directory), "--arm", "steps-2")
    assert found["monitoring_throughput_low"] == pytest.approx(256 / (255 / 96.0 + 0.1) / 1.02, abs=0.11)


def test_an_arm_without_speculation_has_no_acceptance_length(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = write_sweep(tmp_path, {"baseline": BASELINE, "steps-2": SLOWER}, simulated=False)
    found, text = variables(capsys, str(directory))
    assert "arm baseline" in text
    assert "simulated" not in text
    assert found["monitoring_acceptance_length_low"] is None


def test_the_lowest_concurrency_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = write_sweep(tmp_path, {"baseline": BASELINE, "steps-2": SLOWER}, levels=(8, 4))
    found, _ = variables(capsys, str(directory), "--arm", "steps-2")
    assert found["monitoring_throughput_concurrency"] == 4


@pytest.mark.parametrize(
    ("speeds", "lengths", "arguments", "says"),
    [
        ({"baseline": BASELINE, "steps-2": SLOWER}, {}, ["--arm", "steps-9"], "no such arm"),
        ({"baseline": BASELINE[:2], "steps-2": SLOWER[:2]}, {}, ["--arm", "steps-2"], "has 2 launches"),
        ({"baseline": BASELINE, "steps-2": SLOWER}, {"steps-2": 1.0}, ["--arm", "steps-2"], "INVALID"),
        ({"steps-2": SLOWER}, {}, [], "recommends no arm"),
    ],
)
def test_what_cannot_give_thresholds(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    speeds: dict[str, tuple[float, ...]],
    lengths: dict[str, float],
    arguments: list[str],
    says: str,
) -> None:
    directory = write_sweep(tmp_path, speeds, lengths=lengths, simulated=False)
    assert cli.main(["report", str(directory), "--monitoring-vars", *arguments]) == Exit.USAGE
    assert says in capsys.readouterr().err


def test_arm_alone_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", str(tmp_path), "--arm", "steps-2"]) == Exit.USAGE
    assert "--arm belongs to --monitoring-vars" in capsys.readouterr().err
