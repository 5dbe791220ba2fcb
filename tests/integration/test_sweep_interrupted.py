"""Ctrl-C and a second sweep, against real Ansible on a simulated node."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.integration.simulated_sweep import SimulatedSweep
from tests.integration.users_program import SMALL_LOAD

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def simulated(tmp_path: Path) -> Iterator[SimulatedSweep]:
    one = SimulatedSweep.create(tmp_path)
    yield one
    one.clean()


def started(simulated: SimulatedSweep, *extra: str) -> subprocess.Popen[str]:
    return simulated.start(
        "sweep",
        "-i",
        str(simulated.inventory),
        "--dir",
        str(simulated.sweep_directory),
        "--steps",
        "3",
        "--blocks",
        "1",
        *SMALL_LOAD,
        *extra,
    )


@pytest.mark.parametrize(("state", "number"), [("launching", signal.SIGINT), ("measuring", signal.SIGTERM)])
def test_an_interrupt_stops_the_server_and_the_sweep_can_be_resumed(
    simulated: SimulatedSweep, state: str, number: signal.Signals
) -> None:
    process = started(simulated)
    simulated.wait_for("cell", state="done")
    simulated.wait_for("cell", state=state, cell=list(simulated.states())[-1])
    time.sleep(0.3)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 5, err
    assert "--resume" in err
    assert "Traceback" not in err
    assert simulated.server_processes() == []
    before = {cell: states.count("done") for cell, states in simulated.states().items()}
    done = simulated.run("sweep", "--resume", str(simulated.sweep_directory), "-i", str(simulated.inventory))
    assert done.returncode == 0, done.stderr
    assert "reused" in done.stderr
    after = {cell: states.count("done") for cell, states in simulated.states().items()}
    assert set(after.values()) == {1}
    assert all(after[cell] == count for cell, count in before.items() if count)
    assert simulated.server_processes() == []


def test_a_second_interrupt_quits_at_once(simulated: SimulatedSweep) -> None:
    process = started(simulated)
    simulated.wait_for("cell", state="measuring")
    process.send_signal(signal.SIGINT)
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    moment = time.monotonic()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 5, err
    assert time.monotonic() - moment < 2
    if "may still run" in err:  # else the server was stopped within the tenth of a second
        status = simulated.run("status", "-i", str(simulated.inventory))
        assert "its controller is gone" in status.stdout
    done = simulated.run("stop", "-i", str(simulated.inventory))
    assert done.returncode == 0, done.stderr
    assert simulated.server_processes() == []
    assert "no sweep is running here" in simulated.run("status", "-i", str(simulated.inventory)).stdout


def test_a_second_sweep_is_refused_while_the_first_runs(simulated: SimulatedSweep) -> None:
    process = started(simulated)
    try:
        simulated.wait_for("cell", state="launching")
        other = simulated.run(
            "sweep", "-i", str(simulated.inventory), "--dir", str(simulated.root / "other"), "--steps", "2", *SMALL_LOAD
        )
        assert other.returncode == 4
        for part in (str(process.pid), str(simulated.sweep_directory), "since"):
            assert part in other.stderr
        stop = simulated.run("stop", "-i", str(simulated.inventory))
        assert stop.returncode == 4
        status = json.loads(simulated.run("status", "-i", str(simulated.inventory), "--json").stdout)
        assert status["sweeps"][0]["alive"] is True
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert simulated.server_processes() == []
