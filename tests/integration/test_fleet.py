"""A sweep over simulated nodes through real Ansible: kill -9, a resume, and a node that dies in its block."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from controller.sweep.results import read_sweep
from controller.sweep.state import CellState
from tests.integration.simulated_fleet import SimulatedFleet

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[SimulatedFleet]:
    one = SimulatedFleet.create(tmp_path, 2)
    yield one
    one.clean()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_killed_controller_and_then_a_dead_node_lose_nothing(fleet: SimulatedFleet) -> None:
    process = fleet.start_sweep("--steps", "3", "--blocks", "2")
    fleet.wait_for(process, "cell", state="launching", host="node1")
    fleet.wait_for(process, "cell", state="launching", host="node2")
    time.sleep(1.0)
    process.kill()
    process.communicate(timeout=30)
    process = fleet.start("sweep", "--resume", str(fleet.directory), "--no-report")
    fleet.wait_for(process, "cell", state="done", host="node2")
    fleet.wait_for(process, "cell", state="launching", host="node2", cell=second_cell(fleet, "node2"))
    fleet.kill_node("node2")
    _, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    assert "its controller is gone; cleaning it up" in err
    assert "node2 was lost: the target cannot be reached" in err
    plan, state = read_sweep(fleet.directory)
    assert {state.cell(cell.cell_id).state for cell in plan.cells} == {CellState.DONE}
    assert {state.cell(cell.cell_id).times_done for cell in plan.cells} == {1}
    # Its block was begun anew on the other node; what it had measured is labelled and does not count.
    assert [one.host for one in state.superseded] == ["node2"]
    assert state.measured_hosts == ["node1"]
    assert state.host("node2").lost
    assert fleet.server_processes("node1") == []
    kept = {path.name for path in (fleet.directory / "hosts").iterdir()}
    assert kept == {"node1", "node2"}
    assert not (fleet.directory / "hosts" / "node1" / "running.json").exists()


def second_cell(fleet: SimulatedFleet, host: str) -> str:
    """Return the cell that follows the first one of a host."""
    plan, state = read_sweep(fleet.directory)
    first = next(cell for cell in plan.cells if state.cell(cell.cell_id).host == host)
    return next(cell.cell_id for cell in plan.cells if cell.block == first.block and cell.order > first.order)
