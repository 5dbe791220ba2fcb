"""The stop rule and the confirmation, through whole sweeps with Ansible and the load replaced."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from controller.analysis.result import RecommendationStatus, Verdict
from controller.exits import Exit
from controller.journal import read_journal
from controller.sweep.growth import next_launches
from controller.sweep.results import analyse, read_sweep
from controller.sweep.sweep import JOURNAL
from tests.unit.controller.sweep.fakes import FakePlaybooks, Notes, broken, healthy, plan, sweep
from tests.unit.controller.sweep.speeds import SpeedLoad, arm_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from controller.plan import Plan


def steady(arm: str, number: int) -> float:
    return {"baseline": 80.0, "steps-2": 96.0, "steps-3": 60.0}[arm] * (1 + 0.002 * (number % 3))


def run(
    directory: Path, speed: Callable[[str, int], float], decided: Plan, **more: Any
) -> tuple[list[str], Exit, Notes]:
    """Run a sweep; return the arms in the order of their launches, the exit code and what the operator read."""
    playbooks, notes = FakePlaybooks(), Notes()
    load = SpeedLoad(playbooks=playbooks, speed=speed)
    state = read_sweep(directory)[1] if (directory / JOURNAL).exists() else None
    end = sweep(directory, playbooks, load, state, plan=decided, watcher=notes, **more).run()
    return [arm_of(variables) for variables in playbooks.restarts], end.exit_code, notes


def test_a_winner_and_the_baseline_are_launched_again(tmp_path: Path) -> None:
    launched, code, notes = run(tmp_path / "s", steady, plan(3, confirm_blocks=2))
    assert code is Exit.OK
    assert len(launched) == 9 + 4
    assert sorted(launched[9:]) == ["baseline", "baseline", "steps-2", "steps-2"]
    assert any("steps-2 won: 2 fresh blocks with the baseline" in note for note in notes.notes)
    decided, state = read_sweep(tmp_path / "s")
    assert [cell.confirmation for cell in decided.cells] == [False] * 9 + [True] * 4
    assert [cell.block for cell in decided.cells[9:]] == [4, 4, 5, 5]
    choice = analyse(decided, state).levels[0].recommendation
    assert (choice.status, choice.arm) == (RecommendationStatus.CONFIRMED, "steps-2")
    assert next_launches(decided, state) is None
    again, code, _ = run(tmp_path / "s", steady, decided)
    assert (again, code) == ([], Exit.OK)


def test_a_winner_that_is_slow_on_fresh_launches_is_not_reproduced(tmp_path: Path) -> None:
    def luck(arm: str, number: int) -> float:
        return 60.0 if arm == "steps-2" and number >= 3 else steady(arm, number)

    run(tmp_path / "s", luck, plan(3, confirm_blocks=2))
    choice = analyse(*read_sweep(tmp_path / "s")).levels[0].recommendation
    assert (choice.status, choice.arm) == (RecommendationStatus.NOT_REPRODUCED, "steps-2")


def test_nothing_pays_nothing_to_confirm(tmp_path: Path) -> None:
    launched, _, _ = run(tmp_path / "s", lambda arm, n: 80.0 if arm == "baseline" else 60.0 + n / 10, plan(3))
    assert len(launched) == 9


def wild(arm: str, number: int) -> float:
    if arm == "steps-3":
        return (70.0, 95.0, 60.0, 99.0, 64.0)[number % 5]
    return steady(arm, number)


def test_blocks_are_added_for_undecided_arms_up_to_the_limit(tmp_path: Path) -> None:
    decided = plan(3, max_blocks=6, looks=(3, 5, 6))
    launched, code, notes = run(tmp_path / "s", wild, decided)
    assert code is Exit.OK
    assert sorted(launched[9:]) == ["baseline"] * 3 + ["steps-3"] * 3
    assert notes.notes[0] == "steps-3 undecided after 3 blocks: 2 more blocks"
    extended = [entry for entry in read_journal(tmp_path / "s" / JOURNAL).records if entry["kind"] == "extended"]
    assert [(entry["reason"], len(entry["cells"])) for entry in extended] == [("undecided", 4), ("undecided", 2)]
    analysis = analyse(*read_sweep(tmp_path / "s"))
    assert analysis.looks == 3
    assert {arm.arm: arm.blocks for arm in analysis.levels[0].arms} == {"baseline": 0, "steps-2": 3, "steps-3": 6}
    assert analysis.levels[0].arm("steps-3").verdict is Verdict.UNDECIDED


def test_a_sweep_that_is_decided_adds_nothing(tmp_path: Path) -> None:
    def clear(arm: str, number: int) -> float:
        return steady(arm, number) if arm != "steps-2" else 50.0 + number / 10

    launched, _, notes = run(tmp_path / "s", clear, plan(3, max_blocks=9, looks=(3, 6, 9), confirm_blocks=2))
    assert len(launched) == 9
    assert notes.notes == []


def test_the_budget_ends_the_growth_and_says_so(tmp_path: Path) -> None:
    decided = plan(3, max_blocks=6, looks=(3, 6), budget_s=-1.0)
    launched, code, notes = run(tmp_path / "s", wild, decided)
    assert code is Exit.OK
    assert len(launched) == 9
    assert "do not fit into the budget" in notes.notes[0]
    decided, state = read_sweep(tmp_path / "s")
    growth = next_launches(decided, state)
    assert growth is not None
    assert growth.cells == ()


def test_a_killed_sweep_grows_as_it_would_have(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    whole = plan(3, max_blocks=6, looks=(3, 5, 6))
    first, _, _ = run(directory, wild, plan(3))  # the same launches, then the controller dies before it adds any
    text = (directory / JOURNAL).read_text().replace('"max_blocks":3', '"max_blocks":6')
    (directory / JOURNAL).write_text(text.replace('"looks":[3]', '"looks":[3,5,6]'))
    decided, _ = read_sweep(directory)
    assert decided.looks == whole.looks
    more, code, _ = run(directory, lambda arm, number: wild(arm, number + 3), decided)
    assert code is Exit.OK
    assert len(first) == 9
    assert sorted(more) == ["baseline"] * 3 + ["steps-3"] * 3


def test_a_failed_arm_does_not_grow_the_sweep(tmp_path: Path) -> None:
    def answer(_: int, variables: Any) -> Any:
        return broken() if variables.get("sglang_server_speculative_num_steps") == 3 else healthy(variables)

    playbooks = FakePlaybooks(answer)
    load = SpeedLoad(playbooks=playbooks, speed=lambda arm, n: 80.0 if arm == "baseline" else 60.0 + n / 10)
    end = sweep(tmp_path / "s", playbooks, load, plan=plan(3, max_blocks=6, looks=(3, 6))).run()
    assert end.exit_code is Exit.RUN_FAILED
    assert len(playbooks.restarts) == 8  # of three blocks, less one that would have failed like two before


def test_without_a_baseline_nothing_is_added(tmp_path: Path) -> None:
    decided = plan(3, max_blocks=6, looks=(3, 6))
    run(tmp_path / "s", wild, plan(3))
    _, state = read_sweep(tmp_path / "s")
    lonely = tuple(cell for cell in decided.cells if cell.arm == "steps-3")
    assert next_launches(replace(decided, cells=lonely), state) is None


@pytest.mark.parametrize("blocks", [1, 2])
def test_few_blocks_grow_too(tmp_path: Path, blocks: int) -> None:
    launched, _, _ = run(tmp_path / "s", steady, plan(blocks, max_blocks=4, looks=(blocks, 3, 4)))
    assert len(launched) >= 9
