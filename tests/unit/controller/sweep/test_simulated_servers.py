"""Figures are simulated when the server that gave them says so, however its machine is described in the inventory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from controller.sweep.results import analyse, read_sweep
from tests.unit.controller.sweep.fakes import FakeLoad, FakePlaybooks, healthy, plan, sweep

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from controller.playbooks import PlaybookRun


@pytest.mark.parametrize(("said", "expected"), [({"time_scale": 1.0}, True), (None, False)])
def test_a_stand_in_on_a_real_machine_is_called_one(said: object, expected: bool, tmp_path: Path) -> None:
    def answer(_: int, variables: Mapping[str, Any]) -> PlaybookRun:
        run = healthy(variables)
        health = dict(run.results["sglang_health"])
        health["server"] = {**health.get("server", {}), "simulated": said}
        return replace(run, results={"sglang_health": health})

    decided = replace(plan(1), simulated=False)
    sweep(tmp_path / "s", FakePlaybooks(answer), FakeLoad(), plan=decided).run()
    assert analyse(*read_sweep(tmp_path / "s")).simulated is expected
