from __future__ import annotations

import dataclasses

from controller.arms import Arm, adaptive_arm, baseline, steps_arm
from controller.plan import schedule
from controller.sweep.settings import extra_vars
from tests.unit.controller.sweep.fakes import plan

ADAPTIVE = "sglang_server_speculative_adaptive"


def adaptive_in(arm: Arm, inventory: dict[str, object]) -> object:
    decided = dataclasses.replace(plan(), arms=(arm,), cells=schedule([arm], 1, 1))
    return extra_vars(decided, decided.cells[0], 1, inventory).get(ADAPTIVE)


def test_an_adaptive_server_in_the_inventory_does_not_slip_into_an_arm_with_steps_of_its_own() -> None:
    inventory: dict[str, object] = {ADAPTIVE: True}
    assert adaptive_in(steps_arm(3), inventory) is False
    assert adaptive_in(adaptive_arm(), inventory) is True
    for arm in (baseline(), Arm("plain", {"sglang_server_tp_size": 2})):
        assert adaptive_in(arm, inventory) is None
    assert adaptive_in(steps_arm(3), {}) is None
