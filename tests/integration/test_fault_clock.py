"""The wall clock is set by an hour, forward or back, while a server loads and while it is measured."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from controller.paths import REPOSITORY
from tests.integration.faults import thorough
from tests.integration.simulated_sweep import SimulatedSweep
from tests.integration.users_program import SMALL_LOAD
from tests.integration.watched_launch import WatchedLaunch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOUR_S = 3600.0
LONGEST_S = 600.0
"""Nothing here takes so long, and what a step of an hour has spoilt does."""

SHIFT = """
import os, time
_real, _file = time.time, {file!r}
def _shifted():
    try:
        with open(_file) as shift:
            return _real() + float(shift.read() or 0)
    except OSError:
        return _real()
time.time = _shifted
"""


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[WatchedLaunch]:
    one = WatchedLaunch(tmp_path)
    yield one
    one.stop()


@pytest.mark.parametrize("step_s", [HOUR_S, -HOUR_S])
def test_a_step_while_a_server_loads_blows_no_budget_and_spoils_no_phase(
    launch: WatchedLaunch, monkeypatch: pytest.MonkeyPatch, step_s: float
) -> None:
    launch.start("stalls")
    real = time.time
    began = time.monotonic()
    first, _ = launch.look()
    assert first["phase"] == "weights"
    monkeypatch.setattr(time, "time", lambda: real() + step_s)
    after, warnings = launch.look(slice_s=0.5)
    assert after["failure"] is None
    assert f"clock was set by {step_s:+.0f} s" in warnings[0]
    with launch.log.open("a") as log:
        log.write(time.strftime("[%Y-%m-%d %H:%M:%S] ", time.localtime(time.time())) + "Memory pool end. avail mem=1\n")
    pooled, _ = launch.look()
    took = time.monotonic() - began
    assert pooled["phase"] == "memory_pool"
    assert pooled["failure"] is None
    assert 0 <= pooled["log_silent_s"] <= took + 1
    assert 0 < pooled["elapsed_s"] < took + 5
    for phase in pooled["phases"]:
        assert 0 <= phase["started_s"] <= (phase["ended_s"] or took + 5) <= took + 5
    # The budget still ends what stands still, and not an hour later.
    spent, _ = launch.look(budget_s=0.1)
    assert spent["timed_out"]


@thorough
def test_steps_in_a_sweep_leave_every_duration_as_it_was(tmp_path: Path) -> None:
    simulated = SimulatedSweep.create(tmp_path)
    site, shift = tmp_path / "site", tmp_path / "shift"
    site.mkdir()
    (site / "sitecustomize.py").write_text(SHIFT.format(file=str(shift)))
    # The controller, Ansible and its modules; not the server, whose stamps then are those of the old clock.
    simulated.more_environment["PYTHONPATH"] = f"{site}:{REPOSITORY}"
    try:
        process = simulated.start(
            "sweep",
            "-i",
            str(simulated.inventory),
            "--dir",
            str(simulated.sweep_directory),
            "--steps",
            "3",
            "--blocks",
            "1",
            "--no-confirm",
            "--json",
            *SMALL_LOAD,
        )
        simulated.wait_for("cell", state="measuring")
        shift.write_text(str(HOUR_S))
        simulated.wait_for("cell", state="done")
        simulated.wait_for("cell", state="launching", cell=list(simulated.states())[-1])
        shift.write_text(str(-HOUR_S))
        out, err = process.communicate(timeout=240)
    finally:
        simulated.clean()
    assert process.returncode == 0, err
    assert [cell["state"] for cell in json.loads(out)["cells"]] == ["done", "done"]
    for record in simulated.records():
        durations = [record.get("s"), record.get("elapsed_s"), *(task["s"] for task in record.get("tasks", []))]
        for phase in record.get("phases", []):
            durations += [phase["started_s"], (phase["ended_s"] or phase["started_s"]) - phase["started_s"]]
        for request in record.get("requests", []):
            durations += [request[name] for name in ("started_s", "ttft_s", "e2e_s", "decode_s")]
        assert all(0 <= seconds < LONGEST_S for seconds in durations if seconds is not None), record
