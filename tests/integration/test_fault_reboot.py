"""The target, or the controller's own machine, was rebooted: every process is gone and numbers are given out anew.

After a reboot there are notes of another boot id, and any process may have a number that stands in them. Here the notes
are given another boot id and the number, session and start time of a process that is nobody's concern.
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from controller.lock import holders
from controller.process import boot_id, start_ticks
from controller.sweep import leftovers
from controller.sweep.leftovers import RunningNote
from tests.integration.faults import THOROUGH
from tests.integration.simulated_sweep import SimulatedSweep
from tests.integration.users_program import SMALL_LOAD

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OTHER_BOOT = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def simulated(tmp_path: Path) -> Iterator[SimulatedSweep]:
    one = SimulatedSweep.create(tmp_path)
    yield one
    one.clean()


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has got a number from before the reboot."""
    with subprocess.Popen(["sleep", "900"], start_new_session=True) as process:
        yield process
        process.kill()


def rewrite(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_rebooted_target_is_noticed_and_its_old_numbers_are_nobodys(
    simulated: SimulatedSweep, stranger: subprocess.Popen[bytes]
) -> None:
    inventory = ("-i", str(simulated.inventory))
    sweep = ("--dir", str(simulated.sweep_directory), "--steps", "3", "--blocks", "1", "--no-confirm", *SMALL_LOAD)
    process = simulated.start("sweep", *inventory, *sweep)
    simulated.wait_for_server()
    process.kill()
    process.communicate()
    simulated.clean()  # the power is gone
    numbers = {"pid": stranger.pid, "session": stranger.pid, "start_ticks": start_ticks(stranger.pid)}
    rewrite(simulated.node.path / "state" / "launch.json", boot_id=OTHER_BOOT, **numbers)
    status = simulated.run("status", *inventory)
    assert status.returncode == 0, status.stderr
    assert "no server is ready" in status.stdout
    assert "its controller is gone" in status.stdout
    stopped = simulated.run("stop", *inventory)
    assert stopped.returncode == 0, stopped.stderr
    assert "no process of it was left" in " ".join(stopped.stdout.split())
    assert stranger.poll() is None
    if THOROUGH:
        done = simulated.run("sweep", "--resume", str(simulated.sweep_directory), *inventory)
        assert done.returncode == 0, done.stderr
        assert {states.count("done") for states in simulated.states().values()} == {1}
        assert stranger.poll() is None


def test_a_rebooted_controller_takes_no_process_for_its_own(
    tmp_path: Path, stranger: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    RunningNote(tmp_path, "S").update(cell="b01-baseline")
    numbers = {"pid": stranger.pid, "start_ticks": start_ticks(stranger.pid)}
    note = tmp_path / leftovers.NAME
    rewrite(note, **numbers, child=numbers)
    assert leftovers.find(tmp_path) is None  # as it was before the reboot: this very controller runs
    rewrite(note, boot_id=OTHER_BOOT)
    found = leftovers.find(tmp_path)
    assert found is not None
    assert found.processes == {}
    assert leftovers.finish(found) == []
    assert stranger.poll() is None


def test_a_lock_of_before_the_reboot_holds_nothing(tmp_path: Path, stranger: subprocess.Popen[bytes]) -> None:
    note = {"sweep_id": "S", "directory": "/d", "since": 0.0, "node": "n", "boot_id": boot_id()}
    numbers = {"pid": stranger.pid, "start_ticks": start_ticks(stranger.pid)}
    (tmp_path / "n.json").write_text(json.dumps(note | numbers))
    assert holders(tmp_path)[0].alive
    rewrite(tmp_path / "n.json", boot_id=OTHER_BOOT)
    assert not holders(tmp_path)[0].alive
