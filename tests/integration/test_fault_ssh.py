"""The connection to the target breaks in the middle of a cell; or sshd refuses for a while."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from typing import TYPE_CHECKING

import pytest

from tests.integration.faults import THOROUGH, thorough
from tests.integration.local_sshd import LocalSshd, local_sshd
from tests.integration.simulated_sweep import SimulatedSweep
from tests.integration.users_program import SMALL_LOAD

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.root


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[LocalSshd]:
    with local_sshd(tmp_path / "sshd") as server:
        yield server


@pytest.fixture
def simulated(tmp_path: Path, sshd: LocalSshd) -> Iterator[SimulatedSweep]:
    """A simulated node that is reached through sshd."""
    one = SimulatedSweep.create(tmp_path)
    sockets = tempfile.mkdtemp(prefix="ssh-", dir="/tmp")  # paths of sockets must be short
    options = f"-o UserKnownHostsFile={sshd.folder}/known_hosts -o ControlPath={sockets}/%C -o IdentitiesOnly=yes"
    variables = {
        "ansible_connection": "ssh",
        "ansible_port": sshd.port,
        "ansible_user": "root",
        "ansible_ssh_private_key_file": str(sshd.folder / "key"),
        "ansible_ssh_common_args": options,
        "ansible_python_interpreter": sys.executable,
    }
    (one.inventory / "zz_ssh.yml").write_text(
        json.dumps({"all": {"hosts": {"simulated": variables, "simulated_proxmox": variables}}})
    )
    yield one
    one.clean()
    sshd.cut()  # the masters of the connections end with them
    shutil.rmtree(sockets, ignore_errors=True)


def started(simulated: SimulatedSweep) -> subprocess.Popen[str]:
    directory = str(simulated.sweep_directory)
    more = ("--steps", "3", "--blocks", "1", "--no-confirm")
    return simulated.start("sweep", "-i", str(simulated.inventory), "--dir", directory, *more, *SMALL_LOAD)


def resumed(simulated: SimulatedSweep) -> None:
    done = simulated.run("sweep", "--resume", str(simulated.sweep_directory), "-i", str(simulated.inventory))
    assert done.returncode == 0, done.stderr
    assert {states.count("done") for states in simulated.states().values()} == {1}
    assert len(simulated.states()) == 2
    assert simulated.server_processes() == []


def test_a_connection_that_breaks_while_a_server_loads(simulated: SimulatedSweep, sshd: LocalSshd) -> None:
    simulated.node.configure(faults={"hang_at": "weights"})
    process = started(simulated)
    simulated.wait_for("cell", state="launching")
    simulated.wait_for_server()
    assert sshd.cut()
    simulated.node.configure(faults={})
    _, err = process.communicate(timeout=240)
    assert process.returncode == 3, err
    assert "the target cannot be reached" in err
    assert "--resume" in err
    assert "Traceback" not in err
    # The stop that follows has a connection of its own: nothing is left running.
    assert simulated.server_processes() == []
    if THOROUGH:
        resumed(simulated)


@thorough
def test_a_target_that_refuses_for_a_while_keeps_a_server_that_is_not_forgotten(
    simulated: SimulatedSweep, sshd: LocalSshd
) -> None:
    process = started(simulated)
    simulated.wait_for("cell", state="measuring")
    sshd.go_away()
    _, err = process.communicate(timeout=240)
    assert process.returncode == 3, err
    assert "the target cannot be reached" in err
    assert "the server could not be stopped" in err
    assert "Traceback" not in err
    assert simulated.server_processes() != []
    down = simulated.run("status", "-i", str(simulated.inventory))
    assert down.returncode == 3
    assert "Traceback" not in down.stderr
    sshd.start()
    status = simulated.run("status", "-i", str(simulated.inventory))
    assert "may still be running; its controller is gone" in status.stdout
    resumed(simulated)


@thorough
def test_a_connection_that_breaks_while_a_cell_is_measured_costs_that_cell_nothing(
    simulated: SimulatedSweep, sshd: LocalSshd
) -> None:
    process = started(simulated)
    simulated.wait_for("cell", state="measuring")
    assert sshd.cut()
    _, err = process.communicate(timeout=240)
    # The load has its own way; the restart that was prepared meanwhile has lost its connection, or finds a new one.
    assert process.returncode in (0, 3), err
    assert "Traceback" not in err
    assert next(iter(simulated.states().values()))[-1] == "done"
    resumed(simulated)
