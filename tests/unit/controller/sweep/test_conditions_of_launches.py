"""What modules say about GPUs and others between launches reaches the right cell and the analysis."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from controller.sweep.results import analyse, read_sweep
from tests.unit.controller.sweep.fakes import STOPPED, FakeLoad, FakePlaybooks, healthy, plan, sweep

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from controller.playbooks import PlaybookRun

HOT = {"samples": 3, "throttling": {"hw_thermal_slowdown": 1.0}, "temperature_c": 95.0, "sm_mhz_lowest": 900.0}
STRANGER = {"pid": 9, "name": "python3", "owner": "container 130"}


def answer(number: int, variables: Mapping[str, Any]) -> PlaybookRun:
    run = healthy(variables)
    health = dict(run.results["sglang_health"])
    health["launch"] = {**health["launch"], "launch_id": f"launch {number}"}
    results: dict[str, Mapping[str, Any]] = {"sglang_health": health}
    if number == 3:  # tells about the launch before
        results["launch_conditions"] = {"previous": {"launch_id": "launch 2", "gpu": HOT}, "identity": {}}
    if number == 1:
        results["gpu_reap"] = {"foreign": [STRANGER]}
    return replace(run, results=results)


def test_samples_and_strangers_reach_their_launches(tmp_path: Path) -> None:
    last: dict[str, Mapping[str, Any]] = {
        "launch_conditions": {"previous": {"launch_id": "launch 8", "gpu": HOT}},
        "gpu_reap": {"foreign": []},
    }
    playbooks = FakePlaybooks(answer, stop_answer=replace(STOPPED, results=last))
    sweep(tmp_path / "s", playbooks, FakeLoad(), plan=plan(3)).run()
    decided, state = read_sweep(tmp_path / "s")
    cells = [state.cell(cell.cell_id) for cell in decided.cells]
    assert [number for number, history in enumerate(cells) if history.gpu] == [2, 8]
    assert [number for number, history in enumerate(cells) if history.foreign] == [0, 1]
    flags = [(flag.code, flag.cell_id) for flag in analyse(decided, state).flags]
    assert ("throttled", decided.cells[2].cell_id) in flags
    assert ("foreign_process", decided.cells[0].cell_id) in flags
