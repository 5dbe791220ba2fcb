from __future__ import annotations

from typing import Any

from controller.arms import Arm, adaptive_arm, baseline, steps_arm
from controller.plan import schedule
from controller.sweep.results import launches
from controller.sweep.state import CellState, SweepState
from tests.unit.controller.sweep.fakes import plan


def test_an_arm_is_adaptive_where_the_inventory_makes_it_so_its_failed_launches_too() -> None:
    arms = (baseline(), steps_arm(2), adaptive_arm(), Arm("tree", environment={"NCCL_ALGO": "Tree"}))
    decided = plan(arms=arms, cells=schedule(arms, 2, 1))
    says: dict[str, dict[str, Any]] = {
        "baseline": {"speculative_adaptive": True, "speculative_algorithm": None},
        "steps-2": {"speculative_adaptive": False, "speculative_num_steps": 2},
        "adaptive": {"speculative_num_steps": 3},
        "tree": {"speculative_adaptive": True, "speculative_algorithm": "EAGLE3", "speculative_num_steps": 3},
    }
    state = SweepState()
    for cell in decided.cells:
        history = state.cell(cell.cell_id)
        history.state = CellState.FAILED
        history.server = says[cell.arm] if cell.block == 2 else None  # it did not come up in block 1
    assert {(one.arm, one.adaptive) for one in launches(decided, state)} == {
        ("baseline", False),
        ("steps-2", False),
        ("adaptive", True),
        ("tree", True),
    }
