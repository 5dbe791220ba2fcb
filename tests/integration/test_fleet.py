"""A sweep over simulated nodes through real Ansible, one of which dies in the middle of a block."""

from __future__ import annotations

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
def test_a_node_that_dies_in_its_block_is_replaced_by_another(fleet: SimulatedFleet) -> None:
    process = fleet.start_sweep("--steps", "3", "--blocks", "2")
    fleet.wait_for("cell", state="done", host="node2")
    fleet.wait_for("cell", state="launching", host="node2", cell=second_cell(fleet, "node2"))
    fleet.kill_node("node2")
    _, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert "Traceback" not in err
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
