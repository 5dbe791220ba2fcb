"""The noise floor: measured by an A/A sweep, kept for the node, used by later sweeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from controller.arms import aa_arms
from controller.exits import Exit
from controller.inventory import Target
from controller.plan import schedule
from controller.sweep import noise
from controller.sweep.results import read_sweep
from tests.unit.controller.sweep.fakes import FakePlaybooks, plan, sweep
from tests.unit.controller.sweep.speeds import SpeedLoad

if TYPE_CHECKING:
    from collections.abc import Callable

    from controller.plan import Plan
    from controller.sweep.sweep import SweepEnd

TARGET = Target(Path("/inventory"), "host", {})


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def aa_plan(blocks: int) -> Plan:
    return plan(blocks, aa=True, arms=aa_arms(), cells=schedule(aa_arms(), blocks, 1))


def run(tmp_path: Path, speed: Callable[[str, int], float], blocks: int = 4) -> SweepEnd:
    playbooks = FakePlaybooks()
    return sweep(tmp_path / "s", playbooks, SpeedLoad(playbooks=playbooks, speed=speed), plan=aa_plan(blocks)).run()


def equal(arm: str, number: int) -> float:
    return 80.0 * (1.01 if arm == "baseline-again" and number % 2 else 1.0)


def test_an_aa_sweep_keeps_the_noise_of_the_node(tmp_path: Path) -> None:
    end = run(tmp_path, equal)
    assert end.exit_code is Exit.OK
    assert end.sentences[-1].startswith("the noise floor of host is 1.4")
    found = noise.known(TARGET)
    assert found is not None
    assert 0.01 < found.noise < 0.02
    assert (found.blocks, found.concurrency, found.sweep_id) == (4, (1,), "S1")
    assert "A/A sweep S1 of " in found.source
    assert read_sweep(tmp_path / "s")[1].aa_noise == found.noise


@pytest.mark.parametrize(("blocks", "factor"), [(2, 1.0), (4, 9.0)])
def test_too_few_blocks_or_an_absurd_difference_keep_nothing(tmp_path: Path, blocks: int, factor: float) -> None:
    end = run(tmp_path, lambda arm, number: equal(arm, number) * (factor if arm == "baseline" else 1.0), blocks)
    assert end.sentences[-1].startswith("no noise floor")
    assert noise.known(TARGET) is None


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"noise": "x", "concurrency": []}'])
def test_a_damaged_note_is_no_noise(tmp_path: Path, text: str) -> None:
    run(tmp_path, equal)
    (path,) = (tmp_path / "state").rglob("noise/*.json")
    assert json.loads(path.read_text())["blocks"] == 4
    path.write_text(text)
    assert noise.known(TARGET) is None


def test_a_state_directory_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    end = run(tmp_path, equal)
    assert end.exit_code is Exit.OK
    assert "But cannot keep the noise floor" in end.sentences[-1]
