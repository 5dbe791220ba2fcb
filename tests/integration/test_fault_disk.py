"""A full disk: on the controller while it measures and while it reports, on the target when it launches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.faults import THOROUGH
from tests.integration.simulated_sweep import SimulatedSweep
from tests.integration.small_disk import fill, small_disk
from tests.integration.users_program import SMALL_LOAD

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.root


@pytest.fixture
def simulated(tmp_path: Path) -> Iterator[SimulatedSweep]:
    one = SimulatedSweep.create(tmp_path)
    yield one
    one.clean()


@pytest.mark.parametrize("state", ["measuring", "launching"] if THOROUGH else ["measuring"])
def test_a_full_controller_stops_the_server_and_loses_no_finished_cell(simulated: SimulatedSweep, state: str) -> None:
    inventory = ("-i", str(simulated.inventory))
    with small_disk(simulated.sweep_directory, 2048) as disk:
        process = simulated.start(
            "sweep", *inventory, "--dir", str(disk), "--steps", "3", "--blocks", "1", "--no-confirm", *SMALL_LOAD
        )
        simulated.wait_for("cell", state="done")
        simulated.wait_for("cell", state=state, cell=list(simulated.states())[-1])
        ballast = fill(disk)
        _, err = process.communicate(timeout=60)
        assert process.returncode in (3, 6), err
        assert str(disk) in err
        assert "No space left on device" in err
        assert "Traceback" not in err
        assert "fault of the controller" not in err
        assert simulated.server_processes() == []
        finished = {cell for cell, states in simulated.states().items() if "done" in states}
        assert finished
        ballast.unlink()
        done = simulated.run("sweep", "--resume", str(disk), *inventory)
        assert done.returncode == 0, done.stderr
        assert {states.count("done") for states in simulated.states().values()} == {1}
        assert finished <= set(simulated.states())
        full = fill(disk)
        again = simulated.run("report", str(disk))
        full.unlink()
        assert again.returncode != 0, again.stdout
        assert str(disk) in again.stderr
        assert "No space left on device" in again.stderr
        assert "Traceback" not in again.stderr


@pytest.mark.parametrize("folder", ["state", "logs"] if THOROUGH else ["state"])
def test_a_full_target_launches_nothing_and_names_the_path(simulated: SimulatedSweep, folder: str) -> None:
    with small_disk(simulated.node.path / folder, 64) as disk:
        ballast = fill(disk)
        done = simulated.play("restart", {"sglang_server_speculative": False})
        assert done.returncode == 2, done.stdout
        sentence = next(line for line in done.stdout.splitlines() if "fatal:" in line)
        assert str(disk) in sentence
        assert "No space left on device" in sentence
        assert "Traceback" not in done.stdout
        assert simulated.server_processes() == []
        ballast.unlink()
        if THOROUGH:
            again = simulated.play("restart", {"sglang_server_speculative": False})
            assert again.returncode == 0, again.stdout
            assert simulated.play("stop", {}).returncode == 0
